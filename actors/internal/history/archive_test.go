package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/actors/internal/prompt"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage"
)

// TestEncodedHistoryIsBounded checks that the oldest encodings stay.
func TestEncodedHistoryIsBounded(t *testing.T) {
	var blocks []*providers.Block
	for _, size := range []int64{maxEncodedBytes - 10, 10, 1, 0, 5} {
		b := providers.NewBlock(nil)
		if _, err := providers.EncodeBlock(b, providers.Model{}, func(string) bool { return true }, func([]providers.Message) (string, int64, error) {
			return "x", size, nil
		}); err != nil {
			t.Fatal(err)
		}
		blocks = append(blocks, b)
	}
	Limit(blocks)
	var kept []int64
	for _, b := range blocks {
		kept = append(kept, b.EncodedBytes())
	}
	if diff := cmp.Diff([]int64{maxEncodedBytes - 10, 10, 0, 0, 0}, kept); diff != "" {
		t.Errorf("bytes kept of each block (-want +got):\n%s", diff)
	}
}

// TestRefoldedKeepsTheNewest checks that exchanges beyond the room keep only their ids, and that
// exchanges before the view are dropped.
func TestRefoldedKeepsTheNewest(t *testing.T) {
	of := func(id conversation.SubmissionID) conversation.Exchange {
		return conversation.Exchange{Submission: id, Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: strings.Repeat("x", 100)}}
	}
	f := refolded{after: &conversation.Compacted{FirstKept: "b"}, room: 250}
	f.add(of("a"), of("b"), of("c"))
	if f.idsOnly != 0 || f.bytes != 200 {
		t.Errorf("got %d ids only and %d bytes, want 0 and 200", f.idsOnly, f.bytes)
	}
	f.add(of("d"), of("e"))
	want := []conversation.Exchange{{Submission: "b"}, {Submission: "c"}, of("d"), of("e")}
	if diff := cmp.Diff(want, f.list); diff != "" || f.idsOnly != 2 || f.bytes != 200 {
		t.Errorf("%d ids only and %d bytes (-want +got):\n%s", f.idsOnly, f.bytes, diff)
	}
}

// TestHeldEqualsContent checks that the memory count equals the content of the pages after random
// operations.
func TestHeldEqualsContent(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		h := &Archive{store: &Store{PageBytes: 2000}}
		var of prompt.View
		var seen []*Page
		for n := range 60 {
			seen = append(seen, h.Cut()...) // including pages that have grown since
			switch r.IntN(5) {
			case 0, 1:
				h.mu.Lock()
				h.keep(settledPage(t, n))
				h.mu.Unlock()
			case 2:
				if len(seen) > 0 {
					if p := seen[r.IntN(len(seen))]; p.pieces != nil {
						room := 1 << 20
						if _, _, err := h.page(t.Context(), p, of, &room); err != nil {
							t.Fatal(err)
						}
					}
				}
			case 3:
				for _, p := range h.pages {
					if r.IntN(2) == 0 {
						p.ref = &storage.PageRef{}
					}
				}
				h.release(h.Cut())
			case 4:
				if of.After = (&conversation.Compacted{FirstKept: conversation.SubmissionID(fmt.Sprint("sub_", r.IntN(n+1)))}); r.IntN(2) == 0 {
					of.Without = append(slices.Clip(of.Without), "att_1")
				}
				h.view(h.Cut(), of)
			}
			want := 0
			for _, p := range h.Cut() {
				want += p.bytes()
			}
			if got := h.held.Load(); got != int64(want) {
				t.Fatalf("seed %d, step %d: got %d bytes counted, want %d", seed, n, got, want)
			}
		}
	}
}

func settledPage(t *testing.T, n int) *conversation.HistoryPage {
	t.Helper()
	id := fmt.Sprint(n)
	s := conversation.NewState()
	err := s.Apply(conversation.Batch{Records: []conversation.Record{
		&conversation.ConversationCreated{Agent: "a", ID: "c", UID: "inst_1", ConversationID: "conv_1"},
		&conversation.SubmissionAdmitted{
			Submission: conversation.SubmissionID("sub_" + id), Message: conversation.MessageID("msg_" + id), Key: id,
			Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: strings.Repeat("x", n*10)},
		},
		&conversation.AttemptStarted{Submission: conversation.SubmissionID("sub_" + id), Attempt: 1, Writer: "w"},
		&conversation.SubmissionSettled{Submission: conversation.SubmissionID("sub_" + id), Outcome: conversation.OutcomeCompleted},
	}})
	if err != nil {
		t.Fatal(err)
	}
	page, err := s.Cut()
	if err != nil {
		t.Fatal(err)
	}
	return page
}
