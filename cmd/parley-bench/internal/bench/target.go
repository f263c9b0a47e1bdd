package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/parleyrun/parley/providers/sse"
)

// spoken marks chunks with text of the agent.
const spoken = `"message-delta"`

// target is the URL of an agent on a server. It is safe for concurrent use.
type target struct {
	*pool
	client *http.Client // for streams
	token  string       // "" sends none.
}

// newTarget returns a target that keeps its connections open and uses no compression, so that neither
// handshakes nor codecs are measured.
func newTarget(base, token string) (*target, error) {
	at, err := url.Parse(strings.TrimRight(base, "/"))
	if err != nil {
		return nil, err
	}
	p := &pool{at: at}
	if token != "" {
		p.headers = "Authorization: Bearer " + token + "\r\n"
	}
	return &target{pool: p, client: newClient(), token: token}, nil
}

// newClient returns the client for streams and for requests that are not timed. It keeps as many
// connections open as a run needs at once.
func newClient() *http.Client {
	const connections = 4096
	return &http.Client{Transport: &http.Transport{
		MaxIdleConns: connections, MaxIdleConnsPerHost: connections, DisableCompression: true,
	}}
}

// fetch sends a request that is not timed, and returns the body. Any other status is an error.
func fetch(ctx context.Context, by *http.Client, method, url string, body []byte, status int) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := by.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err == nil && resp.StatusCode != status {
		err = fmt.Errorf("%s %s answered %d: %.200s", method, url, resp.StatusCode, b)
	}
	return b, err
}

func (t *target) close() {
	t.client.CloseIdleConnections()
	t.pool.close()
}

func (t *target) path(id, query string) string {
	path := t.at.EscapedPath() + "/" + url.PathEscape(id)
	if query != "" {
		path += "?" + query
	}
	return path
}

// call sends a request and returns the whole answer. Any other status is an error.
func (t *target) call(ctx context.Context, method, id, query, body string, status int) ([]byte, http.Header, error) {
	resp, b, err := t.ask(ctx, method, t.path(id, query), body)
	if err != nil {
		return nil, nil, fmt.Errorf("%s %s: %w", method, id, err)
	}
	if resp.StatusCode != status {
		return nil, nil, fmt.Errorf("%s %s answered %d: %.200s", method, id, resp.StatusCode, b)
	}
	return b, resp.Header, nil
}

func (t *target) get(ctx context.Context, id, query string) ([]byte, time.Duration, error) {
	start := time.Now()
	b, _, err := t.call(ctx, http.MethodGet, id, query, "", http.StatusOK)
	return b, time.Since(start), err
}

type receipt struct {
	Offset       string `json:"offset"`
	SubmissionID string `json:"submissionId"`
}

// message returns the body of an admission: a text, and a key unless it is "".
func message(text, key string) string {
	b, err := json.Marshal(struct {
		Kind string `json:"kind"`
		Body string `json:"body"`
		Key  string `json:"idempotencyKey,omitempty"`
	}{"user", text, key})
	if err != nil {
		panic(err) // Strings always marshal.
	}
	return string(b)
}

func (t *target) post(ctx context.Context, id, text string) (r receipt, took time.Duration, err error) {
	body, start := message(text, ""), time.Now()
	b, _, err := t.call(ctx, http.MethodPost, id, "", body, http.StatusAccepted)
	took = time.Since(start)
	if err != nil {
		return r, 0, err
	}
	r, err = readReceipt(b)
	return r, took, err
}

func readReceipt(b []byte) (r receipt, err error) {
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("decode receipt: %w", err)
	}
	if r.Offset == "" || r.SubmissionID == "" {
		err = fmt.Errorf("receipt %.200s lacks an offset or a submission", b)
	}
	return r, err
}

// settled looks for the settlement of a submission in chunks. An outcome other than completed is an
// error.
func settled(chunks []byte, submission string) (bool, error) {
	if !bytes.Contains(chunks, []byte("submission-settled")) && !bytes.Contains(chunks, []byte("conversation-reset")) {
		return false, nil
	}
	type settlement struct{ SubmissionID, Outcome string }
	var list []struct {
		settlement
		Type     string
		Snapshot struct{ Settlements []settlement }
	}
	if err := json.Unmarshal(chunks, &list); err != nil {
		return false, fmt.Errorf("decode chunks: %w", err)
	}
	for _, c := range list {
		all := c.Snapshot.Settlements
		if c.Type == "submission-settled" {
			all = append(all, c.settlement)
		}
		for _, s := range all {
			if s.SubmissionID == submission && s.Outcome != "completed" {
				return true, fmt.Errorf("submission %s is %s", submission, s.Outcome)
			} else if s.SubmissionID == submission {
				return true, nil
			}
		}
	}
	return false, nil
}

// poll long-polls after an offset until found returns true, and returns the offset after those chunks.
func (t *target) poll(ctx context.Context, id, after string, found func(chunks []byte) (bool, error)) (string, error) {
	for {
		b, h, err := t.call(ctx, http.MethodGet, id, "view=updates&live=long-poll&offset="+url.QueryEscape(after), "", http.StatusOK)
		if err != nil {
			return "", err
		}
		if after = h.Get("Stream-Next-Offset"); after == "" {
			return "", errors.New("updates lack Stream-Next-Offset")
		}
		if done, err := found(b); done || err != nil {
			return after, err
		}
	}
}

// settle waits until a submission is completed, and returns the offset after its settlement. Any other
// outcome is an error.
func (t *target) settle(ctx context.Context, id string, r receipt) (string, error) {
	return t.poll(ctx, id, r.Offset, func(chunks []byte) (bool, error) { return settled(chunks, r.SubmissionID) })
}

// firstText waits for the first text of the agent.
func (t *target) firstText(ctx context.Context, id string, r receipt) error {
	_, err := t.poll(ctx, id, r.Offset, func(chunks []byte) (bool, error) { return bytes.Contains(chunks, []byte(spoken)), nil })
	return err
}

// turn sends a message, waits for its settlement, and returns the total time and the offset after it.
func (t *target) turn(ctx context.Context, id, text string) (time.Duration, string, error) {
	start := time.Now()
	r, _, err := t.post(ctx, id, text)
	if err != nil {
		return 0, "", err
	}
	next, err := t.settle(ctx, id, r)
	return time.Since(start), next, err
}

// turns returns an operation that runs a turn in the i-th conversation.
func (t *target) turns(id func(i int) string, text string) operation {
	return func(ctx context.Context, i int) (time.Duration, error) {
		took, _, err := t.turn(ctx, id(i), text)
		return took, err
	}
}

func numbered(prefix string) func(int) string {
	return func(i int) string { return fmt.Sprintf("%s-%06d", prefix, i) }
}

// stream is a live read by server-sent events. It belongs to one goroutine.
type stream struct {
	body   io.ReadCloser
	events *sse.Reader
}

// streams opens n live reads from the head of a conversation.
func (t *target) streams(ctx context.Context, id string, n int) (all []*stream, err error) {
	_, h, err := t.call(ctx, http.MethodHead, id, "", "", http.StatusOK)
	for range n {
		var s *stream
		if err == nil {
			s, err = t.stream(ctx, id, h.Get("Stream-Next-Offset"))
		}
		all = append(all, s)
	}
	if err != nil {
		for _, s := range all {
			s.close()
		}
	}
	return all, err
}

// stream opens a live read after an offset and waits until it has caught up.
func (t *target) stream(ctx context.Context, id, after string) (*stream, error) {
	s, err := t.follow(ctx, id, after)
	for err == nil {
		var e sse.Event
		if e, err = s.events.Next(); err == nil && e.Name == "control" && bytes.Contains(e.Data, []byte("upToDate")) {
			return s, nil
		}
	}
	s.close()
	return nil, fmt.Errorf("read stream %s: %w", id, err)
}

func (t *target) follow(ctx context.Context, id, after string) (*stream, error) {
	return t.open(ctx, t.path(id, "view=updates&live=sse&offset="+url.QueryEscape(after)))
}

func (t *target) open(ctx context.Context, path string) (*stream, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.at.Scheme+"://"+t.at.Host+path, nil)
	if err != nil {
		return nil, err
	}
	if t.token != "" {
		req.Header.Set("Authorization", "Bearer "+t.token)
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return nil, err
	}
	s := &stream{body: resp.Body, events: sse.NewReader(resp.Body, nil)}
	if resp.StatusCode != http.StatusOK {
		s.close()
		return nil, fmt.Errorf("stream %s answered %d", path, resp.StatusCode)
	}
	return s, nil
}

// until reads chunks until found returns true. The chunks are valid until the next read.
func (s *stream) until(found func(chunks []byte) bool) error {
	for {
		e, err := s.events.Next()
		if err != nil {
			return fmt.Errorf("read stream: %w", err)
		}
		if e.Name == "data" && found(e.Data) {
			return nil
		}
	}
}

// over reports whether chunks end a turn. It does not decode JSON: with hundreds of readers, decoding
// would dominate the measurement.
func over(chunks []byte) bool { return bytes.Contains(chunks, []byte(`"submission-settled"`)) }

// close closes the connection, which is the only way to end a live read.
func (s *stream) close() {
	if s != nil {
		_ = s.body.Close()
	}
}
