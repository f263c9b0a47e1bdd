package logsim

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/anishathalye/porcupine"
)

// op is an append or a read of a log as its caller sees it.
type op struct {
	process    string
	append     bool
	call, back int64    // nanoseconds since the start
	id         uint64   // id of the appended batch
	seq        int64    // number of the batch, or of the first batch of a read
	read       []uint64 // ids read
	known      bool     // the outcome of the append is known, or the read reached the end of the log
}

// History records the appends and reads of a schedule, with their times.
type History struct{ ops []op }

// Len returns the number of operations.
func (h History) Len() int { return len(h.ops) }

// Check reports whether the operations are linearizable as those of a list that is appended to and
// read. It returns an error if not, or if the check exceeds limit. An append with an unknown outcome
// may take effect at any time after it began. Check uses several cores and real time, so it must be
// called outside a bubble.
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
			continue // It may take effect after all others.
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

// listOf encodes a list of batches as a state of the model: the bytes of their ids.
func listOf(ids ...uint64) string {
	var list []byte
	for _, id := range ids {
		list = binary.BigEndian.AppendUint64(list, id)
	}
	return string(list)
}

// model returns an append-only list of batches.
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
