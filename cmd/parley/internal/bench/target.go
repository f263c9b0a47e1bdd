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

// maxAnswer bounds an answer that is kept, in bytes.
const maxAnswer = 64 << 20

// target is the mount of an agent on a server. It is safe for concurrent use.
type target struct {
	base   string // Without a slash at the end.
	token  string // "" sends none.
	client *http.Client
}

// newTarget returns a target that keeps its connections open and compresses
// nothing, so that neither handshakes nor codecs are measured.
func newTarget(base, token string) *target {
	const connections = 4096
	return &target{
		base: strings.TrimRight(base, "/"), token: token,
		client: &http.Client{Transport: &http.Transport{
			MaxIdleConns: connections, MaxIdleConnsPerHost: connections, DisableCompression: true,
		}},
	}
}

func (t *target) do(ctx context.Context, method, id, query, body string) (*http.Response, error) {
	at := t.base + "/" + url.PathEscape(id)
	if query != "" {
		at += "?" + query
	}
	r, err := http.NewRequestWithContext(ctx, method, at, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if t.token != "" {
		r.Header.Set("Authorization", "Bearer "+t.token)
	}
	return t.client.Do(r)
}

// call returns an answer of a status as a whole.
func (t *target) call(ctx context.Context, method, id, query, body string, status int) ([]byte, http.Header, error) {
	resp, err := t.do(ctx, method, id, query, body)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, nil, fmt.Errorf("read the answer of %s %s: %w", method, id, err)
	}
	if resp.StatusCode != status {
		return nil, nil, fmt.Errorf("%s %s answered %d: %.200s", method, id, resp.StatusCode, b)
	}
	return b, resp.Header, nil
}

// receipt is what an admission answers.
type receipt struct {
	Offset       string `json:"offset"`
	SubmissionID string `json:"submissionId"`
}

// post admits a message and returns how long that took.
func (t *target) post(ctx context.Context, id, text string) (receipt, time.Duration, error) {
	body, err := json.Marshal(map[string]string{"kind": "user", "body": text})
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
	resp, err := t.do(ctx, http.MethodGet, id, "view=updates&live=sse&offset="+url.QueryEscape(after), "")
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, fmt.Errorf("stream %s answered %d", id, resp.StatusCode)
	}
	s := &stream{body: resp.Body, events: sse.NewReader(resp.Body, nil)}
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
