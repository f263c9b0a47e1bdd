package storage_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// TestQuarantine quarantines conversations and puts them back, with and without a log.
func TestQuarantine(t *testing.T) {
	ctx, b := t.Context(), memory(t)
	full, empty := conversation.Address{Agent: "a", ID: "full"}, conversation.Address{Agent: "a", ID: "empty"}
	lines, err := conversation.EncodeRecords(nil, []conversation.Record{&conversation.ConversationCreated{Agent: "a", ID: "full", UID: "u"}})
	if err != nil {
		t.Fatal(err)
	}
	before := storage.NewLogs(b, nil).Writer(full.Key(), "before", storage.Start(), 1)
	if _, err := before.Append(ctx, lines, 0); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		at   conversation.Address
		want storage.Quarantine
		seq  int64 // of the claim
	}{
		{full, storage.Quarantine{Conv: full.Key(), Agent: "a", ID: "full", At: 1000, Why: "why", Failures: 3}, 1},
		{empty, storage.Quarantine{Conv: empty.Key(), At: 1000, Why: "why", Failures: 3}, 0},
	} {
		conv := tt.at.Key()
		if err := storage.PutBack(ctx, b, conv); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("put back of an unquarantined conversation: got %v", err)
		}
		for n := range 2 {
			did, err := storage.PutQuarantine(ctx, b, storage.Quarantine{Conv: conv, At: 1000, Why: "why", Failures: 3 + n})
			if err != nil || did != (n == 0) {
				t.Errorf("quarantined %d times: %v, %v", n+1, did, err)
			}
		}
		got, err := storage.ReadQuarantine(ctx, b, conv)
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("quarantine (-want +got): %v\n%s", err, diff)
		}
		if keys, err := storage.ListQuarantine(ctx, b); err != nil || !cmp.Equal(keys, []conversation.Key{conv}) {
			t.Errorf("listed %v, %v", keys, err)
		}
		if err := storage.PutBack(ctx, b, conv); err != nil {
			t.Fatal(err)
		}
		if keys, err := storage.ListQuarantine(ctx, b); err != nil || len(keys) != 0 {
			t.Errorf("listed %v after it was put back, %v", keys, err)
		}
		refs, err := storage.Journals(ctx, b)
		if err != nil || len(refs) != 1 || !refs[0].WasPutBack() {
			t.Fatalf("journals %+v, %v", refs, err)
		}
		j, err := storage.ReadJournal(ctx, b, refs[0].Member, refs[0].N)
		if err != nil || len(j.Entries) != 1 || j.Entries[0].Conv != conv || j.Entries[0].Seq != tt.seq || j.Entries[0].Opening {
			t.Errorf("journal %+v, %v", j, err)
		}
		last, err := storage.NewLogs(b, nil).Range(ctx, conv, tt.seq, tt.seq)
		if err != nil || last[0].Nonce != j.Entries[0].Nonce || !last[0].First || len(last[0].Lines) > 0 {
			t.Errorf("claim %+v, %v", last, err)
		}
		if err := storage.DeleteJournal(ctx, b, refs[0].Keys); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := before.Append(ctx, lines, 0); !errors.Is(err, storage.ErrFenced) {
		t.Errorf("a writer of before appends: %v", err)
	}
}

// TestPutBackOfACorruptEnd checks that a log that needs repair stays quarantined.
func TestPutBackOfACorruptEnd(t *testing.T) {
	ctx, b, conv := t.Context(), memory(t), conversation.Address{Agent: "a", ID: "1"}.Key()
	if err := b.Put(ctx, storage.LogKey(conv, 0), storage.Bytes([]byte("damage"))); err != nil {
		t.Fatal(err)
	}
	if _, err := storage.PutQuarantine(ctx, b, storage.Quarantine{Conv: conv, Why: "why"}); err != nil {
		t.Fatal(err)
	}
	if err := storage.PutBack(ctx, b, conv); !storage.IsCorrupt(err) {
		t.Errorf("put back: %v", err)
	}
	if _, err := storage.ReadQuarantine(ctx, b, conv); err != nil {
		t.Errorf("it is quarantined no more: %v", err)
	}
}

func TestQuarantineObject(t *testing.T) {
	conv := conversation.Address{Agent: "a", ID: "1"}.Key()
	for name, data := range map[string]string{
		"nothing": "", "no json": "x", "another version": `{"v":7,"conv":"` + string(conv) + `"}`, "no conversation": `{"v":8,"conv":"x"}`,
		"too long": `{"v":8,"conv":"` + string(conv) + `","why":"` + strings.Repeat("x", 64<<10) + `"}`,
	} {
		if a, err := storage.DecodeQuarantine([]byte(data)); err == nil {
			t.Errorf("%s: %+v", name, a)
		}
	}
	if _, err := storage.EncodeQuarantine(storage.Quarantine{Conv: "x"}); err == nil {
		t.Error("an object of no conversation")
	}
	long, err := storage.EncodeQuarantine(storage.Quarantine{Conv: conv, Why: strings.Repeat("é", 8<<10)})
	if err != nil {
		t.Fatal(err)
	}
	a, err := storage.DecodeQuarantine(long)
	if err != nil || len(a.Why) > 4<<10 || len(a.Why) < 4<<10-1 || strings.ContainsRune(a.Why, '�') {
		t.Errorf("%d bytes of why, %v", len(a.Why), err)
	}
	if n, err := storage.ParseKey(storage.QuarantineKey(conv)); err != nil || n.Kind != storage.KindQuarantine || n.Conv != conv {
		t.Errorf("got %+v, %v", n, err)
	}
}

func FuzzDecodeQuarantine(f *testing.F) {
	conv := conversation.Address{Agent: "a", ID: "1"}.Key()
	data, err := storage.EncodeQuarantine(storage.Quarantine{Conv: conv, Agent: "a", ID: "1", At: 1000, Why: "why", Failures: 3})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"v":8}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := storage.DecodeQuarantine(data)
		if err != nil {
			return
		}
		again, err := storage.EncodeQuarantine(a)
		if err != nil {
			t.Fatal(err)
		}
		b, err := storage.DecodeQuarantine(again)
		if err != nil || len(a.Why) <= 4<<10 && b != a {
			t.Errorf("%+v becomes %+v: %v", a, b, err)
		}
	})
}

// TestRelease checks that a quarantined conversation is released if it opens. Otherwise it stays
// quarantined, and its claim stays listed.
func TestRelease(t *testing.T) {
	ctx, b, conv := t.Context(), memory(t), conversation.Address{Agent: "a", ID: "1"}.Key()
	if err := storage.Release(ctx, b, conv, nil); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("release of an unquarantined conversation: got %v", err)
	}
	quarantined := storage.Quarantine{Conv: conv, At: 1000, Why: "why", Failures: 3}
	if _, err := storage.PutQuarantine(ctx, b, quarantined); err != nil {
		t.Fatal(err)
	}
	quarantined.Tries, quarantined.Tried = 2, 5000
	if err := storage.RecordTry(ctx, b, quarantined); err != nil {
		t.Fatal(err)
	}
	if got, err := storage.ReadQuarantine(ctx, b, conv); err != nil || !cmp.Equal(got, quarantined) {
		t.Errorf("after a try: %+v, %v, want %+v", got, err, quarantined)
	}
	fails := errors.New("it does not open")
	for _, want := range []error{fails, nil} {
		var claim storage.JournalEntry
		err := storage.Release(ctx, b, conv, func(e storage.JournalEntry) error {
			claim = e
			return want
		})
		if !errors.Is(err, want) || claim.Conv != conv {
			t.Errorf("release: %v, claim %+v, want %v", err, claim, want)
		}
		if keys, err := storage.ListQuarantine(ctx, b); err != nil || (len(keys) == 1) != (want != nil) {
			t.Errorf("quarantined after %v: %v, %v", want, keys, err)
		}
		refs, err := storage.Journals(ctx, b)
		if err != nil || len(refs) == 0 || !refs[len(refs)-1].WasPutBack() {
			t.Errorf("journals %v, %v, want the claim", refs, err)
		}
	}
}

// TestTryAfter checks that the delay between tries grows, that a start may try earlier, and that a
// quarantine by an operator is never tried.
func TestTryAfter(t *testing.T) {
	for _, tt := range []struct {
		tries, failures int
		starts          bool
		want            time.Duration
		ok              bool
	}{
		{0, 3, false, 10 * time.Minute, true},
		{3, 3, false, 80 * time.Minute, true},
		{100, 3, false, 24 * time.Hour, true},
		{100, 3, true, 10 * time.Minute, true},
		{0, 0, true, 10 * time.Minute, false},
	} {
		got, ok := storage.Quarantine{Tries: tt.tries, Failures: tt.failures}.TryAfter(tt.starts)
		if got != tt.want || ok != tt.ok {
			t.Errorf("%d tries, %d failures, starts %t: %v, %t, want %v, %t", tt.tries, tt.failures, tt.starts, got, ok, tt.want, tt.ok)
		}
	}
}
