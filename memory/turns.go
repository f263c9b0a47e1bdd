package memory

import (
	"runtime"
	"sync/atomic"
)

// largeWork is the maximum size in bytes of work that needs no turn, because it is short.
const largeWork = 256 << 10

// turns limits concurrent large work, so that its temporary copies do not add up and short work finds
// a processor.
type turns struct {
	slots   chan struct{} // holds an element per running piece
	waiting atomic.Int64
}

// newTurns leaves half of the processors for other work, whatever GOMAXPROCS is.
func newTurns() *turns { return &turns{slots: make(chan struct{}, Turns())} }

// Turns returns the maximum number of concurrent pieces of large work.
func Turns() int { return max(1, min(runtime.GOMAXPROCS(0), runtime.NumCPU())/2) }

// Turn waits until work on n bytes may begin; leave ends it. The work is decoding, encoding or
// folding: it must not wait for anything or take another turn, so that every waiter gets one. Work on
// up to 256 KiB does not wait.
func (a *Account) Turn(n int) (leave func()) {
	if a == nil || n <= largeWork {
		return func() {}
	}
	t := a.budget.turns
	t.waiting.Add(1)
	defer t.waiting.Add(-1)
	t.slots <- struct{}{}
	return func() { <-t.slots }
}

// Waiting returns the number of pieces of large work that wait for a turn.
func (b *Budget) Waiting() int64 {
	if b == nil {
		return 0
	}
	return b.turns.waiting.Load()
}
