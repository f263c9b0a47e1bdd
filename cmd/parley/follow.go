package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers/sse"
)

const (
	// quietAfter is how long a server may say nothing, heartbeats of a live stream
	// included, before it is taken for dead. A live stream says something every 15 s.
	quietAfter = 40 * time.Second
	// Pauses between attempts to reach a server that went away.
	firstPause = 200 * time.Millisecond
	lastPause  = 5 * time.Second
)

// errQuiet is why a request to a server that says nothing is given up.
var errQuiet = fmt.Errorf("the server says nothing for %v", quietAfter)

// httpError is an answer that is not a success.
type httpError struct {
	status int
	kind   string
	text   string
}

// Error implements error.
func (e *httpError) Error() string {
	if e.kind == "" {
		return fmt.Sprintf("the server answered %d: %s", e.status, e.text)
	}
	return fmt.Sprintf("the server answered %d %s: %s", e.status, e.kind, e.text)
}

// final reports whether asking again must end the same way.
func (e *httpError) final() bool {
	return e.status < 500 || e.kind == string(conversation.CodeStreamStoreFailure)
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

// failed turns an unsuccessful response into an error.
func failed(resp *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	var env struct {
		Error struct{ Type, Message, Details string }
	}
	e := &httpError{status: resp.StatusCode, text: strings.TrimSpace(string(body))}
	if json.Unmarshal(body, &env) == nil && env.Error.Type != "" {
		e.kind, e.text = env.Error.Type, strings.TrimSpace(env.Error.Message+" "+env.Error.Details)
	}
	if e.status == http.StatusUnauthorized {
		e.text += " Put the token into an environment variable and name that with --token-env."
	}
	return e
}

// conversationURL checks what a user gave as a conversation.
func conversationURL(raw string) (*url.URL, error) {
	u, err := url.Parse(escaped(raw))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is not a conversation URL; it looks like http://127.0.0.1:5173%s/<id>", raw, mountPath)
	}
	u.RawQuery, u.Fragment = "", ""
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

// errEnough ends a follow.
var errEnough = errors.New("enough")

// follow calls take with every chunk recorded after an offset, each once and in
// order, until take returns errEnough or ctx ends. It reconnects from the last
// offset when the server goes away, and tells warn why it has to.
func (c client) follow(ctx context.Context, at *url.URL, after conversation.Offset, warn func(error), take func(conversation.Chunk) error) error {
	f := &following{client: c, at: at, next: after, last: conversation.Position{Batch: after, Index: 1 << 30}, take: take}
	pause := firstPause
	for {
		progress, err := f.connect(ctx)
		var refused *httpError
		switch {
		case errors.Is(err, errEnough):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &refused) && refused.final():
			return err
		}
		if progress {
			pause = firstPause
		} else {
			warn(err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
		pause = min(2*pause, lastPause)
	}
}

// following is where a follow stands.
type following struct {
	client client
	at     *url.URL
	next   conversation.Offset
	last   conversation.Position
	take   func(conversation.Chunk) error
}

// connect reads one event stream to its end and reports whether it said anything.
func (f *following) connect(ctx context.Context) (progress bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(quietAfter, func() { cancel(errQuiet) })
	defer watchdog.Stop()
	u := *f.at
	u.RawQuery = url.Values{"view": {"updates"}, "offset": {f.next.String()}, "live": {"sse"}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return false, err
	}
	resp, err := f.client.do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return false, failed(resp)
	}
	reader := sse.NewReader(watched{resp.Body, watchdog}, nil)
	for {
		event, err := reader.Next()
		if err != nil {
			return progress, err
		}
		progress = true
		if err := f.event(event.Name, event.Data); err != nil {
			return progress, err
		}
	}
}

func (f *following) event(name string, data []byte) error {
	switch name {
	case "data":
		var chunks []conversation.Chunk
		if err := json.Unmarshal(data, &chunks); err != nil {
			return fmt.Errorf("decode chunks: %w", err)
		}
		for _, c := range chunks {
			if c.Position.Compare(f.last) <= 0 {
				continue
			}
			f.last = c.Position
			if err := f.take(c); err != nil {
				return err
			}
		}
	case "control":
		var control struct {
			Next conversation.Offset `json:"streamNextOffset"`
		}
		if err := json.Unmarshal(data, &control); err != nil {
			return fmt.Errorf("decode control frame: %w", err)
		}
		f.next = control.Next
	}
	return nil
}

// watched puts off a watchdog with everything that is read.
type watched struct {
	io.Reader
	dog *time.Timer
}

// Read implements io.Reader.
func (w watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if n > 0 {
		w.dog.Reset(quietAfter)
	}
	return n, err
}
