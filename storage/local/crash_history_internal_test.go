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

// Phases of an event.
const (
	phaseOpened = "opened" // The store is open.
	phaseBegin  = "begin"  // An operation is about to be sent.
	phaseEnd    = "end"    // An operation was answered.
	phaseFault  = "fault"  // The file system is about to fail a call.
)

// Results of an operation.
const (
	resultDone    = "done"
	resultExists  = "exists"
	resultUnknown = "unknown" // Also if there was no answer.
)

const (
	verbCreate = "create"
	verbPut    = "put"
	verbDelete = "delete"
	verbGet    = "get"
)

// event is one line of the history of a cycle. Events are in the order of time: an operation takes
// effect between its two events.
type event struct {
	Phase  string `json:"p"`
	Op     uint64 `json:"o,omitempty"` // Number of the operation within the cycle, from 1.
	Verb   string `json:"v,omitempty"`
	Key    string `json:"k,omitempty"`
	Value  uint64 `json:"b,omitempty"` // Value written or read; 0 is absent.
	Result string `json:"r,omitempty"` // Set in an end event.
	Note   string `json:"n,omitempty"` // For people.
}

func (e event) isWrite() bool { return e.Verb != "" && e.Verb != verbGet }

// recorder records the history of a cycle until its end.
type recorder struct {
	mu     sync.Mutex
	sink   func(event)
	limit  int    // Number of events before the cycle ends; 0 is no limit.
	crash  func() // Called at the end, before another event can be recorded.
	cancel context.CancelFunc
	count  int
	ops    uint64
	over   bool
}

// add records e unless the cycle has ended. It assigns and returns the number of an operation at its
// beginning.
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

// end ends the cycle: later answers count as not given before the crash.
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

// valueOf returns the common part of the values of a cycle. A heavy cycle stores more bytes per
// object, so that the engine has to flush.
func valueOf(cycle int, heavy bool) uint64 {
	v := uint64(cycle+1) << 32
	if heavy {
		v |= 1
	}
	return v
}

// bodyOf returns the bytes of a value, a pure function of it.
func bodyOf(value uint64) []byte {
	rng := rand.New(rand.NewPCG(value, 0))
	size := 8 + rng.IntN(4<<10)
	switch n := rng.IntN(20); {
	case n < 3: // Stored as a file.
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

// valueIn decodes the value of a body.
func valueIn(body []byte) (uint64, error) {
	if len(body) < 8 {
		return 0, fmt.Errorf("the object has %d bytes", len(body))
	}
	value := binary.BigEndian.Uint64(body)
	if value < 1<<32 {
		return 0, fmt.Errorf("the object begins with %x", body[:8])
	}
	if want := bodyOf(value); !bytes.Equal(body, want) {
		return 0, fmt.Errorf("object of %d bytes differs from the written one of %d bytes", len(body), len(want))
	}
	return value, nil
}

// keyState is a possible state of a key: its value and the set of operations in progress that have
// already taken effect.
type keyState struct{ value, applied uint64 }

// explain reports whether the history of a key is linearizable, from value before to value after.
// There must be an order of its operations in which each lies between its two events and has the
// recorded result. An operation without an answer may have taken effect or not.
func explain(history []event, before, after uint64) bool {
	states := map[keyState]bool{{before, 0}: true}
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
			reach(states, open)
			settled := map[keyState]bool{}
			for p := range states {
				if p.applied&(1<<slot) != 0 {
					settled[keyState{p.value, p.applied &^ (1 << slot)}] = true
				}
			}
			states = settled
			open[slot] = event{}
		}
	}
	reach(states, open)
	for p := range states {
		if p.value == after {
			return true
		}
	}
	return false
}

// outcome returns the end of the operation that begins with e.
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

// reach adds every state that operations in progress lead to.
func reach(states map[keyState]bool, open []event) {
	var todo []keyState
	for p := range states {
		todo = append(todo, p)
	}
	for len(todo) > 0 {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for slot, op := range open {
			if op.Verb == "" || p.applied&(1<<slot) != 0 {
				continue
			}
			value, ok := apply(op, p.value)
			next := keyState{value, p.applied | 1<<slot}
			if ok && !states[next] {
				states[next] = true
				todo = append(todo, next)
			}
		}
	}
}

// apply applies op to a value and reports whether op is possible there.
func apply(op event, value uint64) (uint64, bool) {
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
