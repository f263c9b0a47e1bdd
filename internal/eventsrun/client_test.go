package eventsrun_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// client sends requests to any node.
type client struct {
	*cluster
	http *http.Client
}

func newClient(c *cluster) *client {
	return &client{c, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256, IdleConnTimeout: time.Minute}}}
}

// statusError is an answer that no node gives in order.
type statusError struct {
	request string
	status  int
	body    []byte
}

// Error implements error.
func (e *statusError) Error() string {
	return fmt.Sprintf("%s: status %d: %.500s", e.request, e.status, e.body)
}

// errBusy is a 503: another node, or the same one later, may do.
var errBusy = errors.New("the node is not available")

// do sends a request to one node after the other until it is answered, or ctx ends.
func (c *client) do(ctx context.Context, r *rand.Rand, method, path string, body []byte) ([]byte, http.Header, error) {
	for {
		answer, header, err := c.try(ctx, method, c.pick(r).url(path), body)
		var flaw *statusError
		if err == nil || errors.As(err, &flaw) {
			return answer, header, err
		}
		if ended := pause(ctx, time.Duration(20+r.IntN(80))*time.Millisecond); ended != nil {
			return nil, nil, fmt.Errorf("%s %s: %w, the last answer: %w", method, path, ended, err)
		}
	}
}

// try sends a request to a node. Any error but a *statusError says to ask another.
func (c *client) try(ctx context.Context, method, url string, body []byte) ([]byte, http.Header, error) {
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
		return nil, nil, errBusy
	}
	return nil, nil, &statusError{method + " " + url, resp.StatusCode, answer}
}

// post sends a message until it is admitted.
func (c *client) post(ctx context.Context, r *rand.Rand, id, key, text string) (receipt conversation.Receipt, err error) {
	body, err := json.Marshal(map[string]any{"kind": "user", "body": text, "idempotencyKey": key})
	if err != nil {
		return receipt, err
	}
	answer, _, err := c.do(ctx, r, http.MethodPost, id, body)
	if err == nil {
		err = json.Unmarshal(answer, &receipt)
	}
	if err != nil {
		return receipt, fmt.Errorf("post message %s: %w", key, err)
	}
	return receipt, nil
}

// abort ends what a conversation owes.
func (c *client) abort(ctx context.Context, r *rand.Rand, id string) error {
	_, _, err := c.do(ctx, r, http.MethodPost, id+"/abort", nil)
	return err
}

// settled waits for the settlement of what was admitted.
func (c *client) settled(ctx context.Context, r *rand.Rand, id string, receipt conversation.Receipt) (conversation.Outcome, error) {
	after := receipt.Offset.String()
	for {
		answer, header, err := c.do(ctx, r, http.MethodGet, id+"?view=updates&live=long-poll&offset="+after, nil)
		if err != nil {
			return "", fmt.Errorf("follow %s: %w", id, err)
		}
		var chunks []conversation.Chunk
		if len(answer) > 0 {
			if err := json.Unmarshal(answer, &chunks); err != nil {
				return "", fmt.Errorf("follow %s: answer %.500s: %w", id, answer, err)
			}
		}
		for _, k := range chunks {
			if k.Type == conversation.ChunkSettled && k.SubmissionID == receipt.SubmissionID {
				return k.Outcome, nil
			}
		}
		if next := header.Get("Stream-Next-Offset"); next != "" {
			after = next
		}
	}
}
