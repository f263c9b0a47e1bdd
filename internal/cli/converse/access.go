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

// AccessFlags are the flags for the token and the headers that a server, or a gateway before it,
// requires. The zero value sends none.
type AccessFlags struct {
	tokenEnv string
	headers  []string
}

// Add adds the flags. A token is never an argument, because other users of the machine see arguments.
func (f *AccessFlags) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.tokenEnv, "token-env", "", "environment variable that holds the bearer token of the server")
	cmd.Flags().StringArrayVar(&f.headers, "header", nil,
		"send this header with each request, as 'Name: value'; may be repeated. Other users of the machine can see it")
}

// Access holds the token and the headers of requests.
type Access struct {
	Token  string
	Header http.Header
}

// Access returns the token of the variable and the headers. A [*HeaderError] is a usage error.
func (f *AccessFlags) Access() (Access, error) {
	header, err := headersOf(f.headers)
	if err == nil && f.tokenEnv != "" && header.Get("Authorization") != "" {
		err = &HeaderError{Name: "Authorization", Problem: "--token-env sets it too; use one of the two"}
	}
	if err != nil {
		return Access{}, cli.Usage(err)
	}
	token, err := tokenOf(f.tokenEnv)
	return Access{Token: token, Header: header}, err
}

// Options returns client options with the access.
func (a Access) Options() *client.Options {
	return &client.Options{
		HTTPClient: &http.Client{CheckRedirect: a.Redirect}, Token: a.Token,
		Header: func(context.Context) (http.Header, error) { return a.Header, nil },
	}
}

// maxRedirects bounds the redirects of one request, as in package net/http.
const maxRedirects = 10

// Redirect implements CheckRedirect. It removes the headers for other hosts, to which package net/http
// would send them.
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

// tokenOf returns the token of a variable, "" if tokenEnv is "".
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

// HeaderError reports a value of --header that is not sent. It never includes the value of the header,
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

// Headers, and prefixes of headers, that the client or the connection sets itself.
var (
	reservedHeaders = []string{
		"Accept", "Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Expect", "Host",
		"Idempotency-Key", "If-None-Match", "Keep-Alive", "Last-Event-Id", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	}
	reservedPrefixes = []string{"Parley-", "Proxy-"}
)

// headersOf parses the values of --header.
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
			return nil, &HeaderError{Name: name, Problem: "no value; write --header 'Name: value', and check that its variable is set"}
		case strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }):
			return nil, &HeaderError{Name: name, Problem: "a control character in the value, such as a line end; remove it"}
		}
		name = http.CanonicalHeaderKey(name)
		reserved := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
		switch {
		case slices.Contains(reservedHeaders, name) || slices.ContainsFunc(reservedPrefixes, reserved):
			return nil, &HeaderError{Name: name, Problem: "reserved: the client sets it itself; remove it"}
		case name == "Authorization" && all.Get(name) != "":
			return nil, &HeaderError{Name: name, Problem: "given twice; use it once"}
		}
		all.Add(name, value)
	}
	return all, nil
}

// isToken reports whether s is an HTTP token, as header names must be.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	})
}

// errRedirected ends a request with headers that a server sends to another one.
var errRedirected = errors.New("the server redirects to another host, to which the headers of --header are not sent; give the URL of that host")
