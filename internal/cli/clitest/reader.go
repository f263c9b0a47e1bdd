package clitest

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
)

// Reader is a client that resumes from its last offset and checks order and uniqueness of chunks.
type Reader struct {
	t        *testing.T
	position conversation.Position
	Text     strings.Builder
	Chunks   []conversation.Chunk
}

// NewReader returns a reader that resumes after an offset.
func NewReader(t *testing.T, after conversation.Offset) *Reader {
	return &Reader{t: t, position: conversation.Position{Batch: after, Index: 1 << 30}}
}

// Until follows a conversation over one connection until done returns true. It consumes whole batches,
// because the chunks after the awaited one are not sent again.
func (r *Reader) Until(at *url.URL, after conversation.Offset, done func(conversation.Chunk) bool) {
	r.t.Helper()
	if slices.ContainsFunc(r.Chunks, done) {
		return
	}
	connections := 0
	c := open(r.t, at, &client.Options{Header: func(context.Context) (http.Header, error) {
		if connections++; connections > 1 {
			return nil, errors.New("the connection broke")
		}
		return nil, nil
	}})
	for update, err := range c.Observe(within(r.t), after, nil) {
		if err != nil {
			r.t.Fatalf("follow %s: %v", at, err)
		}
		enough := false
		for _, chunk := range update.Chunks {
			r.take(chunk)
			enough = enough || done(chunk)
		}
		if enough {
			return
		}
	}
}

func open(t *testing.T, at *url.URL, o *client.Options) *client.Conversation {
	t.Helper()
	c, err := client.New(at.String(), o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (r *Reader) take(c conversation.Chunk) {
	r.t.Helper()
	if c.Position.Compare(r.position) <= 0 {
		r.t.Errorf("chunk %s at %v comes after %v", c.Type, c.Position, r.position)
	}
	if step := c.Position.Batch - r.position.Batch; step == 0 && c.Position.Index != r.position.Index+1 {
		r.t.Errorf("chunk index %d follows %d in batch %d", c.Position.Index, r.position.Index, int64(c.Position.Batch))
	}
	r.position = c.Position
	if c.Type == conversation.ChunkStarted {
		r.Text.WriteByte(' ') // another step begins another part
	}
	r.Text.WriteString(c.Delta)
	r.Chunks = append(r.Chunks, c)
}

// Offset returns the offset at which the client resumes. A data frame holds the chunks of whole
// batches.
func (r *Reader) Offset() conversation.Offset { return r.position.Batch }

// History fetches a snapshot.
func History(t *testing.T, at *url.URL) conversation.Snapshot {
	t.Helper()
	s, err := open(t, at, nil).History(within(t))
	if err != nil {
		t.Fatal(err)
	}
	return *s
}

// Receipt is the body of a 202.
type Receipt = client.Receipt

// Admitted sends a message and returns its receipt.
func Admitted(t *testing.T, at *url.URL, key, text string) Receipt {
	t.Helper()
	rcpt, err := open(t, at, nil).Send(within(t), client.Message{Body: text, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return rcpt
}

// Settled returns a condition for [Reader.Until]: the submission is settled.
func Settled(id conversation.SubmissionID) func(conversation.Chunk) bool {
	return func(c conversation.Chunk) bool {
		_, ok := cli.SettlementOf(c, id)
		return ok
	}
}

// Settlements returns the outcomes of a submission; exactly one is expected.
func Settlements(s conversation.Snapshot, id conversation.SubmissionID) (outcomes []conversation.Outcome) {
	for _, e := range s.Settlements {
		if e.SubmissionID == id {
			outcomes = append(outcomes, e.Outcome)
		}
	}
	return outcomes
}
