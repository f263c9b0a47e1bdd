package actors

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// replyPage is the number of batches that are searched at once for a settlement.
const replyPage = 64

// Wait returns the reply to a message once its submission is settled, on any node. It activates
// nothing. It needs only the submission id and the offset of the receipt, so a stored receipt works.
// It waits until ctx ends, even while the bucket does not answer, and returns runtime_unavailable when
// this node stops.
//
// For a failed or aborted submission the error is a [*conversation.SettledError], and the reply holds
// the part that was produced. With any other error the reply is nil. The error is that of ctx or a
// [*conversation.Error]: stream_not_found if the conversation was never created, invalid_request if it
// has no such submission. Wait is safe for concurrent use.
func (r *Runtime) Wait(ctx context.Context, at conversation.Address, receipt conversation.Receipt) (*conversation.Reply, error) {
	s, err := r.untilSettled(ctx, r.Reader(), at, receipt)
	if err != nil {
		return nil, fmt.Errorf("wait for submission %.80s: %w", receipt.SubmissionID, err)
	}
	return conversation.ReplyOf(receipt.SubmissionID, s.reply), s.end.AsError()
}

// answer is one submission in a snapshot.
type answer struct {
	found bool                  // the snapshot contains it
	reply *conversation.Message // nil if the agent replied nothing
	end   *conversation.Settlement
}

// untilSettled returns a submission from a snapshot that includes its settlement.
func (r *Runtime) untilSettled(
	ctx context.Context, reader conversation.Reader, at conversation.Address, receipt conversation.Receipt,
) (*answer, error) {
	next, checked := receipt.Offset, false
	tail := conversation.Tailing(ctx)
	for reading := ctx; ; {
		s, err := r.readOn(reading, reader, at, receipt.SubmissionID, &next, &checked)
		if s != nil {
			return s, nil
		}
		if err == nil {
			reading = tail
			continue
		}
		reading = ctx
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if conversation.CodeOf(err) != conversation.CodeUnavailable || r.edge.ended() {
			return nil, err
		}
		select {
		case <-time.After(retryAfter):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// readOn reads pages from next on and waits at the head until the submission is settled. looked means
// that a snapshot has already contained the submission.
func (r *Runtime) readOn(
	ctx context.Context, reader conversation.Reader, at conversation.Address, id conversation.SubmissionID, next *conversation.Offset, checked *bool,
) (*answer, error) {
	page, err := reader.Updates(ctx, at, *next, replyPage)
	if err != nil {
		return nil, err
	}
	ctx = conversation.Tailing(ctx) // later reads continue from this page
	settled := page.Long != nil     // a long page may contain the settlement
	if !settled {
		if settled, err = settles(page.JSON, id); err != nil {
			return nil, err
		}
	}
	if settled || page.UpToDate && !*checked {
		s, err := answerIn(ctx, reader, at, id)
		if err != nil {
			return nil, err
		}
		if s.end != nil {
			return s, nil
		}
		if !s.found {
			return nil, conversation.Errorf(conversation.CodeInvalidRequest, "The conversation has no submission %.80q.", string(id))
		}
		*checked = true
	}
	*next = page.Next
	if page.UpToDate {
		return nil, reader.Wait(ctx, at, *next)
	}
	return nil, nil
}

// settles reports whether a page of chunks contains the settlement of a submission.
func settles(page []byte, id conversation.SubmissionID) (bool, error) {
	// Other fields of a chunk are not decoded.
	var chunks []struct {
		Type         conversation.ChunkType    `json:"type"`
		SubmissionID conversation.SubmissionID `json:"submissionId"`
		Snapshot     *struct {
			Settlements []struct {
				SubmissionID conversation.SubmissionID `json:"submissionId"`
			} `json:"settlements"`
		} `json:"snapshot"`
	}
	if err := json.Unmarshal(page, &chunks); err != nil {
		return false, fmt.Errorf("decode chunks: %w", err)
	}
	for _, c := range chunks {
		if c.Type == conversation.ChunkSettled && c.SubmissionID == id {
			return true, nil
		}
		if c.Snapshot == nil {
			continue
		}
		for _, s := range c.Snapshot.Settlements {
			if s.SubmissionID == id {
				return true, nil
			}
		}
	}
	return false, nil
}

// answerIn reads a snapshot and returns one submission of it.
func answerIn(ctx context.Context, reader conversation.Reader, at conversation.Address, id conversation.SubmissionID) (*answer, error) {
	page, err := reader.Snapshot(ctx, at)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	from, to := io.Pipe()
	written := make(chan struct{})
	go func() {
		defer close(written)
		to.CloseWithError(page.Write(ctx, to))
	}()
	out := &answer{}
	err = out.read(json.NewDecoder(from), id)
	cancel()
	_ = from.Close()
	<-written
	if err != nil {
		return nil, fmt.Errorf("decode snapshot: %w", err)
	}
	return out, nil
}

// read decodes a snapshot message by message, so that a long one is never in memory as a whole.
func (a *answer) read(dec *json.Decoder, id conversation.SubmissionID) error {
	if _, err := dec.Token(); err != nil { // {
		return err
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		switch name {
		case "messages":
			err = each(dec, func(m *conversation.Message) {
				if m.SubmissionID != id {
					return
				}
				a.found = true
				if m.Role == conversation.RoleAssistant {
					a.reply = m
				}
			})
		case "settlements":
			err = each(dec, func(s *conversation.Settlement) {
				if s.SubmissionID == id {
					a.end = s
				}
			})
		default:
			var other json.RawMessage
			err = dec.Decode(&other)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// each decodes the elements of an array.
func each[T any](dec *json.Decoder, visit func(*T)) error {
	if _, err := dec.Token(); err != nil { // [
		return err
	}
	for dec.More() {
		v := new(T)
		if err := dec.Decode(v); err != nil {
			return err
		}
		visit(v)
	}
	_, err := dec.Token() // ]
	return err
}
