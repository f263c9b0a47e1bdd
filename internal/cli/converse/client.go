// Package converse is a client of a conversation at a terminal: it posts messages, prints answers as
// they stream, and runs a prompt. The command packages that call a server use it. It does not depend
// on a node.
//
// A [Chat] owns the terminal while it runs. Types are not safe for concurrent use unless documented.
package converse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
)

// NewClient returns a client with an access. It calls warn with the cause of each retry.
func NewClient(at *url.URL, access Access, warn func(error)) (*client.Conversation, error) {
	o := access.Options()
	o.Retrying = warn
	return client.New(at.String(), o)
}

// Notices reports once that a server does not respond, so that the user knows the reason of a delay.
type Notices struct {
	At     *url.URL
	ErrOut io.Writer
	// Notice prints a line during other output; nil if there is none.
	Notice   func(errOut io.Writer, format string, args ...any)
	reported bool
}

// Retrying prints the cause of the first retry.
func (t *Notices) Retrying(err error) {
	if t.reported {
		return
	}
	t.reported = true
	t.Line("no response from %s://%s, retrying (is the server running?): %v", t.At.Scheme, t.At.Host, err)
}

// Line prints a line.
func (t *Notices) Line(format string, args ...any) {
	if t.Notice != nil {
		t.Notice(t.ErrOut, format, args...)
		return
	}
	fmt.Fprintf(t.ErrOut, "parley: "+format+"\n", args...)
}

// Post sends a message with the retries of the client. If the first attempt cannot connect, it fails
// at once: nothing was admitted.
func Post(ctx context.Context, t *Notices, access Access, m client.Message) (c *client.Conversation, receipt client.Receipt, err error) {
	err = t.Reach(ctx, func(sending context.Context, retrying func(error)) (err error) {
		if c, err = NewClient(t.At, access, retrying); err == nil {
			receipt, err = c.Send(sending, m)
		}
		return err
	})
	return c, receipt, NotAdmitted(err)
}

// NotAdmitted adds to an error of Reach that nothing was admitted, if there was no server.
func NotAdmitted(err error) error {
	var unsent *unreachedError
	if errors.As(err, &unsent) {
		err = fmt.Errorf("post: %w", fmt.Errorf("nothing was admitted: %w, and resend it", unsent))
	}
	return err
}

// unreachedError reports that there is no server.
type unreachedError struct {
	at    *url.URL
	cause error
}

// Error implements error.
func (e *unreachedError) Error() string {
	return fmt.Sprintf("there is no server at %s://%s (%v); start it, for example with parley dev, or correct the URL", e.at.Scheme, e.at.Host, e.cause)
}

// Unwrap returns the cause.
func (e *unreachedError) Unwrap() error { return e.cause }

// Reach calls do with a function for the cause of each retry. If the first attempt cannot connect, it
// fails at once with an error that names the server.
func (t *Notices) Reach(ctx context.Context, do func(ctx context.Context, retrying func(error)) error) error {
	trying, cancel := context.WithCancel(ctx)
	defer cancel()
	done, doubt := false, false
	var unsent *client.UnsentError
	err := do(trying, func(err error) {
		if !done && !doubt && errors.As(err, &unsent) {
			cancel()
			return
		}
		doubt = true
		t.Retrying(err)
	})
	done = true
	if err != nil && !doubt && ctx.Err() == nil && (unsent != nil || errors.As(err, &unsent)) {
		cause := error(unsent)
		if inner := errors.Unwrap(unsent.Err); inner != nil {
			cause = inner
		}
		err = fmt.Errorf("reach: %w", &unreachedError{t.At, cause})
	}
	return err
}

// Unsure rewrites an error of a post whose outcome may be unknown, for the user.
func Unsure(ctx context.Context, verb, desc, key string, err error) error {
	again := fmt.Sprintf("resend it with --key %s to avoid a duplicate", key)
	var uncertain *client.UncertainError
	var answered *client.Error
	switch {
	case ctx.Err() != nil:
		return &cli.ExitError{Code: cli.ExitInterrupted, Err: fmt.Errorf("interrupted; it is unknown whether the %s was accepted: %s", desc, again)}
	case errors.As(err, &uncertain) && errors.As(uncertain.Err, &answered) && answered.Type == conversation.CodeUnavailable:
		return fmt.Errorf("%s: the server cannot accept the %s now: %w; %s", verb, desc, answered, again)
	case errors.As(err, &uncertain):
		return fmt.Errorf("%s: %w; %s", verb, Readable(err), again)
	}
	return fmt.Errorf("%s: %w", verb, Readable(err))
}

// Readable rewrites an error of the client for the user. It omits the method and the URL, which the
// user typed, and adds the remedy for a missing token.
func Readable(err error) error {
	if cause := errors.Unwrap(err); cause != nil {
		err = cause
	}
	var refused *client.Error
	switch {
	case !errors.As(err, &refused):
	case refused.Status == http.StatusUnauthorized:
		return fmt.Errorf("%w (put the token into an environment variable and name it with --token-env)", err)
	case refused.Status == http.StatusNotFound && refused.Type == "":
		return fmt.Errorf("%w (check the URL: it is not an agent or a workflow of a Parley server)", err)
	}
	return err
}

// ParseURL parses the URL of a conversation.
func ParseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(escaped(raw))
	if err != nil || u.Host == "" || strings.Trim(u.Path, "/") == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, cli.Usage(fmt.Errorf("%q is not a conversation URL; it looks like http://127.0.0.1:5173%s/<id>", raw, cli.MountPath))
	}
	u.RawQuery, u.ForceQuery, u.Fragment = "", false, ""
	return u, nil
}

// escaped escapes the characters of a URL that must be escaped. A user may escape only some characters
// of an id, at least "%2F"; package url would drop these escapes if others were missing.
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
