package memory

import (
	"runtime"
	"sync/atomic"
)

// largeWork is what work on needs no turn, in bytes: a processor has done with it soon.
const largeWork = 256 << 10

// turns lets few pieces of large work go on at a time, so that the copies which they make
// do not add up, and short work finds a processor.
type turns struct {
	slots   chan struct{} // holds an element for each that is under way
	waiting atomic.Int64
}

// newTurns leaves half of the processors to others, however many threads there are.
func newTurns() *turns { return &turns{slots: make(chan struct{}, Turns())} }

// Turns is how many pieces of large work a process has under way at most.
func Turns() int { return max(1, min(runtime.GOMAXPROCS(0), runtime.NumCPU())/2) }

// Turn waits until work on n bytes may begin, which leave ends: decoding, encoding,
// folding, that waits for nothing and asks for no other turn, so that whoever waits here
// comes to an end as well. Work on up to 256 KiB does not wait.
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

// Waiting counts the pieces of large work that wait for their turn.
func (b *Budget) Waiting() int64 {
	if b == nil {
		return 0
	}
	return b.turns.waiting.Load()
}
