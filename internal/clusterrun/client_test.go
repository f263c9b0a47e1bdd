package clusterrun_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// answerWithin is how long a client waits for an answer before it asks another node.
const answerWithin = 8 * time.Second

// sent is one message, however often it is sent.
type sent struct {
	Key     string
	Body    []byte
	Tries   int
	Call    time.Time
	Back    time.Time
	Receipt *conversation.Receipt // Nil as long as no 202 was read.
}

// newSent makes a message of a key and what the model is to do.
func newSent(key, script string) *sent {
	text := secret + key + " " + script
	body, err := json.Marshal(map[string]any{"kind": "user", "body": text, "idempotencyKey": key})
	if err != nil {
		panic(err) // Maps of texts have a JSON form.
	}
	return &sent{Key: key, Body: body}
}

// keyIn finds the key of a message in what it says.
func keyIn(text string) string {
	if m := regexp.MustCompile(regexp.QuoteMeta(secret) + `(\S+)`).FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

// client sends requests to any node.
type client struct {
	http *http.Client
	*cluster
}

func newClient(c *cluster) *client {
	return &client{&http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 512, IdleConnTimeout: time.Minute}}, c}
}

// any returns a node at random, also one that does not run.
func (c *client) any(r *rand.Rand) *node { return c.nodes[r.IntN(len(c.nodes))] }

// statusError is an answer other than 200, 202 and 503.
type statusError struct {
	request string
	status  int
	body    []byte
}

// Error implements error.
func (e *statusError) Error() string {
	return fmt.Sprintf("%s: status %d: %.500s", e.request, e.status, e.body)
}

// promiseError is an answer that breaks a promise.
type promiseError struct{ what string }

// Error implements error.
func (e *promiseError) Error() string { return e.what }

// missing reports whether the node says that there is no such conversation.
func missing(err error) bool {
	var status *statusError
	return errors.As(err, &status) && status.status == http.StatusNotFound
}

// errBusy is a 503: another node, or the same one later, may do.
var errBusy = errors.New("the node is not available")

// broken reports whether an error is a violation, and not what a fault does.
func broken(err error) bool {
	var status *statusError
	var promise *promiseError
	return errors.As(err, &status) || errors.As(err, &promise)
}

// do sends a request and reads the answer. A *statusError is an answer that is not
// expected of a node in any state; any other error says there was no whole answer.
func (c *client) do(ctx context.Context, method, url string, body []byte) ([]byte, http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
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
		if resp.Header.Get("Retry-After") == "" {
			return nil, nil, &promiseError{method + " " + url + ": 503 without Retry-After"}
		}
		return nil, nil, errBusy
	}
	return nil, nil, &statusError{method + " " + url, resp.StatusCode, answer}
}

// send sends a message to one node after the other until it is answered or ctx ends.
func (c *client) send(ctx context.Context, r *rand.Rand, id string, m *sent) error {
	return c.sendTo(ctx, r, c.nodes, id, m)
}

// sendTo is send to some of the nodes.
func (c *client) sendTo(ctx context.Context, r *rand.Rand, nodes []*node, id string, m *sent) error {
	m.Call = time.Now()
	for {
		m.Tries++
		answer, header, err := c.do(ctx, http.MethodPost, nodes[r.IntN(len(nodes))].url(id), m.Body)
		if err == nil {
			return m.take(answer, header)
		}
		if broken(err) {
			return err
		}
		if pause(ctx, milliseconds(r, 20, 200)) != nil {
			return fmt.Errorf("message %s after %d tries: %w", m.Key, m.Tries, err)
		}
	}
}

// take checks a receipt.
func (m *sent) take(answer []byte, header http.Header) error {
	m.Back = time.Now()
	var r conversation.Receipt
	if err := json.Unmarshal(answer, &r); err != nil {
		return &promiseError{fmt.Sprintf("receipt %s: %v", answer, err)}
	}
	if got := header.Get("Stream-Next-Offset"); got != r.Offset.String() {
		return &promiseError{fmt.Sprintf("receipt %s has the header %s", answer, got)}
	}
	m.Receipt = &r
	return nil
}

// look is what one read of a conversation at a node has shown, and when.
type look struct {
	Node       int
	Call, Back time.Time
	At         bool                // It named an offset of a batch,
	After      conversation.Offset // which was this.
	Next       conversation.Offset // Start for a conversation that did not exist.
	Whole      bool                // The keys are those of all messages.
	UpToDate   bool
	Keys       []string // Of the messages in it, in order.
}

// snapshot reads a whole conversation.
func (c *client) snapshot(ctx context.Context, n *node, id string) (look, error) {
	l := look{Node: n.number, Call: time.Now(), After: conversation.Start, Next: conversation.Start, Whole: true, UpToDate: true}
	answer, header, err := c.do(ctx, http.MethodGet, n.url(id), nil)
	l.Back = time.Now()
	if missing(err) {
		return l, nil
	}
	if err != nil {
		return l, err
	}
	var s conversation.Snapshot
	if err := json.Unmarshal(answer, &s); err != nil {
		return l, &promiseError{fmt.Sprintf("snapshot %s: %v", answer, err)}
	}
	if got := header.Get("Stream-Next-Offset"); got != s.Offset.String() {
		return l, &promiseError{fmt.Sprintf("snapshot at %s has the header %s", s.Offset, got)}
	}
	l.Next, l.Keys = s.Offset, keysOf(&s)
	return l, nil
}

// updates reads what was recorded after an offset, as far as one answer goes.
func (c *client) updates(ctx context.Context, n *node, id string, after conversation.Offset) (look, []seenChunk, error) {
	l := look{Node: n.number, Call: time.Now(), At: after != conversation.Start, After: after}
	answer, header, err := c.do(ctx, http.MethodGet, n.url(id)+"?view=updates&offset="+after.String(), nil)
	l.Back = time.Now()
	if missing(err) && !l.At {
		l.Next, l.Whole, l.UpToDate = conversation.Start, true, true
		return l, nil, nil
	}
	if err != nil {
		return l, nil, err
	}
	seen, err := decodeChunks(answer, after)
	if err != nil {
		return l, nil, err
	}
	if l.Next, err = conversation.ParseOffset(header.Get("Stream-Next-Offset")); err != nil {
		return l, nil, &promiseError{err.Error()}
	}
	l.UpToDate = header.Get("Stream-Up-To-Date") == "true"
	for _, s := range seen {
		switch s.chunk.Type {
		case conversation.ChunkReset:
			l.Whole, l.Keys = true, keysOf(s.chunk.Snapshot)
		case conversation.ChunkAppended:
			if key := keyIn(textOf(s.chunk.Message)); key != "" {
				l.Keys = append(l.Keys, key)
			}
		}
	}
	return l, seen, nil
}

// textOf is the text of a message.
func textOf(m *conversation.Message) (text string) {
	for _, p := range m.Parts {
		if p.Text != nil {
			text += *p.Text
		}
	}
	return text
}

// keysOf are the keys of the messages of users in a snapshot.
func keysOf(s *conversation.Snapshot) (keys []string) {
	for _, m := range s.Messages {
		if m.Role != conversation.RoleUser {
			continue
		}
		if key := keyIn(textOf(&m)); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// seenChunk is a chunk as it came.
type seenChunk struct {
	chunk conversation.Chunk
	raw   json.RawMessage
}

// decodeChunks reads an answer to a read after an offset.
func decodeChunks(data []byte, after conversation.Offset) (seen []seenChunk, err error) {
	var chunks []json.RawMessage
	if err := json.Unmarshal(data, &chunks); err != nil {
		return nil, &promiseError{fmt.Sprintf("chunks %.500s: %v", data, err)}
	}
	last := conversation.Position{Batch: after, Index: 1 << 30}
	for _, raw := range chunks {
		var c conversation.Chunk
		if err := json.Unmarshal(raw, &c); err != nil {
			return nil, &promiseError{fmt.Sprintf("chunk %.500s: %v", raw, err)}
		}
		if c.Position.Compare(last) <= 0 {
			return nil, &promiseError{fmt.Sprintf("chunk at %v comes after %v", c.Position, last)}
		}
		last = c.Position
		seen = append(seen, seenChunk{c, raw})
	}
	return seen, nil
}
