package talk

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/internal/cli"
)

// tokenFlag adds the flag that names a token's variable. A token itself is never
// an argument: other users of the machine see those.
func tokenFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "token-env", "", "environment variable that holds the bearer token of the server")
}

// newClient returns a client with the token of a variable, with none if tokenEnv is
// "". It tells warn why something is tried again.
func newClient(at *url.URL, tokenEnv string, warn func(error)) (*client.Conversation, error) {
	token, err := tokenOf(tokenEnv)
	if err != nil {
		return nil, err
	}
	return client.New(at.String(), &client.Options{Retrying: warn, Token: token})
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

// warner says once that a server does not answer, so that nobody waits in the dark.
func warner(out io.Writer, at *url.URL) func(error) {
	said := false
	return func(err error) {
		if said {
			return
		}
		said = true
		fmt.Fprintf(out, "parley: no answer from %s://%s, trying again (is the server running?): %v\n", at.Scheme, at.Host, err)
	}
}

// readable is an error of a client as a user reads it: without the call and the URL,
// which are what they typed, and with what helps against a missing token.
func readable(err error) error {
	if cause := errors.Unwrap(err); cause != nil {
		err = cause
	}
	var refused *client.Error
	if errors.As(err, &refused) && refused.Status == http.StatusUnauthorized {
		return fmt.Errorf("%w (put the token into an environment variable and name that with --token-env)", err)
	}
	return err
}

// conversationURL checks what a user gave as a conversation.
func conversationURL(raw string) (*url.URL, error) {
	u, err := url.Parse(escaped(raw))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is not a conversation URL; it looks like http://127.0.0.1:5173%s/<id>", raw, cli.MountPath)
	}
	u.RawQuery, u.ForceQuery, u.Fragment = "", false, ""
	return u, nil
}

// escaped is a URL as a person writes it with everything escaped that must be. An
// id may be written with some of its characters escaped, "%2F" at least; if others
// were missing, package url would not keep those that are there.
func escaped(raw string) string {
	var b strings.Builder
	for _, c := range []byte(raw) {
		if c >= 0x80 || strings.IndexByte(" \"<>\\^`{|}", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
