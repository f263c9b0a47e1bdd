package noderun

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

type Client struct {
	HTTP   *http.Client
	within time.Duration
}

// NewClient makes a client with a timeout for each request.
func NewClient(within time.Duration) *Client {
	return &Client{&http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 512, IdleConnTimeout: time.Minute, DisableCompression: true}}, within}
}

func (c *Client) Close() { c.HTTP.CloseIdleConnections() }

// ErrBusy is a 503 with Retry-After: the request may succeed at another node, or later.
var ErrBusy = errors.New("node unavailable")

// StatusError is an answer other than 200, 202 and 503.
type StatusError struct {
	Request string // method and URL
	Status  int
	Body    []byte
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s: status %d: %.500s", e.Request, e.Status, e.Body)
}

// breach is an answer that breaks a promise.
type breach struct{ desc string }

func (e *breach) Error() string { return e.desc }

// Breach returns the error of an answer that breaks a promise. It wraps no error.
func Breach(format string, args ...any) error { return &breach{fmt.Sprintf(format, args...)} }

// Broken reports whether an error is a breach, as opposed to the effect of a fault.
func Broken(err error) bool {
	_, status := errors.AsType[*StatusError](err)
	_, broken := errors.AsType[*breach](err)
	return status || broken
}

// Missing reports whether an error is a 404.
func Missing(err error) bool {
	status, ok := errors.AsType[*StatusError](err)
	return ok && status.Status == http.StatusNotFound
}

// Do sends a request and reads the answer. A 503 is [ErrBusy], or a breach without a Retry-After. Any
// other status than 200 and 202 is a [*StatusError]. Other errors mean that the answer is incomplete.
func (c *Client) Do(ctx context.Context, method, url string, body []byte) ([]byte, http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, c.within)
	defer cancel()
	resp, err := c.send(ctx, method, url, body)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, nil, err
	}
	return answer, resp.Header, nil
}

// Insist sends a request to the URLs that next returns, one after the other. It stops when the request
// is answered, when an answer breaks a guarantee, or when ctx ends. Between two tries it waits for a
// random time.
func (c *Client) Insist(ctx context.Context, dice *rand.Rand, method string, next func() string, body []byte) ([]byte, http.Header, error) {
	for {
		url := next()
		answer, header, err := c.Do(ctx, method, url, body)
		if err == nil || Broken(err) {
			return answer, header, err
		}
		if ended := Pause(ctx, time.Duration(20+dice.IntN(80))*time.Millisecond); ended != nil {
			return nil, nil, fmt.Errorf("%s %s: %w, last answer: %w", method, url, ended, err)
		}
	}
}

// send sends a request. The caller closes the body of an answer with 200 or 202; other statuses are
// errors, as for Do.
func (c *Client) send(ctx context.Context, method, url string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusAccepted {
		return resp, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body) // As much as was received.
	switch {
	case resp.StatusCode != http.StatusServiceUnavailable:
		return nil, &StatusError{method + " " + url, resp.StatusCode, text}
	case resp.Header.Get("Retry-After") == "":
		return nil, Breach("%s %s: 503 without Retry-After", method, url)
	}
	return nil, ErrBusy
}

// Pause sleeps, or returns the cause of the end of ctx.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Message returns the body of a request that delivers a text under a key.
func Message(key, text string) []byte {
	body, err := json.Marshal(map[string]any{"kind": "user", "body": text, "idempotencyKey": key})
	if err != nil {
		panic(err) // Maps of strings always marshal.
	}
	return body
}

// ReadReceipt decodes the answer to an admission, and checks that its header agrees.
func ReadReceipt(answer []byte, header http.Header) (r conversation.Receipt, err error) {
	return r, read("receipt", answer, header, &r, &r.Offset)
}

// ReadSnapshot decodes the answer to a read of a whole conversation, and checks that its header
// agrees.
func ReadSnapshot(answer []byte, header http.Header) (*conversation.Snapshot, error) {
	var s conversation.Snapshot
	if err := read("snapshot", answer, header, &s, &s.Offset); err != nil {
		return nil, err
	}
	return &s, nil
}

func read(desc string, answer []byte, header http.Header, v any, at *conversation.Offset) error {
	if err := json.Unmarshal(answer, v); err != nil {
		return Breach("%s %s: %v", desc, answer, err)
	}
	if got := header.Get("Stream-Next-Offset"); got != at.String() {
		return Breach("%s at %s, but header has %s", desc, at, got)
	}
	return nil
}

// Chunk is a chunk as it was received.
type Chunk struct {
	conversation.Chunk
	Raw json.RawMessage // its JSON
}

// ReadChunks decodes the answer to a read after an offset, and checks the order of the chunks.
func ReadChunks(answer []byte, after conversation.Offset) (chunks []Chunk, err error) {
	var list []json.RawMessage
	if err := json.Unmarshal(answer, &list); err != nil {
		return nil, Breach("chunks %.500s: %v", answer, err)
	}
	last := conversation.Position{Batch: after, Index: 1 << 30}
	for _, raw := range list {
		c := Chunk{Raw: raw}
		if err := json.Unmarshal(raw, &c.Chunk); err != nil {
			return nil, Breach("chunk %.500s: %v", raw, err)
		}
		if c.Position.Compare(last) <= 0 {
			return nil, Breach("chunk at %v comes after %v", c.Position, last)
		}
		last = c.Position
		chunks = append(chunks, c)
	}
	return chunks, nil
}
