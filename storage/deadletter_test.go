package storage_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

func sampleDeadLetter(post conversation.PostID) storage.DeadLetter {
	at := conversation.Address{Agent: "triage", ID: "42"}
	return storage.DeadLetter{
		Conv: at.Key(), Address: at, Post: post, Seq: 7, Submission: "sub_1", Target: "ledger", Attempts: 9, Reason: "it answered 503", At: 1000,
	}
}

// TestDeadLetters stores dead letters, lists them and deletes them.
func TestDeadLetters(t *testing.T) {
	ctx, b := t.Context(), memory(t)
	want := []storage.DeadLetter{sampleDeadLetter("post_1"), sampleDeadLetter("post_1"), sampleDeadLetter("post_2")}
	want[1].Seq = 12 // resent, and failed again
	for range 2 {    // the second put replaces the first
		for _, l := range want {
			if err := storage.PutDeadLetter(ctx, b, l); err != nil {
				t.Fatal(err)
			}
		}
	}
	conv := want[0].Conv
	for key, body := range map[string]string{storage.DeadLetterKey(storage.DeadLetter{Conv: conv, Post: "post_3", Seq: 8}): "{", "deadletter/x": "{}"} {
		if err := b.Put(ctx, key, storage.Bytes([]byte(body))); err != nil {
			t.Fatal(err)
		}
	}
	var got []storage.DeadLetter
	var corrupt int
	list := func(l storage.DeadLetter, err error) error {
		if err != nil {
			corrupt++
		}
		got = append(got, l)
		return nil
	}
	if err := storage.EachDeadLetter(ctx, b, list); err != nil || corrupt != 1 {
		t.Errorf("got %d corrupt letters, %v", corrupt, err)
	}
	if diff := cmp.Diff(append(want, storage.DeadLetter{Conv: conv, Post: "post_3", Seq: 8}), got); diff != "" {
		t.Errorf("letters (-want +got):\n%s", diff)
	}
	stop := errors.New("stop")
	if err := storage.EachDeadLetter(ctx, b, func(storage.DeadLetter, error) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("error of the callback: got %v", err)
	}
	for range 2 {
		if err := storage.DeleteDeadLetter(ctx, b, want[0]); err != nil {
			t.Fatal(err)
		}
	}
	got = nil
	if err := storage.EachDeadLetter(ctx, b, list); err != nil || len(got) != 3 || got[0].Seq != 12 {
		t.Errorf("after one was deleted: %+v, %v", got, err)
	}
	if n, err := storage.ParseKey(storage.DeadLetterKey(want[0])); err != nil || n.Kind != storage.KindDeadLetter || n.Conv != conv || n.First != 7 {
		t.Errorf("got %+v, %v", n, err)
	}
}

func TestDeadLetterErrors(t *testing.T) {
	ctx, b := t.Context(), memory(t)
	of := sampleDeadLetter
	for name, change := range map[string]func(*storage.DeadLetter){
		"no conversation": func(l *storage.DeadLetter) { l.Conv = "x" },
		"no post":         func(l *storage.DeadLetter) { l.Post = "" },
		"a path":          func(l *storage.DeadLetter) { l.Post = "a/b" },
		"no batch":        func(l *storage.DeadLetter) { l.Seq = -1 },
	} {
		l := of("post_1")
		change(&l)
		if err := storage.PutDeadLetter(ctx, b, l); !errors.Is(err, storage.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := storage.DeleteDeadLetter(ctx, b, storage.DeadLetter{Conv: "x", Post: "post_1"}); !errors.Is(err, storage.ErrRefused) {
		t.Errorf("deleted: %v", err)
	}
	long := of("post_1")
	long.Reason = strings.Repeat("é", 8<<10)
	data, err := storage.EncodeDeadLetter(long)
	if err != nil {
		t.Fatal(err)
	}
	if l, err := storage.DecodeDeadLetter(data); err != nil || len(l.Reason) > 1<<10 || len(l.Reason) < 1<<10-1 || strings.ContainsRune(l.Reason, '�') {
		t.Errorf("%d bytes of reason, %v", len(l.Reason), err)
	}
	for _, data := range []string{"", "{}", `{"v":9}`, strings.Repeat(" ", 17<<10)} {
		if l, err := storage.DecodeDeadLetter([]byte(data)); err == nil {
			t.Errorf("%.20q: %+v", data, l)
		}
	}
}

func FuzzDecodeDeadLetter(f *testing.F) {
	data, err := storage.EncodeDeadLetter(sampleDeadLetter("post_1"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := storage.DecodeDeadLetter(data)
		if err != nil {
			return
		}
		again, err := storage.EncodeDeadLetter(l)
		if err != nil {
			t.Fatalf("%+v: %v", l, err)
		}
		if got, err := storage.DecodeDeadLetter(again); err != nil || got.Post != l.Post || got.Seq != l.Seq {
			t.Fatalf("%+v became %+v: %v", l, got, err)
		}
	})
}
