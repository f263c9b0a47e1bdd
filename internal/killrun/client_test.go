package killrun_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/fakemodel"
	"github.com/parleyrun/parley/internal/noderun"
)

// site holds the address of the current server.
type site struct {
	mu      sync.Mutex
	base    string
	changed chan struct{}
}

func newSite() *site { return &site{changed: make(chan struct{})} }

// set sets the URL, "" for none.
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

// post is one message, over all its tries.
type post struct {
	Key     string
	Op      op
	Body    []byte
	Image   []byte
	Receipt *conversation.Receipt // nil until a 202 was read
	Tries   int
}

// newPost makes the message of an op; the key determines its bytes.
func newPost(key string, o op) *post {
	p := &post{Key: key, Op: o}
	body := map[string]any{"kind": "user", "body": o.script(), "idempotencyKey": key}
	if o.Signal {
		body["kind"], body["type"] = "signal", "note"
	}
	if o.Image > 0 {
		src := rand.NewChaCha8([32]byte([]byte(fmt.Sprintf("%32.32s", key))))
		p.Image = make([]byte, o.Image)
		_, _ = src.Read(p.Image)
		copy(p.Image, fakemodel.PictureHead) // Without this head it is not sent to the model.
		body["attachments"] = []any{map[string]any{
			"type": "image", "mimeType": "image/png", "data": base64.StdEncoding.EncodeToString(p.Image),
		}}
	}
	var err error
	if p.Body, err = json.Marshal(body); err != nil {
		panic(err) // Maps of strings always marshal.
	}
	return p
}

// client sends requests to the current server.
type client struct {
	*noderun.Client
	events *counters
	cut    atomic.Int64 // messages already sent when their connection broke
	found  atomic.Int64 // first receipts for messages admitted before
}

func newClient(events *counters) *client {
	return &client{Client: noderun.NewClient(liveness), events: events}
}

// send posts a message until it is answered, a connection fails or ctx ends. It also returns an error
// for a receipt that breaks a promise.
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
		answer, header, err := c.Do(traced, http.MethodPost, base+roomPath(p.Op.Room), p.Body)
		if errors.Is(err, noderun.ErrBusy) && noderun.Pause(ctx, 10*time.Millisecond) == nil {
			continue
		}
		if err != nil {
			if written.Load() {
				c.cut.Add(1)
			}
			return err
		}
		c.events.add(atAck)
		r, err := noderun.ReadReceipt(answer, header)
		if err != nil {
			return err
		}
		again := r.Deduplicated
		r.Deduplicated = false
		if p.Receipt != nil && (!again || *p.Receipt != r) {
			return noderun.Breach("key %s was answered with %+v, then with %s", p.Key, *p.Receipt, answer)
		}
		if p.Tries == 1 && again {
			return noderun.Breach("key %s is new and was answered with %s", p.Key, answer)
		}
		if p.Receipt == nil && again {
			c.found.Add(1)
		}
		p.Receipt = &r
		return nil
	}
}

func (c *client) abort(ctx context.Context, base string, n int) (aborted bool, err error) {
	answer, _, err := c.Do(ctx, http.MethodPost, base+roomPath(n)+"/abort", nil)
	if err != nil {
		return false, err
	}
	var v struct{ Aborted *bool }
	if err := json.Unmarshal(answer, &v); err != nil || v.Aborted == nil {
		return false, noderun.Breach("abort answered %s", answer)
	}
	return *v.Aborted, nil
}

// get reads from a running server. It retries a 503, which the server sends while its bucket is
// unreachable.
func (c *client) get(ctx context.Context, url string) (answer []byte, header http.Header, err error) {
	for again := true; again; {
		answer, header, err = c.Do(ctx, http.MethodGet, url, nil)
		again = errors.Is(err, noderun.ErrBusy) && noderun.Pause(ctx, 10*time.Millisecond) == nil
	}
	return answer, header, err
}

// history reads a snapshot; nil means that the conversation does not exist.
func (c *client) history(ctx context.Context, base string, n int) (*conversation.Snapshot, []byte, error) {
	answer, header, err := c.get(ctx, base+roomPath(n))
	if noderun.Missing(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	s, err := noderun.ReadSnapshot(answer, header)
	return s, answer, err
}
