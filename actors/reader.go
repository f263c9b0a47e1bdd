package actors

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/parleyrun/parley/actors/follower"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// reader is the read seam: what conversations say comes from followers, the bytes
// of attachments from the bucket.
type reader struct {
	*follower.Set
	bucket storage.Bucket
}

var _ conversation.Reader = reader{}

// Attachment implements [conversation.Reader].
func (r reader) Attachment(ctx context.Context, at conversation.Address, id conversation.AttachmentID) (conversation.Attachment, io.ReadCloser, error) {
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
		return meta, nil, fmt.Errorf("read attachment %s: %w", id, err)
	}
	return meta, content, nil
}
