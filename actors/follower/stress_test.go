package follower_test

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/parleyrun/parley/actors/follower"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/sample"
)

// TestReadersUnderBadPushes drops, duplicates, reorders and forges pushes. Every reader, which resumes
// at its offset, must get exactly the projection of the log.
func TestReadersUnderBadPushes(t *testing.T) {
	readers, pushes := sample.Of(50, 10), sample.Of(2000, 400)
	h := turns(t, pushes*280/2000)
	h.pushes, h.fragments = h.pushes[:pushes], h.fragments[:pushes]
	for name, options := range map[string]*follower.Options{
		"retained": nil,
		"cold":     {RetainBytes: 2 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := newBucket(h.pushes[0])
			s := start(t, source, options)
			var group sync.WaitGroup
			reached := make(chan conversation.Offset, len(h.pushes))
			for i := range readers {
				report := reached
				if i > 0 {
					report = nil
				}
				group.Go(func() { follow(t, s, h, rand.New(rand.NewPCG(1, uint64(i))), report) })
			}
			write(s, source, h, rand.New(rand.NewPCG(2, 3)), reached)
			group.Wait()
			stats := s.Stats()
			t.Logf("%+v", stats)
			if stats.Loads < int64(pushes)/100 {
				t.Errorf("only %d loads, want more: pushes caused no reload", stats.Loads)
			}
		})
	}
}

// write stores every batch and offers it through an unreliable network. It stays close to the reader
// that reports, so that readers are live.
func write(s *follower.Set, source *bucket, h *history, random *rand.Rand, reached <-chan conversation.Offset) {
	var held []push
	at := conversation.Start
	for _, p := range h.pushes[1:] {
		for open := true; open && int64(at) < p.at.Seq-40; {
			at, open = <-reached
		}
		source.store(p)
		switch n := random.IntN(100); {
		case n < 5: // dropped
		case n < 10: // duplicated
			offer(s, p, p)
		case n < 20: // reordered
			held = append(held, p)
		case n < 21: // forged
			forged := h.pushes[p.at.Seq-int64(random.IntN(int(min(p.at.Seq, 40))))]
			forged.at.Hash[3] ^= 1
			offer(s, p, forged)
		default:
			offer(s, p)
		}
		if len(held) == 3 {
			offer(s, held[2], held[0], held[1])
			held = nil
		}
	}
	offer(s, h.pushes[len(h.pushes)-1])
}

// follow reads the log to its end and reports its progress, unless report is nil.
func follow(t *testing.T, s *follower.Set, h *history, random *rand.Rand, report chan<- conversation.Offset) {
	if report != nil {
		defer close(report)
	}
	ctx := t.Context()
	for after := conversation.Start; after < h.head(); {
		if random.IntN(4) > 0 {
			if err := s.Wait(ctx, address(), after); err != nil {
				t.Errorf("wait after %d: %v", after, err)
				return
			}
		}
		limit := 1 + random.IntN(30)
		page, err := s.Updates(ctx, address(), after, limit)
		if err != nil {
			t.Errorf("updates after %d: %v", after, err)
			return
		}
		if page.Next < after || page.Next > after+conversation.Offset(limit) {
			t.Errorf("page after %d ends at %d", after, page.Next)
			return
		}
		if want := h.page(after, page.Next); string(page.JSON) != want {
			t.Errorf("page after %d is\n%s\nwant\n%s", after, page.JSON, want)
			return
		}
		if after = page.Next; report != nil {
			report <- after
		}
	}
}

// BenchmarkBatchToWaitingReaders delivers one batch to 500 waiting readers.
func BenchmarkBatchToWaitingReaders(b *testing.B) {
	const readers = 500
	h := newHistory(b)
	h.turn(0)
	known := len(h.pushes)
	for range b.N {
		h.add() // batch content costs once, not per reader
	}
	s := start(b, newBucket(h.pushes[:known]...), nil)
	wantHead(b, s, conversation.Offset(known-1)) // from here on pushes suffice
	var ready, group sync.WaitGroup
	last := h.head()
	rounds := make([]chan struct{}, b.N+1)
	for i := range rounds {
		rounds[i] = make(chan struct{})
	}
	ready.Add(readers)
	for range readers {
		group.Go(func() {
			after := conversation.Offset(known - 1)
			for i := 0; after < last; i++ {
				ready.Done()
				<-rounds[i]
				if err := s.Wait(b.Context(), address(), after); err != nil {
					b.Error(err)
					return
				}
				page, err := s.Updates(b.Context(), address(), after, 100)
				if err != nil {
					b.Error(err)
					return
				}
				after = page.Next
			}
		})
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i, p := range h.pushes[known:] {
		ready.Wait()
		ready.Add(readers)
		close(rounds[i])
		offer(s, p)
	}
	b.StopTimer()
	group.Wait()
}
