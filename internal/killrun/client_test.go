package killrun_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// site is where the server of the moment is reached.
type site struct {
	mu      sync.Mutex
	base    string
	changed chan struct{}
}

func newSite() *site { return &site{changed: make(chan struct{})} }

// set says where it is, "" for nowhere.
func (s *site) set(base string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.base = base
	close(s.changed)
	s.changed = make(chan struct{})
}

// get waits until there is a server.
func (s *site) get(ctx context.Context) (string, error) {
	for {
		s.mu.Lock()
		base, changed := s.base, s.changed
		s.mu.Unlock()
		if base != "" {
			return base, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// post is one message, however often it is sent.
type post struct {
	Key     string
	Op      op
	Body    []byte
	Image   []byte
	Receipt *conversation.Receipt // Nil as long as no 202 was read.
	Tries   int
}

// newPost makes the message of an op; the key decides its bytes.
func newPost(key string, o op) *post {
	p := &post{Key: key, Op: o}
	body := map[string]any{"kind": "user", "body": o.script(), "idempotencyKey": key}
	if o.Signal {
		body["kind"], body["type"] = "signal", "note"
	}
	if o.Image > 0 {
		src := rand.NewChaCha8([32]byte([]byte(fmt.Sprintf("%32.32s", key))))
		p.Image = make([]byte, o.Image)
		_, _ = src.Read(p.Image) // It never fails.
		body["attachments"] = []any{map[string]any{
			"type": "image", "mimeType": "image/png", "data": base64.StdEncoding.EncodeToString(p.Image),
		}}
	}
	var err error
	if p.Body, err = json.Marshal(body); err != nil {
		panic(err) // Maps of texts have a JSON form.
	}
	return p
}

// client sends requests to whatever server there is.
type client struct {
	http   *http.Client
	events *counters
	cut    atomic.Int64 // Messages that had left when their connection broke.
	found  atomic.Int64 // First receipts for a message that was admitted before.
}

func newClient(events *counters) *client {
	return &client{http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}, events: events}
}

// statusError is an answer that no server may give here.
type statusError struct {
	request string
	status  int
	body    []byte
}

// Error implements error.
func (e *statusError) Error() string {
	return fmt.Sprintf("%s: status %d: %.500s", e.request, e.status, e.body)
}

// errBusy is a 503: later, the same request may do.
var errBusy = errors.New("the server is not available")

// do sends a request and reads the answer. A *statusError is an answer other than
// 200, 202 and 503; any other error says that there was no whole answer.
func (c *client) do(ctx context.Context, method, url string, body []byte) ([]byte, http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, nil, err
	}
	switch resp.StatusCode {
	case http.StatusOK, http.StatusAccepted:
		return answer, resp.Header, nil
	case http.StatusServiceUnavailable:
		return nil, nil, errBusy
	}
	return nil, nil, &statusError{method + " " + url, resp.StatusCode, answer}
}

// send posts a message until it is answered, a connection fails or ctx ends. Only
// a receipt that breaks a promise is an error beside those.
func (c *client) send(ctx context.Context, base string, p *post) error {
	var written atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			written.Store(info.Err == nil)
			c.events.add(atPost)
		},
	})
	for {
		p.Tries++
		written.Store(false)
		answer, header, err := c.do(traced, http.MethodPost, base+roomPath(p.Op.Room), p.Body)
		if errors.Is(err, errBusy) && pause(ctx, 10*time.Millisecond) == nil {
			continue
		}
		if err != nil {
			if written.Load() {
				c.cut.Add(1)
			}
			return err
		}
		c.events.add(atAck)
		var r conversation.Receipt
		if err := json.Unmarshal(answer, &r); err != nil {
			return &promiseError{fmt.Sprintf("receipt %s: %v", answer, err)}
		}
		if got := header.Get("Stream-Next-Offset"); got != r.Offset.String() {
			return &promiseError{fmt.Sprintf("receipt %s has the header %s", answer, got)}
		}
		again := r.Deduplicated
		r.Deduplicated = false
		if p.Receipt != nil && (!again || *p.Receipt != r) {
			return &promiseError{fmt.Sprintf("key %s was answered with %+v, then with %s", p.Key, *p.Receipt, answer)}
		}
		if p.Tries == 1 && again {
			return &promiseError{fmt.Sprintf("key %s is new and was answered with %s", p.Key, answer)}
		}
		if p.Receipt == nil && again {
			c.found.Add(1)
		}
		p.Receipt = &r
		return nil
	}
}

// promiseError is an answer that breaks a promise.
type promiseError struct{ what string }

// Error implements error.
func (e *promiseError) Error() string { return e.what }

// broken reports whether an error is a violation, and not what a kill does.
func broken(err error) bool {
	var status *statusError
	var promise *promiseError
	return errors.As(err, &status) || errors.As(err, &promise)
}

// abort asks for an abort; it reports what was answered.
func (c *client) abort(ctx context.Context, base string, n int) (aborted bool, err error) {
	answer, _, err := c.do(ctx, http.MethodPost, base+roomPath(n)+"/abort", nil)
	if err != nil {
		return false, err
	}
	var v struct{ Aborted *bool }
	if err := json.Unmarshal(answer, &v); err != nil || v.Aborted == nil {
		return false, &promiseError{fmt.Sprintf("abort answered %s", answer)}
	}
	return *v.Aborted, nil
}

// history reads a snapshot; nil is a conversation that does not exist.
func (c *client) history(ctx context.Context, base string, n int) (*conversation.Snapshot, []byte, error) {
	answer, header, err := c.do(ctx, http.MethodGet, base+roomPath(n), nil)
	var status *statusError
	if errors.As(err, &status) && status.status == http.StatusNotFound {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	var s conversation.Snapshot
	if err := json.Unmarshal(answer, &s); err != nil {
		return nil, nil, &promiseError{fmt.Sprintf("snapshot %s: %v", answer, err)}
	}
	if got := header.Get("Stream-Next-Offset"); got != s.Offset.String() {
		return nil, nil, &promiseError{fmt.Sprintf("snapshot at %s has the header %s", s.Offset, got)}
	}
	return &s, answer, nil
}

// pause waits, or returns why ctx ended.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
