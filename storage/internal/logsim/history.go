package logsim

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/anishathalye/porcupine"
)

// op is an append or a read of a log as its caller saw it.
type op struct {
	process    string
	append     bool
	call, back int64    // nanoseconds since the beginning
	id         uint64   // of the batch that is appended
	seq        int64    // of it, or of the first that a read wants
	read       []uint64 // ids of what was read
	known      bool     // the outcome of the append is known; the read came to the end of the log
}

// History is what the processes of a schedule have appended and read, and when.
type History struct{ ops []op }

// Len is how many operations there are.
func (h History) Len() int { return len(h.ops) }

// Check reports whether there is an order of the operations, each at some moment while it
// was under way, in which they are those of a list that is appended to and read: an error
// if not, or if that could not be found out within the limit. An append with an unknown
// outcome may have its place at any time after it began. It uses several cores and real
// time: it must be called outside of a bubble.
func (h History) Check(limit time.Duration) error {
	clients := map[string]int{}
	shown := map[uint64]bool{}
	for _, op := range h.ops {
		for _, id := range op.read {
			shown[id] = true
		}
	}
	ops := make([]porcupine.Operation, 0, len(h.ops))
	for _, op := range h.ops {
		if op.append && !op.known && !shown[op.id] {
			continue // Its place may be after everything else.
		}
		if _, ok := clients[op.process]; !ok {
			clients[op.process] = len(clients)
		}
		back := op.back
		if op.append && !op.known {
			back = math.MaxInt64
		}
		ops = append(ops, porcupine.Operation{ClientId: clients[op.process], Input: op, Call: op.call, Return: back})
	}
	if result := porcupine.CheckOperationsTimeout(model(), ops, limit); result != porcupine.Ok {
		return fmt.Errorf("check %d operations: %v", len(ops), result)
	}
	return nil
}

// listOf is a list of batches as a state of the model: the bytes of their ids.
func listOf(ids ...uint64) string {
	var list []byte
	for _, id := range ids {
		list = binary.BigEndian.AppendUint64(list, id)
	}
	return string(list)
}

// model is a list of batches that only grows.
func model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return "" },
		Step: func(state, input, _ any) (bool, any) {
			list, op := state.(string), input.(op)
			from, read := int(op.seq)*len(listOf(0)), listOf(op.read...)
			switch end := from + len(read); {
			case op.append:
				return !op.known || from == len(list), list + listOf(op.id)
			case end > len(list), op.known && end < len(list):
				return false, list
			default:
				return list[from:end] == read, list
			}
		},
		DescribeOperation: func(input, _ any) string { return fmt.Sprintf("%+v", input) },
	}
}
