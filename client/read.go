package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/parleyrun/parley/conversation"
)

// Headers of the protocol.
const (
	headerNextOffset = "Stream-Next-Offset"
	headerUpToDate   = "Stream-Up-To-Date"
	headerClosed     = "Stream-Closed"
)

// History returns the conversation at its head. Before the first message the
// error is an [*Error] of conversation.CodeStreamNotFound.
func (c *Conversation) History(ctx context.Context) (*conversation.Snapshot, error) {
	var snap *conversation.Snapshot
	err := c.repeat(ctx, func() error {
		a, err := c.do(ctx, request{
			method: http.MethodGet, url: c.view(url.Values{"view": {"history"}}),
			accept: "application/json", silence: c.opts.AnswerWithin,
		})
		if err != nil {
			return err
		}
		snap = nil
		if err := a.decode(&snap, c.opts.MaxAnswerBytes); err != nil {
			return err
		}
		if snap == nil || snap.V != conversation.SnapshotVersion {
			return badAnswer("a snapshot of version %d was expected", conversation.SnapshotVersion)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read history of %s: %w", c.name(), err)
	}
	return snap, nil
}

// Head returns the offset of the conversation's head. Errors have a status and no type: 404 means a
// conversation without messages.
func (c *Conversation) Head(ctx context.Context) (conversation.Offset, error) {
	var head conversation.Offset
	err := c.repeat(ctx, func() error {
		a, err := c.do(ctx, request{method: http.MethodHead, url: c.at.String(), silence: c.opts.AnswerWithin})
		if err != nil {
			return err
		}
		defer a.Close()
		head, err = a.next()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("read head of %s: %w", c.name(), err)
	}
	return head, nil
}

// next returns the offset at which the response ends.
func (a *answer) next() (conversation.Offset, error) {
	next, err := conversation.ParseOffset(a.Header.Get(headerNextOffset))
	if err != nil {
		return 0, badAnswer("header %s: %w", headerNextOffset, err)
	}
	return next, nil
}

// AbortTree aborts like Abort, and also aborts all messages that the conversation dispatched, directly
// or indirectly. It may be repeated: new messages begin trees of their own.
func (c *Conversation) AbortTree(ctx context.Context) (conversation.TreeAborted, error) {
	var done conversation.TreeAborted
	answered := struct {
		Aborted *bool `json:"aborted"`
		*conversation.TreeAborted
	}{nil, &done}
	if err := c.abort(ctx, "tree", &answered); err != nil {
		return conversation.TreeAborted{}, err
	}
	if answered.Aborted == nil {
		return conversation.TreeAborted{}, fmt.Errorf("abort %s: %w", c.name(), badAnswer("it does not say whether anything was aborted"))
	}
	done.Aborted = *answered.Aborted
	return done, nil
}

// abort posts an abort and decodes the response.
func (c *Conversation) abort(ctx context.Context, extent string, answered any) error {
	a, err := c.do(ctx, request{
		method: http.MethodPost, url: c.below("/abort"), abort: extent, accept: "application/json", silence: c.opts.AnswerWithin,
	})
	if err == nil {
		err = a.decode(answered, c.opts.MaxAnswerBytes)
	}
	if err != nil {
		return fmt.Errorf("abort %s: %w", c.name(), err)
	}
	return nil
}

// Abort aborts all unsettled submissions and reports whether there were any. The settlements follow.
// It is posted once, because a repetition after a lost response could abort a later message. After an
// error other than a refusal the abort may have happened.
func (c *Conversation) Abort(ctx context.Context) (bool, error) {
	var answered struct{ Aborted *bool }
	if err := c.abort(ctx, "", &answered); err != nil {
		return false, err
	}
	if answered.Aborted == nil {
		return false, fmt.Errorf("abort %s: %w", c.name(), badAnswer("it does not say whether anything was aborted"))
	}
	return *answered.Aborted, nil
}

// Content is the bytes of an attachment. Read returns io.EOF only after all of them.
type Content struct {
	io.ReadCloser
	MimeType string
	// Size is in bytes; -1 if a proxy removed it.
	Size int64
}

// Attachment returns an attachment of a message. The caller closes it; ctx also covers reading.
func (c *Conversation) Attachment(ctx context.Context, id conversation.AttachmentID) (*Content, error) {
	var a *answer
	err := c.repeat(ctx, func() (err error) {
		a, err = c.do(ctx, request{method: http.MethodGet, url: c.AttachmentURL(id), silence: c.opts.AnswerWithin})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read attachment %s of %s: %w", id, c.name(), err)
	}
	return &Content{ReadCloser: a, MimeType: a.Header.Get("Content-Type"), Size: a.ContentLength}, nil
}
