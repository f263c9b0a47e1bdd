package converse

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/internal/cli"
)

// AccessFlags are the flags with which a command authenticates at a server, and what a
// gateway in front of the server asks for. The zero value sends nothing.
type AccessFlags struct {
	tokenEnv string
	headers  []string
}

// Add adds the flags. A token itself is never an argument: other users of the machine see
// those.
func (f *AccessFlags) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.tokenEnv, "token-env", "", "environment variable that holds the bearer token of the server")
	cmd.Flags().StringArrayVar(&f.headers, "header", nil,
		"send this header with each request, as 'Name: value'; may be given again. Other users of the machine see it")
}

// Access is the token and the headers that requests carry.
type Access struct {
	Token  string
	Header http.Header
}

// Access returns the token of the variable and the headers. An [*HeaderError] is a wrong
// command line.
func (f *AccessFlags) Access() (Access, error) {
	header, err := headersOf(f.headers)
	if err == nil && f.tokenEnv != "" && header.Get("Authorization") != "" {
		err = &HeaderError{Name: "Authorization", Problem: "it is also made of --token-env; give one of the two"}
	}
	if err != nil {
		return Access{}, cli.Usage(err)
	}
	token, err := tokenOf(f.tokenEnv)
	return Access{Token: token, Header: header}, err
}

// Options returns the options of a client that has the access.
func (a Access) Options() *client.Options {
	return &client.Options{
		HTTPClient: &http.Client{CheckRedirect: a.Redirect}, Token: a.Token,
		Header: func(context.Context) (http.Header, error) { return a.Header, nil },
	}
}

// maxRedirects bounds the redirects of one request, as package net/http does.
const maxRedirects = 10

// Redirect is the CheckRedirect of a client that has the access: package net/http would send
// the headers to other hosts.
func (a Access) Redirect(r *http.Request, via []*http.Request) error {
	switch {
	case len(via) >= maxRedirects:
		return fmt.Errorf("the server redirects more than %d times", maxRedirects)
	case len(a.Header) > 0 && r.URL.Host != via[0].URL.Host:
		return errRedirected
	}
	return nil
}

// Set adds the token and the headers to a request.
func (a Access) Set(r *http.Request) {
	if a.Token != "" {
		r.Header.Set("Authorization", "Bearer "+a.Token)
	}
	for name, values := range a.Header {
		r.Header[name] = values
	}
}

// tokenOf returns the token of a variable, none if tokenEnv is "".
func tokenOf(tokenEnv string) (string, error) {
	if tokenEnv == "" {
		return "", nil
	}
	token := strings.TrimSpace(os.Getenv(tokenEnv))
	if token == "" {
		return "", fmt.Errorf("--token-env %s: the variable is not set; put the server's token into it", tokenEnv)
	}
	return token, nil
}

// HeaderError is a value of --header that is not sent. It never holds the value of the header,
// which may be a credential.
type HeaderError struct {
	Name    string // "" if it has none
	Problem string
}

// Error implements error.
func (e *HeaderError) Error() string {
	if e.Name == "" {
		return "--header: " + e.Problem
	}
	return fmt.Sprintf("--header %.100q: %s", e.Name, e.Problem)
}

// reservedHeaders are those that a client or a connection makes itself, and the beginnings of
// names of such.
var (
	reservedHeaders = []string{
		"Accept", "Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Expect", "Host",
		"Idempotency-Key", "If-None-Match", "Keep-Alive", "Last-Event-Id", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	}
	reservedPrefixes = []string{"Parley-", "Proxy-"}
)

// headersOf returns the headers of the values of --header.
func headersOf(given []string) (http.Header, error) {
	all := http.Header{}
	for _, raw := range given {
		name, value, found := strings.Cut(raw, ":")
		value = strings.Trim(value, " \t")
		switch {
		case !found:
			return nil, &HeaderError{Problem: "a header without a colon; write --header 'Name: value'"}
		case !isToken(name):
			return nil, &HeaderError{Problem: "not the name of a header, which is letters, digits and hyphens; write --header 'Name: value'"}
		case value == "":
			return nil, &HeaderError{Name: name, Problem: "no value; write --header 'Name: value', and look whether a variable in it is set"}
		case strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }):
			return nil, &HeaderError{Name: name, Problem: "a control character in the value, such as the end of a line; take it out"}
		}
		name = http.CanonicalHeaderKey(name)
		reserved := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
		switch {
		case slices.Contains(reservedHeaders, name) || slices.ContainsFunc(reservedPrefixes, reserved):
			return nil, &HeaderError{Name: name, Problem: "reserved: the client makes it itself; take it out"}
		case name == "Authorization" && all.Get(name) != "":
			return nil, &HeaderError{Name: name, Problem: "given twice; give it once"}
		}
		all.Add(name, value)
	}
	return all, nil
}

// isToken reports whether s is a token of HTTP, as names of headers are.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	})
}

// errRedirected ends a request with headers that a server sends to another one.
var errRedirected = errors.New("the server redirects to another host, to which the headers of --header are not sent; give the URL of that host")
