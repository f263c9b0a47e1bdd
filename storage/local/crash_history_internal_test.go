package local

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
)

// What an event of a history says.
const (
	phaseOpened = "opened" // The store is open.
	phaseBegin  = "begin"  // An operation is about to be sent.
	phaseEnd    = "end"    // An operation was answered.
	phaseFault  = "fault"  // The file system is about to refuse a call.
)

// How an operation was answered.
const (
	resultDone    = "done"
	resultExists  = "exists"
	resultUnknown = "unknown" // Also without an answer.
)

// Operations.
const (
	verbCreate = "create"
	verbPut    = "put"
	verbDelete = "delete"
	verbGet    = "get"
)

// event is one line of the history of a cycle. The order of events is the order
// in time: an operation happens between its two events.
type event struct {
	Phase  string `json:"p"`
	Op     uint64 `json:"o,omitempty"` // Number of the operation within the cycle, from 1.
	Verb   string `json:"v,omitempty"`
	Key    string `json:"k,omitempty"`
	Value  uint64 `json:"b,omitempty"` // What a write stores or a read found; 0 is no object.
	Result string `json:"r,omitempty"` // Of an end.
	Note   string `json:"n,omitempty"` // For people.
}

func (e event) isWrite() bool { return e.Verb != "" && e.Verb != verbGet }

// recorder keeps the history of a cycle until its end.
type recorder struct {
	mu     sync.Mutex
	sink   func(event)
	limit  int    // Events after which the cycle ends; 0 is none.
	crash  func() // Runs at the end, before anything else can be recorded.
	cancel context.CancelFunc
	count  int
	ops    uint64
	over   bool
}

// add records e, unless the cycle is over. It numbers the beginning of an
// operation and returns the number.
func (r *recorder) add(e event) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return 0
	}
	if e.Phase == phaseBegin {
		r.ops++
		e.Op = r.ops
		if e.Value != 0 {
			e.Value += r.ops << 1
		}
	}
	r.sink(e)
	if r.count++; r.count == r.limit {
		r.endLocked()
	}
	return e.Op
}

// end ends the cycle: what is answered from now on was not answered before the
// crash.
func (r *recorder) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endLocked()
}

func (r *recorder) endLocked() {
	if r.over {
		return
	}
	r.over = true
	if r.crash != nil {
		r.crash()
	}
	r.cancel()
}

// valueOf makes the part of a value that its operation does not decide. A heavy
// cycle stores more bytes with each object, so that the engine has to flush.
func valueOf(cycle int, heavy bool) uint64 {
	v := uint64(cycle+1) << 32
	if heavy {
		v |= 1
	}
	return v
}

// bodyOf returns the bytes of a value, which nothing else decides.
func bodyOf(value uint64) []byte {
	rng := rand.New(rand.NewPCG(value, 0))
	size := 8 + rng.IntN(4<<10)
	switch n := rng.IntN(20); {
	case n < 3: // A file.
		size = defaultLargeObjectBytes + 1 + rng.IntN(64<<10)
	case n == 3:
		size = defaultLargeObjectBytes
	case n < 7 || value&1 == 1:
		size = 32<<10 + rng.IntN(160<<10)
	}
	body := make([]byte, 0, size+8)
	for word := value; len(body) < size; word = word*6364136223846793005 + 1442695040888963407 {
		body = binary.BigEndian.AppendUint64(body, word)
	}
	return body[:size]
}

// valueIn returns the value that a body stands for.
func valueIn(body []byte) (uint64, error) {
	if len(body) < 8 {
		return 0, fmt.Errorf("the object has %d bytes", len(body))
	}
	value := binary.BigEndian.Uint64(body)
	if value < 1<<32 {
		return 0, fmt.Errorf("the object begins with %x", body[:8])
	}
	if want := bodyOf(value); !bytes.Equal(body, want) {
		return 0, fmt.Errorf("the object of %d bytes is not the one of %d bytes that was written", len(body), len(want))
	}
	return value, nil
}

// place is one state that a key may be in: its value and which of the operations
// in progress have happened already.
type place struct{ value, happened uint64 }

// explain reports whether a key that held before, and holds after when the cycle
// is over, can have done what the history says: there is an order of its
// operations in which each lies between its two events and answers what it
// answered. An operation without an answer may have happened or not.
func explain(history []event, before, after uint64) bool {
	places := map[place]bool{{before, 0}: true}
	var open []event // By slot; a free slot has no verb.
	for i, e := range history {
		switch e.Phase {
		case phaseBegin:
			slot := slices.IndexFunc(open, func(o event) bool { return o.Verb == "" })
			if slot < 0 {
				slot = len(open)
				open = append(open, event{})
			}
			open[slot] = outcome(history[i:], e)
		case phaseEnd:
			slot := slices.IndexFunc(open, func(o event) bool { return o.Verb != "" && o.Op == e.Op })
			if slot < 0 || e.Result == resultUnknown {
				continue
			}
			reach(places, open)
			settled := map[place]bool{}
			for p := range places {
				if p.happened&(1<<slot) != 0 {
					settled[place{p.value, p.happened &^ (1 << slot)}] = true
				}
			}
			places = settled
			open[slot] = event{}
		}
	}
	reach(places, open)
	for p := range places {
		if p.value == after {
			return true
		}
	}
	return false
}

// outcome returns the operation that begins with e as it ended.
func outcome(rest []event, e event) event {
	for _, end := range rest {
		if end.Phase == phaseEnd && end.Op == e.Op {
			if e.Verb == verbGet {
				e.Value = end.Value
			}
			e.Result = end.Result
			return e
		}
	}
	e.Result = resultUnknown
	return e
}

// reach adds every place to which operations in progress lead.
func reach(places map[place]bool, open []event) {
	var todo []place
	for p := range places {
		todo = append(todo, p)
	}
	for len(todo) > 0 {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for slot, op := range open {
			if op.Verb == "" || p.happened&(1<<slot) != 0 {
				continue
			}
			value, ok := happen(op, p.value)
			next := place{value, p.happened | 1<<slot}
			if ok && !places[next] {
				places[next] = true
				todo = append(todo, next)
			}
		}
	}
}

// happen returns what a key holds after op, and whether op can happen there.
func happen(op event, value uint64) (uint64, bool) {
	switch {
	case op.Verb == verbGet:
		return value, op.Result == resultUnknown || op.Value == value
	case op.Verb == verbDelete:
		return 0, true
	case op.Verb == verbPut:
		return op.Value, true
	case op.Result == resultExists:
		return value, value != 0
	default:
		return op.Value, value == 0
	}
}
