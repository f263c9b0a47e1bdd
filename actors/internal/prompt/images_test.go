package prompt_test

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/png"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/actors/internal/prompt"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
)

const key = conversation.Key("00112233445566778899aabbccddeeff")

// opened counts opened objects and can fail.
type opened struct {
	storage.Bucket
	n    int
	fail error
}

func (o *opened) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	if o.n++; o.fail != nil {
		return nil, 0, o.fail
	}
	return o.Bucket.Open(ctx, key)
}

// attach stores data and returns it as an attachment.
func attach(t *testing.T, b storage.Bucket, data []byte) conversation.Attachment {
	t.Helper()
	body := storage.Bytes(data)
	if err := storage.PutBlob(t.Context(), b, key, body); err != nil {
		t.Fatal(err)
	}
	return conversation.Attachment{ID: "att_1", SHA256: storage.Digest(body.SHA256).String(), MimeType: "image/png", Size: body.Size}
}

func drawn(t *testing.T, width int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, width, 1))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// seen renders an exchange with attachments and returns their facts.
func seen(t *testing.T, r *prompt.Renderer, list ...conversation.Attachment) ([]*providers.ImageFacts, error) {
	t.Helper()
	out, err := r.Messages(t.Context(), key, []conversation.Exchange{{
		Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: "see", Attachments: list},
	}}, prompt.View{})
	if err != nil {
		return nil, err
	}
	var facts []*providers.ImageFacts
	for _, p := range out[0].Parts[1:] {
		facts = append(facts, p.(providers.Image).Facts)
	}
	return facts, nil
}

func TestAttachmentsAreInspectedOnce(t *testing.T) {
	b := &opened{Bucket: local.NewMemory()}
	r := prompt.NewRenderer(b)
	list := []conversation.Attachment{attach(t, b, drawn(t, 7)), attach(t, b, []byte("%PDF-1.7")), {SHA256: storage.Digest{}.String()}}
	b.n = 0
	want := []*providers.ImageFacts{{MimeType: "image/png", Width: 7, Height: 1}, {}, {}}
	for range 2 {
		got, err := seen(t, r, list...)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Fatalf("facts (-want +got), %v:\n%s", err, diff)
		}
	}
	if b.n != 2 {
		t.Errorf("got %d opened attachments, want 2", b.n)
	}
}

// TestUnreadableAttachment checks that a transient error is returned and that a missing object is left
// to the sender.
func TestUnreadableAttachment(t *testing.T) {
	b := &opened{Bucket: local.NewMemory()}
	r := prompt.NewRenderer(b)
	at := attach(t, b, drawn(t, 1))
	b.fail = storage.ErrNotFound
	if got, err := seen(t, r, at); err != nil || got[0] != nil {
		t.Errorf("missing attachment: got %+v, %v, want nil facts", got, err)
	}
	b.fail = storage.ErrUnavailable
	if _, err := seen(t, r, at); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("unavailable bucket: got error %v", err)
	}
	b.fail = nil
	if got, err := seen(t, r, at); err != nil || got[0] == nil {
		t.Errorf("recovered bucket: got %+v, %v", got, err)
	}
	bad := at
	bad.SHA256 = "xyz"
	if _, err := seen(t, r, bad); err == nil {
		t.Error("invalid digest: got no error")
	}
}
