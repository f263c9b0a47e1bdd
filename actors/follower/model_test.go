package follower_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/actors/follower"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/storage"
)

// world is a conversation owned by another node. Batches become durable there at random moments; the
// delivery of their pushes and all delays are random. Time is that of the synctest bubble.
type world struct {
	t      *testing.T
	h      *history
	source *bucket
	set    *follower.Set
	group  sync.WaitGroup

	mu     sync.Mutex
	random *rand.Rand
}

func (w *world) n(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n)
}

// pause sleeps up to ms milliseconds, half of the time not at all.
func (w *world) pause(ms int) { time.Sleep(time.Duration(max(0, w.n(2*ms)-ms)) * time.Millisecond) }

func (w *world) durable() conversation.Offset {
	w.source.mu.Lock()
	defer w.source.mu.Unlock()
	return conversation.Offset(len(w.source.stored) - 1)
}

// tip simulates the owner: it reports the tip, reports it as unknown, or answers too late.
func (w *world) tip(ctx context.Context, _ conversation.Key) (int64, bool) {
	w.pause(20)
	seq := w.durable()
	if w.n(20) == 0 {
		<-ctx.Done()
		return 0, false
	}
	w.pause(20)
	return int64(seq), w.n(5) > 0
}

func (w *world) write(outages bool) {
	for _, p := range w.h.pushes[1:] {
		w.pause(30)
		w.source.store(p)
		copies := []int{0, 1, 1, 1, 1, 1, 1, 1, 2}[w.n(9)]
		for range copies {
			w.group.Go(func() {
				w.pause(10)
				w.set.OfferStored(address().Key(), p.stored())
			})
		}
		switch w.n(40) {
		case 0:
			w.set.Recheck(address().Key())
		case 1:
			seq := int64(w.durable())
			w.group.Go(func() {
				w.pause(50)
				w.set.Behind(address().Key(), seq)
			})
		case 2:
			if outages {
				w.source.fail(&storage.Error{Op: "list", Key: "log", Kind: storage.ErrUnavailable})
				w.pause(40)
				w.source.fail(nil)
			}
		}
	}
}

// poll reads in every way until the log is complete. A result must not be older than its read.
func (w *world) poll(ctx context.Context) {
	for w.durable() < w.h.head() {
		w.pause(40)
		floor := w.durable()
		var got conversation.Offset
		var err error
		switch w.n(4) {
		case 0:
			got, err = w.set.Head(ctx, address())
		case 1:
			var page conversation.Page
			page, err = w.set.Snapshot(ctx, address())
			got = page.Next
		case 2:
			if err = w.set.Wait(ctx, address(), floor-1); err == nil {
				got = floor
			}
		default:
			after := conversation.Offset(w.n(int(floor)+2) - 1)
			var page conversation.Page
			page, err = w.set.Updates(ctx, address(), after, 1+w.n(50))
			got = page.Next
			if want := w.h.page(after, page.Next); err == nil && string(page.JSON) != want {
				w.t.Errorf("page after %d is\n%s\nwant\n%s", after, page.JSON, want)
			}
			if !page.UpToDate {
				got = floor // the page need not be complete
			}
		}
		if err != nil && conversation.CodeOf(err) != conversation.CodeUnavailable {
			w.t.Errorf("read: %v", err)
		}
		if err == nil && got < floor {
			w.t.Errorf("read returned batch %d, want at least %d, which was durable before it", got, floor)
		}
	}
}

// tail follows the log to its end like an event stream, and resumes at its offset after a failed read.
func (w *world) tail(ctx context.Context, end conversation.Offset) {
	reading := ctx
	for after := conversation.Start; after < end; {
		page, err := w.set.Updates(reading, address(), after, 1+w.n(20))
		if err == nil {
			if want := w.h.page(after, page.Next); page.Next < after || string(page.JSON) != want {
				w.t.Errorf("page after %d ends at %d and is\n%s\nwant\n%s", after, page.Next, page.JSON, want)
				return
			}
			after, reading = page.Next, conversation.Tailing(ctx)
			if page.UpToDate && after < end {
				err = w.set.Wait(reading, address(), after)
			}
		}
		switch {
		case ctx.Err() != nil:
			w.t.Errorf("tailing reader ended at %d, want %d", after, end)
			return
		case err != nil && conversation.CodeOf(err) != conversation.CodeUnavailable:
			w.t.Errorf("tailing reader: %v", err)
			return
		case err != nil:
			reading = ctx
			w.pause(100)
		}
	}
}

// TestReadersOfAnotherNode: for any delivery of the pushes, reads return at least the batches that
// were durable at their start, and tailing readers get every batch once, in order.
func TestReadersOfAnotherNode(t *testing.T) {
	h := turns(t, 30)
	var asked int64 // sum of all seeds: a single one may not need it
	for seed := range sample.Of[uint64](60, 6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{t: t, h: h, source: newBucket(h.pushes[0]), random: rand.New(rand.NewPCG(seed, 7))}
				options := &follower.Options{Tip: w.tip, TipTimeout: 100 * time.Millisecond, Strict: seed%3 == 0}
				if seed%2 == 0 {
					options.RetainBytes = 2 << 10
				}
				w.set = start(t, w.source, options)
				w.source.hook(func(context.Context) { w.pause(30) })
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				var tails sync.WaitGroup
				for range 3 {
					tails.Go(func() { w.tail(ctx, h.head()) })
					w.group.Go(func() { w.poll(ctx) })
				}
				w.write(seed%4 == 3)
				w.group.Wait()
				if seed%5 == 0 {
					w.set.Recheck(address().Key())
				} else {
					w.set.Behind(address().Key(), int64(h.head()))
				}
				tails.Wait()
				s := w.set.Stats()
				if s.Gaps == 0 {
					t.Errorf("pushes caused no gap or fork: %+v", s)
				}
				asked += s.Rechecks + s.Tips
			})
		})
	}
	if asked < sample.Of[int64](60, 6) {
		t.Errorf("Tip was called %d times", asked)
	}
}
