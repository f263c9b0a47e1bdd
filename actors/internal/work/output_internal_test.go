package work

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/parleyrun/parley/actors/internal/prompt"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
)

// TestWindowsOfStoredOutputs checks that reads of pieces equal reads of the whole and hold few pieces
// in memory.
func TestWindowsOfStoredOutputs(t *testing.T) {
	const piece = 1000
	o := &outputs{node: &Node{o: NodeOptions{Bucket: local.NewMemory()}}, key: "00112233445566778899aabbccddeeff"}
	var text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&text, "%d: a líne of text\n", i)
	}
	whole := prompt.Window{Text: text.String(), Size: text.Len()}
	call := &conversation.ToolCall{Settled: true, Stored: &conversation.StoredOutput{Size: int64(text.Len())}}
	raw, err := conversation.EncodeJSON(whole.Text)
	if err != nil {
		t.Fatal(err)
	}
	pieces := slices.Collect(prompt.TextPieces(raw, piece))
	for _, p := range pieces {
		body := storage.Bytes([]byte(p))
		if err := storage.PutBlob(t.Context(), o.node.o.Bucket, o.key, body); err != nil {
			t.Fatal(err)
		}
		call.Stored.Pieces = append(call.Stored.Pieces, conversation.StoredPiece{SHA256: storage.Digest(body.SHA256).String(), Size: body.Size})
	}
	r := rand.New(rand.NewPCG(1, 2))
	check := func(in outputInput, most int) {
		t.Helper()
		w, err := o.window(t.Context(), call, in, most)
		if err != nil {
			t.Fatal(err)
		}
		if most := most + len(in.Find) + prompt.BeforeFind + 3*piece; len(w.Text) > most {
			t.Errorf("%+v: got %d bytes in memory, want at most %d", in, len(w.Text), most)
		}
		got, found := w.Piece(in.From, in.Find, most)
		want, ok := whole.Piece(in.From, in.Find, most)
		if in.Find != "" && ok { // a window may have less context before the match
			_, text, _ := strings.Cut(got, "]\n")
			var from, end, size int
			if _, err := fmt.Sscanf(got, "[bytes %d to %d of %d", &from, &end, &size); err != nil || text != whole.Text[from:end] || !strings.Contains(text, in.Find) {
				t.Errorf("%+v, at most %d: got %q, error %v", in, most, got, err)
			}
			got = want
		}
		if found != ok || got != want {
			t.Errorf("%+v, at most %d: got %q, %v, want %q, %v", in, most, got, found, want, ok)
		}
	}
	for range 2000 {
		in := outputInput{From: r.IntN(text.Len() + 1)}
		if r.IntN(2) == 0 {
			in.Find = fmt.Sprintf("%d: a lí", r.IntN(1100))
		}
		check(in, 600+r.IntN(2500))
	}
	check(outputInput{Find: whole.Text[2500:9000]}, 8000)
	if err := o.node.o.Bucket.Delete(t.Context(), storage.BlobKey(o.key, digestOf(t, call.Stored.Pieces[3]))); err != nil {
		t.Fatal(err)
	}
	if _, err := o.window(t.Context(), call, outputInput{From: 3500}, 300); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("missing piece: got error %v, want not found", err)
	}
	if w, err := o.window(t.Context(), call, outputInput{From: 4500}, 300); err != nil || w.At != whole.At+len(strings.Join(pieces[:4], "")) {
		t.Errorf("piece after the missing one: got start %d, error %v", w.At, err)
	}
}

func digestOf(t *testing.T, p conversation.StoredPiece) (d storage.Digest) {
	t.Helper()
	if err := d.UnmarshalText([]byte(p.SHA256)); err != nil {
		t.Fatal(err)
	}
	return d
}
