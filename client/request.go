package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync"
	"time"
)

// maxRefusalBytes bounds the read part of an unsuccessful response.
const maxRefusalBytes = 64 << 10

// Headers of admissions; headerNotify is HeaderNotify of package http.
const (
	headerNotify = "Parley-Notify"
	headerKey    = "Idempotency-Key"
	headerAbort  = "Parley-Abort" // HeaderAbort of package http
)

// request is one HTTP request.
type request struct {
	method, url string
	accept      string   // a media type
	body        *payload // nil for none
	notify      string   // target of the settlement
	abort       string   // the extent of an abort
	key         string   // the idempotency key of a body that has none
	// silence is the idle timeout; then replaces it after the response body has begun, if it is not 0.
	silence, then time.Duration
}

// answer is a successful response. Its owner closes it.
type answer struct {
	*http.Response
	parent  context.Context // context of the call, to distinguish its end from the watchdog's
	ctx     context.Context
	dog     *watchdog
	then    time.Duration
	release func()
}

// do sends a request once. An unsuccessful response is an [*Error].
func (c *Conversation) do(parent context.Context, r request) (*answer, error) {
	ctx, cancel := context.WithCancelCause(parent)
	dog := watch(r.silence, cancel)
	release := func() { dog.sleep(); cancel(nil) }
	req, up, err := c.build(ctx, r, dog)
	if err != nil {
		release()
		return nil, err
	}
	release = func() { dog.sleep(); cancel(nil); up.stop() }
	resp, err := c.opts.HTTPClient.Do(req)
	if err != nil {
		err = ended(parent, ctx, dialed(err))
		release()
		if own := up.failure(); own != nil && parent.Err() == nil {
			err = own
		}
		return nil, err
	}
	dog.sleep()
	a := &answer{Response: resp, parent: parent, ctx: ctx, dog: dog, then: r.then, release: release}
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return a, nil
	}
	defer a.Close()
	body, _ := io.ReadAll(io.LimitReader(a, maxRefusalBytes)) // a part is enough
	if parent.Err() != nil {
		return nil, parent.Err()
	}
	return nil, refusal(resp, body)
}

func (c *Conversation) build(ctx context.Context, r request, dog *watchdog) (*http.Request, *upload, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, r.url, nil)
	if err != nil {
		return nil, nil, &callerError{fmt.Errorf("make request: %w", err)}
	}
	if c.opts.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.opts.Token)
	}
	if c.opts.Header != nil {
		h, err := c.opts.Header(ctx)
		if err != nil {
			return nil, nil, &callerError{fmt.Errorf("make headers: %w", err)}
		}
		for name, values := range h {
			req.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	for name, value := range map[string]string{headerNotify: r.notify, headerKey: r.key, headerAbort: r.abort, "Accept": r.accept} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	up := &upload{payload: r.body, dog: dog}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
		req.ContentLength = r.body.length
		req.GetBody = func() (io.ReadCloser, error) { return up.reader(), nil }
		req.Body = up.reader()
	}
	return req, up, nil
}

// ended returns the reason for the end of an exchange: the caller's context, the watchdog, or err.
func ended(parent, ctx context.Context, err error) error {
	if parent.Err() != nil {
		return parent.Err()
	}
	var silent *silenceError
	if errors.As(context.Cause(ctx), &silent) {
		return silent
	}
	return err
}

// Read implements io.Reader. The watchdog runs only during reads, so that a caller may be slow between
// them.
func (a *answer) Read(p []byte) (int, error) {
	a.dog.signal()
	n, err := a.Body.Read(p)
	a.dog.sleep()
	if n > 0 && a.then > 0 {
		a.dog.expect(a.then)
		a.then = 0
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = ended(a.parent, a.ctx, err)
	}
	return n, err
}

// Close implements io.Closer. Unread bytes close the connection.
func (a *answer) Close() error {
	a.release()
	return a.Body.Close()
}

// mediaType returns the media type of the answer, without parameters.
func (a *answer) mediaType() string {
	t, _, _ := mime.ParseMediaType(a.Header.Get("Content-Type"))
	return t
}

// read reads the answer to its end, and closes it.
func (a *answer) read(limit int) ([]byte, error) {
	defer a.Close()
	body, err := io.ReadAll(io.LimitReader(a, int64(limit)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read answer: %w", err)
	case len(body) > limit:
		return nil, &tooLargeError{limit}
	}
	return body, nil
}

// decode reads the answer as one JSON text, and closes it.
func (a *answer) decode(v any, limit int) error {
	body, err := a.read(limit)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return badAnswer("decode %s: %w", a.Header.Get("Content-Type"), err)
	}
	return nil
}

// watchdog cancels an idle exchange while it is armed.
type watchdog struct {
	mu    sync.Mutex
	limit time.Duration
	timer *time.Timer
	awake bool
}

// watch returns an armed watchdog.
func watch(limit time.Duration, cancel context.CancelCauseFunc) *watchdog {
	d := &watchdog{limit: limit, awake: true}
	d.timer = time.AfterFunc(limit, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.awake {
			cancel(&silenceError{d.limit})
		}
	})
	return d
}

// touch restarts the idle time.
func (d *watchdog) touch() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.awake {
		d.timer.Reset(d.limit)
	}
}

func (d *watchdog) signal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.awake = true
	d.timer.Reset(d.limit)
}

func (d *watchdog) sleep() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.awake = false
	d.timer.Stop()
}

// expect changes the idle timeout from the next arming on.
func (d *watchdog) expect(limit time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.limit = limit
}
