package prompt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/picture"
	"github.com/parleyrun/parley/storage"
)

// textRefused replaces a refused image.
const textRefused = "(An image was left out here: the model's vendor refuses it.)"

// AttachmentOf returns the id of an image rendered by a Renderer, "" for others.
func AttachmentOf(i providers.Image) conversation.AttachmentID {
	if a, ok := i.Content.(*attached); ok {
		return a.id
	}
	return ""
}

func (v *view) images(list []conversation.Attachment) ([]providers.Part, error) {
	var out []providers.Part
	for _, at := range list {
		if v.without[at.ID] {
			out = append(out, providers.Text{Text: textRefused})
			continue
		}
		content := &attached{id: at.ID, bucket: v.bucket, key: v.key, size: at.Size}
		if err := content.digest.UnmarshalText([]byte(at.SHA256)); err != nil {
			return nil, fmt.Errorf("read attachment %s: %w", at.ID, err)
		}
		facts, err := v.facts.of(v.ctx, content)
		if err != nil {
			return nil, fmt.Errorf("inspect attachment %s: %w", at.ID, err)
		}
		out = append(out, providers.Image{MimeType: at.MimeType, Content: content, Facts: facts})
	}
	return out, nil
}

// attached is an attachment that a model call streams, so that it is never whole in memory.
type attached struct {
	id     conversation.AttachmentID
	bucket storage.Bucket
	key    conversation.Key
	digest storage.Digest
	size   int64
}

var _ providers.Content = (*attached)(nil)

// Size implements [providers.Content].
func (a *attached) Size() int64 { return a.size }

// Open implements [providers.Content].
func (a *attached) Open(ctx context.Context) (io.ReadCloser, error) {
	content, err := storage.OpenBlob(ctx, a.bucket, a.key, a.digest, a.size)
	if err != nil {
		return nil, contentError(err)
	}
	return &attachedReader{content}, nil
}

// attachedReader is an open attachment.
type attachedReader struct{ io.ReadCloser }

// Read implements io.Reader.
func (r *attachedReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = contentError(err)
	}
	return n, err
}

// contentError marks errors for which the provider may retry.
func contentError(err error) error {
	if errors.Is(err, storage.ErrUnavailable) {
		return fmt.Errorf("%w: %w", providers.ErrUnavailable, err)
	}
	return err
}

// maxFacts bounds the cached attachment facts, at about 150 bytes each 600 KiB.
const maxFacts = 4096

// inspectTimeout bounds the reading of an attachment's first bytes.
const inspectTimeout = 30 * time.Second

type facts struct {
	mu    sync.Mutex
	known map[storage.Digest]*providers.ImageFacts
	order []storage.Digest // insertion order
}

// of returns the facts of an attachment, or nil if it is unreadable, which the sender reports. An
// error means that the bucket is unavailable.
func (f *facts) of(ctx context.Context, a *attached) (*providers.ImageFacts, error) {
	if a.size == 0 {
		return &providers.ImageFacts{}, nil
	}
	f.mu.Lock()
	known := f.known[a.digest]
	f.mu.Unlock()
	if known != nil {
		return known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	found, err := inspect(ctx, a)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%w: %w", storage.ErrUnavailable, context.Cause(ctx))
	case errors.Is(err, storage.ErrUnavailable):
		return nil, err
	case err != nil:
		return nil, nil
	}
	facts := providers.ImageFacts(found)
	f.keep(a.digest, &facts)
	return &facts, nil
}

func inspect(ctx context.Context, a *attached) (found picture.Facts, err error) {
	content, err := a.Open(ctx)
	if err != nil {
		return found, err
	}
	found, err = picture.Read(content)
	return found, errors.Join(err, content.Close())
}

// keep adds an entry and evicts the oldest.
func (f *facts) keep(digest storage.Digest, found *providers.ImageFacts) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known == nil {
		f.known = map[storage.Digest]*providers.ImageFacts{}
	}
	if f.known[digest] != nil {
		return
	}
	if len(f.order) == maxFacts {
		delete(f.known, f.order[0])
		f.order = f.order[1:]
	}
	f.known[digest], f.order = found, append(f.order, digest)
}
