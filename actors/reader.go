package actors

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/parleyrun/parley/actors/follower"
	"github.com/parleyrun/parley/actors/internal/events"
	"github.com/parleyrun/parley/actors/internal/pending"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// reader implements the read interfaces: conversations come from followers, attachments from the
// bucket.
type reader struct {
	*follower.Set
	bucket     storage.Bucket
	quarantine *pending.Quarantine
	known      *events.Addresses
}

// check returns an error if a conversation is quarantined.
func (r reader) check(at conversation.Address) error { return r.quarantine.Refused(r.known.Put(at)) }

var (
	_ conversation.Reader      = reader{}
	_ conversation.EventReader = reader{}
	_ conversation.RunReader   = reader{}
)

// Head implements [conversation.Reader].
func (r reader) Head(ctx context.Context, at conversation.Address) (conversation.Offset, error) {
	if err := r.check(at); err != nil {
		return conversation.Start, err
	}
	return r.Set.Head(ctx, at)
}

// Snapshot implements [conversation.Reader].
func (r reader) Snapshot(ctx context.Context, at conversation.Address) (conversation.Page, error) {
	if err := r.check(at); err != nil {
		return conversation.Page{}, err
	}
	return r.Set.Snapshot(ctx, at)
}

// ReadRun implements [conversation.RunReader].
func (r reader) ReadRun(ctx context.Context, id conversation.RunID) (string, *conversation.Run, error) {
	if err := r.check(conversation.RunAddress(id)); err != nil {
		return "", nil, err
	}
	return r.Set.ReadRun(ctx, id)
}

// Updates implements [conversation.Reader].
func (r reader) Updates(ctx context.Context, at conversation.Address, after conversation.Offset, limit int) (conversation.Page, error) {
	if err := r.check(at); err != nil {
		return conversation.Page{}, err
	}
	return r.Set.Updates(ctx, at, after, limit)
}

// EventTail implements [conversation.EventReader].
func (r reader) EventTail(ctx context.Context, at conversation.Address) (conversation.EventPage, error) {
	if err := r.check(at); err != nil {
		return conversation.EventPage{}, err
	}
	return r.Set.EventTail(ctx, at)
}

// Events implements [conversation.EventReader].
func (r reader) Events(ctx context.Context, at conversation.Address, after int64, limit int) (conversation.EventPage, error) {
	if err := r.check(at); err != nil {
		return conversation.EventPage{}, err
	}
	return r.Set.Events(ctx, at, after, limit)
}

// Wait implements [conversation.Reader]. Existing waits continue when the conversation is quarantined.
func (r reader) Wait(ctx context.Context, at conversation.Address, after conversation.Offset) error {
	if err := r.check(at); err != nil {
		return err
	}
	return r.Set.Wait(ctx, at, after)
}

// Attachment implements [conversation.Reader].
func (r reader) Attachment(ctx context.Context, at conversation.Address, id conversation.AttachmentID) (conversation.Attachment, io.ReadCloser, error) {
	if err := r.check(at); err != nil {
		return conversation.Attachment{}, nil, err
	}
	meta, err := r.Set.Attachment(ctx, at, id)
	if err != nil {
		return meta, nil, err
	}
	var digest storage.Digest
	if err := digest.UnmarshalText([]byte(meta.SHA256)); err != nil {
		return meta, nil, fmt.Errorf("read attachment %s: %w", id, err)
	}
	content, err := storage.OpenBlob(ctx, r.bucket, at.Key(), digest, meta.Size)
	switch {
	case errors.Is(err, storage.ErrUnavailable):
		return meta, nil, conversation.Unavailable(retryAfter, err)
	case err != nil:
		return meta, nil, integrity(id, fmt.Errorf("read attachment %s: %w", id, err))
	}
	return meta, &attachment{content, id}, nil
}

// attachment is content that reports its corruption as an integrity error.
type attachment struct {
	io.ReadCloser
	id conversation.AttachmentID
}

// Read implements io.Reader.
func (a *attachment) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = integrity(a.id, err)
	}
	return n, err
}

// integrity returns the error for a recorded attachment that is missing or changed.
func integrity(id conversation.AttachmentID, err error) error {
	var corrupt *storage.IntegrityError
	reason := "missing"
	switch {
	case errors.As(err, &corrupt):
		reason = corrupt.Reason()
	case !errors.Is(err, storage.ErrNotFound):
		return err
	}
	return &conversation.Error{
		Code: conversation.CodeAttachmentIntegrity, Meta: map[string]any{"attachmentId": id, "reason": reason}, Err: err,
	}
}
