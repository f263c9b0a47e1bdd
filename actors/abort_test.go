package actors_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// TestAbort aborts a running submission and two queued ones. One intent is durable, emitted text
// stays, each submission settles once, and later ones run normally.
// covers: protocol/61, protocol/92
func TestAbort(t *testing.T) {
	at := chat("c")
	w := newWorld(t)
	model := make(stage)
	n := w.start(setup{opts: agents(chatAgent()), model: model})
	if any, err := n.rt.Abort(t.Context(), at); any || err != nil {
		t.Fatalf("nothing to abort: %v, %v", any, err)
	}
	if len(w.listing()) != 1 { // the format stamp
		t.Errorf("an abort of nothing wrote %v", w.listing())
	}
	n.admit(at, "a", "first")
	call := model.next(t)
	call.text("half a")
	w.until("the text", func() bool { return len(only[*conversation.Delta](w.records(at))) == 1 })
	n.admit(at, "b", "second")
	n.admit(at, "c", "third")

	if any, err := n.rt.Abort(t.Context(), at); !any || err != nil {
		t.Fatalf("abort: %v, %v", any, err)
	}
	settled := w.untilSettled(at, 3)
	for _, s := range settled {
		if s.Outcome != conversation.OutcomeAborted || s.Error == nil || s.Error.Type != conversation.CodeAborted {
			t.Errorf("got settlement %+v", s)
		}
	}
	if n := len(only[*conversation.AbortRequested](w.records(at))); n != 1 {
		t.Errorf("got %d abort intents", n)
	}
	var texts []string
	for _, m := range n.snapshot(at).Messages {
		texts = append(texts, string(m.Role)+": "+*m.Parts[0].Text+"/"+m.Parts[0].State)
	}
	advice := "system: The submission was aborted./done"
	want := []string{"user: first/done", "assistant: half a/done", "user: second/done", "user: third/done", advice, advice, advice}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Errorf("transcript (-want +got):\n%s", diff)
	}
	if any, err := n.rt.Abort(t.Context(), at); any || err != nil {
		t.Errorf("second abort: %v, %v", any, err)
	}
	n.admit(at, "d", "fourth")
	next := model.next(t)
	next.text("fine")
	next.finish()
	if last := w.untilSettled(at, 4)[3]; last.Outcome != conversation.OutcomeCompleted {
		t.Errorf("after the abort: %+v", last)
	}
}

func TestAttachment(t *testing.T) {
	at, other := chat("c"), chat("other")
	w := newWorld(t)
	n := w.start(setup{opts: agents(chatAgent()), model: emits(1)})
	data := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
	sum := sha256.Sum256(data)
	digest := hex.EncodeToString(sum[:])
	blob := conversation.Blob{Content: bytes.NewReader(data), Size: int64(len(data)), Digest: digest}
	if err := n.rt.Stage(t.Context(), at, blob); err != nil {
		t.Fatal(err)
	}
	n.accept(conversation.Admission{Address: at, Key: "a", Delivery: conversation.Delivery{
		Kind: conversation.KindUser, Attachments: []conversation.Attachment{{SHA256: digest, MimeType: "image/png", Size: int64(len(data)), Filename: "a.png"}},
	}})
	n.admit(other, "b", "hello")
	id := n.snapshot(at).Messages[0].Parts[1].ID
	read := n.rt.Reader().Attachment

	meta, content, err := read(t.Context(), at, id)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(content)
	if err := errors.Join(err, content.Close()); err != nil || !bytes.Equal(got, data) || meta.MimeType != "image/png" {
		t.Errorf("read %d bytes of %+v, %v", len(got), meta, err)
	}
	for name, c := range map[string]struct {
		at   conversation.Address
		id   conversation.AttachmentID
		want conversation.Code
	}{
		"unknown id":           {at, "att_x", conversation.CodeAttachmentNotFound},
		"another conversation": {other, id, conversation.CodeAttachmentNotFound},
		"no conversation":      {chat("none"), id, conversation.CodeStreamNotFound},
	} {
		if _, _, err := read(t.Context(), c.at, c.id); conversation.CodeOf(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}

	var key string
	for k := range w.listing() {
		if strings.HasSuffix(k, digest) {
			key = k
		}
	}
	corrupt := slices.Clone(data)
	corrupt[len(corrupt)-1] ^= 1
	if err := w.bucket.Put(t.Context(), key, storage.Bytes(corrupt)); err != nil {
		t.Fatal(err)
	}
	if _, content, err = read(t.Context(), at, id); err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(io.Discard, content)
	notIntact(t, err, id, "digest")
	content.Close()
	blob.Content = bytes.NewReader(data)
	if err := n.rt.Stage(t.Context(), at, blob); conversation.CodeOf(err) != conversation.CodeAttachmentConflict {
		t.Errorf("got error %v staging over other bytes", err)
	}
	if err := w.bucket.Put(t.Context(), key, storage.Bytes(data[1:])); err != nil {
		t.Fatal(err)
	}
	_, _, err = read(t.Context(), at, id)
	notIntact(t, err, id, "size")
	if err := w.bucket.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	_, _, err = read(t.Context(), at, id)
	notIntact(t, err, id, "missing")
}

// notIntact checks an error about a corrupt attachment.
func notIntact(t *testing.T, err error, id conversation.AttachmentID, reason string) {
	t.Helper()
	var e *conversation.Error
	want := map[string]any{"attachmentId": id, "reason": reason}
	if !errors.As(err, &e) || e.Code != conversation.CodeAttachmentIntegrity || !cmp.Equal(want, e.Meta) {
		t.Errorf("want attachment_integrity with %v, got %v", want, err)
	}
}
