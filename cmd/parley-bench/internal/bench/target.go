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

// target is the mount of an agent on a server. It is safe for concurrent use, but
// for move.
type target struct {
	base    *url.URL
	headers string // Lines of every request.
	whole   *pool
	streams *http.Client
	token   string // "" sends none.
}

// newTarget returns a target that keeps its connections open and compresses
// nothing, so that neither handshakes nor codecs are measured. The base is a URL,
// or "" until it is moved to one.
func newTarget(base, token string) (*target, error) {
	t := &target{token: token, streams: newClient()}
	if token != "" {
		t.headers = "Authorization: Bearer " + token + "\r\n"
	}
	return t, t.move(base)
}

// newClient is for streams, and for what is not timed. As many connections stay
// open as a run needs at once.
func newClient() *http.Client {
	const connections = 4096
	return &http.Client{Transport: &http.Transport{
		MaxIdleConns: connections, MaxIdleConnsPerHost: connections, DisableCompression: true,
	}}
}

// move makes another server the target.
func (t *target) move(base string) error {
	at, err := url.Parse(strings.TrimRight(base, "/"))
	if err != nil {
		return err
	}
	t.close()
	t.base, t.whole = at, &pool{at: at}
	return nil
}

// close ends all connections on which nothing is under way.
func (t *target) close() {
	t.streams.CloseIdleConnections()
	if t.whole != nil {
		t.whole.close()
	}
}

// path is that of a conversation, encoded.
func (t *target) path(id, query string) string {
	path := t.base.EscapedPath() + "/" + url.PathEscape(id)
	if query != "" {
		path += "?" + query
	}
	return path
}

// call returns an answer of a status as a whole.
func (t *target) call(ctx context.Context, method, id, query, body string, status int) ([]byte, http.Header, error) {
	a, err := t.whole.ask(ctx, method, t.path(id, query), t.headers, body)
	if err != nil {
		return nil, nil, fmt.Errorf("%s %s: %w", method, id, err)
	}
	if a.status != status {
		return nil, nil, fmt.Errorf("%s %s answered %d: %.200s", method, id, a.status, a.body)
	}
	return a.body, a.header, nil
}

// receipt is what an admission answers.
type receipt struct {
	Offset       string `json:"offset"`
	SubmissionID string `json:"submissionId"`
}

// message is what an admission sends.
type message struct {
	Kind string `json:"kind"`
	Body string `json:"body"`
}

// post admits a message and returns how long that took.
func (t *target) post(ctx context.Context, id, text string) (receipt, time.Duration, error) {
	body, err := json.Marshal(message{Kind: "user", Body: text})
	if err != nil {
		return receipt{}, 0, err
	}
	start := time.Now()
	b, _, err := t.call(ctx, http.MethodPost, id, "", string(body), http.StatusAccepted)
	took := time.Since(start)
	if err != nil {
		return receipt{}, 0, err
	}
	var r receipt
	if err := json.Unmarshal(b, &r); err != nil {
		return receipt{}, 0, fmt.Errorf("decode receipt: %w", err)
	}
	if r.Offset == "" || r.SubmissionID == "" {
		return receipt{}, 0, fmt.Errorf("receipt %.200s lacks an offset or a submission", b)
	}
	return r, took, nil
}

// settlement is one outcome, as a chunk and in a snapshot.
type settlement struct {
	SubmissionID string `json:"submissionId"`
	Outcome      string `json:"outcome"`
}

// settled looks for the outcome of a submission in chunks.
func settled(chunks []byte, submission string) (bool, error) {
	if !bytes.Contains(chunks, []byte("submission-settled")) && !bytes.Contains(chunks, []byte("conversation-reset")) {
		return false, nil
	}
	var list []struct {
		settlement
		Type     string `json:"type"`
		Snapshot struct {
			Settlements []settlement `json:"settlements"`
		} `json:"snapshot"`
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
			if s.SubmissionID != submission {
				continue
			}
			if s.Outcome != "completed" {
				return true, fmt.Errorf("submission %s is %s", submission, s.Outcome)
			}
			return true, nil
		}
	}
	return false, nil
}

// settle long-polls until a submission is completed, and returns the offset it was
// seen at. Any other outcome is an error.
func (t *target) settle(ctx context.Context, id string, r receipt) (string, error) {
	next := r.Offset
	for {
		b, h, err := t.call(ctx, http.MethodGet, id, "view=updates&live=long-poll&offset="+url.QueryEscape(next), "", http.StatusOK)
		if err != nil {
			return "", err
		}
		if next = h.Get("Stream-Next-Offset"); next == "" {
			return "", errors.New("updates come without Stream-Next-Offset")
		}
		if done, err := settled(b, r.SubmissionID); done || err != nil {
			return next, err
		}
	}
}

// turn sends a message, waits for its outcome, and returns how long both took and
// the offset after it.
func (t *target) turn(ctx context.Context, id, text string) (time.Duration, string, error) {
	start := time.Now()
	r, _, err := t.post(ctx, id, text)
	if err != nil {
		return 0, "", err
	}
	next, err := t.settle(ctx, id, r)
	return time.Since(start), next, err
}

// stream is a live read by server-sent events. It belongs to one goroutine.
type stream struct {
	body   io.ReadCloser
	events *sse.Reader
}

// stream opens a live read and waits until it has caught up.
func (t *target) stream(ctx context.Context, id, after string) (*stream, error) {
	s, err := t.open(ctx, id, after)
	if err != nil {
		return nil, err
	}
	for {
		e, err := s.events.Next()
		if err != nil {
			s.close()
			return nil, fmt.Errorf("read stream %s: %w", id, err)
		}
		if e.Name == "control" && bytes.Contains(e.Data, []byte("upToDate")) {
			return s, nil
		}
	}
}

// open opens a live read.
func (t *target) open(ctx context.Context, id, after string) (*stream, error) {
	at := t.base.Scheme + "://" + t.base.Host + t.path(id, "view=updates&live=sse&offset="+url.QueryEscape(after))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	if t.token != "" {
		req.Header.Set("Authorization", "Bearer "+t.token)
	}
	resp, err := t.streams.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, fmt.Errorf("stream %s answered %d", id, resp.StatusCode)
	}
	return &stream{body: resp.Body, events: sse.NewReader(resp.Body, nil)}, nil
}

// data returns the next chunks; they are valid until the next call.
func (s *stream) data() ([]byte, error) {
	for {
		e, err := s.events.Next()
		if err != nil {
			return nil, fmt.Errorf("read stream: %w", err)
		}
		if e.Name == "data" {
			return e.Data, nil
		}
	}
}

// close gives the connection up: there is no other end of a live read.
func (s *stream) close() { _ = s.body.Close() }
