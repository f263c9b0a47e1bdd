package actors

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
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
	key := storage.BlobKey(at.Key(), digest)
	content, size, err := r.bucket.Open(ctx, key)
	switch {
	case errors.Is(err, storage.ErrUnavailable):
		return meta, nil, conversation.Unavailable(retryAfter, err)
	case err != nil:
		return meta, nil, fmt.Errorf("read attachment %s: %w", id, err)
	case size != meta.Size:
		return meta, nil, errors.Join(fmt.Errorf("read attachment %s: stored with %d bytes, want %d", id, size, meta.Size), content.Close())
	}
	return meta, &verified{ReadCloser: content, key: key, want: digest, sum: sha256.New()}, nil
}

// verified is content that fails at its end if it does not have its digest.
type verified struct {
	io.ReadCloser
	key  string
	want storage.Digest
	sum  hash.Hash
}

// Read implements io.Reader.
func (v *verified) Read(p []byte) (int, error) {
	n, err := v.ReadCloser.Read(p)
	v.sum.Write(p[:n])
	if err == io.EOF {
		if got := storage.Digest(v.sum.Sum(nil)); got != v.want {
			return n, &storage.IntegrityError{Key: v.key, Want: v.want, Got: got}
		}
	}
	return n, err
}
