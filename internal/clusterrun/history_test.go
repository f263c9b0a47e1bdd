package clusterrun_test

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/noderun"
)

// history is what clients know of the admissions and the reads of one conversation.
type history struct {
	ID     string
	Order  []*noderun.Admitted // All admissions, as the log has them.
	Sent   []*sent
	Looks  []look
	Marks  []noderun.Mark // Of readers by SSE.
	Strict bool           // No read may be old.
	// Windows are when the membership changed; only then a read that named no offset
	// may be as old as Stale.
	Windows []window
	Stale   time.Duration
	// Limit bounds the search for an order.
	Limit time.Duration
}

// op is an admission or a read, in terms of how many admissions there are.
type op struct {
	admits bool
	n      int  // The number of an admission from 0, or how many a read has shown.
	exact  bool // The read has shown all there were.
	what   string
}

// check returns what does not fit together.
func (h *history) check() (flaws []string) {
	flaw := func(format string, args ...any) { flaws = append(flaws, h.ID+": "+fmt.Sprintf(format, args...)) }
	ops := h.admissions(flaw)
	for _, l := range h.Looks {
		o, ok := h.look(l, flaw)
		if !ok {
			continue
		}
		call := l.Call
		if !h.Strict && !l.At && h.changing(l) {
			call = call.Add(-h.Stale)
		}
		ops = append(ops, porcupine.Operation{Input: o, Call: call.UnixNano(), Return: l.Back.UnixNano()})
	}
	ops = append(ops, h.marks()...)
	if len(flaws) > 0 {
		return flaws
	}
	result := porcupine.CheckOperationsTimeout(model(), ops, h.Limit)
	if result == porcupine.Ok {
		return nil
	}
	flaw("admissions and reads have no order (%s)%s", result, h.suspects(ops))
	return flaws
}

// admissions checks what was answered with what the log has.
func (h *history) admissions(flaw func(string, ...any)) (ops []porcupine.Operation) {
	place := map[string]int{}
	for i, a := range h.Order {
		if first, twice := place[a.Key]; twice {
			flaw("key %s is admitted as %s and as %s", a.Key, h.Order[first].Submission, a.Submission)
		}
		place[a.Key] = i
	}
	known := map[string]bool{}
	for _, m := range h.Sent {
		known[m.Key] = true
		i, there := place[m.Key]
		if !there {
			if m.Receipt != nil {
				flaw("key %s was answered with %+v and is not in the log", m.Key, *m.Receipt)
			}
			continue
		}
		back := int64(math.MaxInt64) // It may have been admitted at any time since.
		if r := m.Receipt; r != nil {
			back = m.Back.UnixNano()
			if r.SubmissionID != h.Order[i].Submission || r.Offset != h.Order[i].Offset {
				flaw("key %s was answered with %+v, the log has %s at %s", m.Key, *r, h.Order[i].Submission, h.Order[i].Offset)
			}
		}
		ops = append(ops, porcupine.Operation{
			Input: op{admits: true, n: i, what: "message " + m.Key}, Call: m.Call.UnixNano(), Return: back,
		})
	}
	for _, a := range h.Order {
		if !known[a.Key] {
			flaw("key %s is in the log, and nobody sent it", a.Key)
		}
	}
	return ops
}

// look checks what a read has shown with the log up to its offset.
func (h *history) look(l look, flaw func(string, ...any)) (op, bool) {
	from, n := 0, h.visible(l.Next)
	if !l.Whole {
		from = h.visible(l.After)
	}
	var want []string
	for _, a := range h.Order[min(from, n):n] {
		want = append(want, a.Key)
	}
	if l.Next < l.After || !slices.Equal(l.Keys, want) {
		flaw("a read at node %d from %s to %s shows %q, the log has %q", l.Node+1, l.After, l.Next, l.Keys, want)
		return op{}, false
	}
	return op{n: n, exact: l.UpToDate, what: fmt.Sprintf("read at node %d after %s to %s", l.Node+1, l.After, l.Next)}, true
}

// visible is how many admissions there are up to an offset.
func (h *history) visible(at conversation.Offset) (n int) {
	for _, a := range h.Order {
		if a.Offset <= at {
			n++
		}
	}
	return n
}

// changing reports whether the membership changed while a read was under way.
func (h *history) changing(l look) bool {
	return slices.ContainsFunc(h.Windows, func(w window) bool { return !l.Call.After(w.To) && !l.Back.Before(w.From) })
}

// marks are reads that have shown at least so much: a reader by SSE has it at some
// time after it asked.
func (h *history) marks() (ops []porcupine.Operation) {
	for i, a := range h.Order {
		var first *noderun.Mark
		for j := range h.Marks {
			if m := &h.Marks[j]; m.Offset >= a.Offset && (first == nil || m.At.Before(first.At)) {
				first = m
			}
		}
		if first != nil {
			ops = append(ops, porcupine.Operation{
				Input: op{n: i + 1, what: "stream up to " + first.Offset.String()}, Call: first.Call.UnixNano(), Return: first.At.UnixNano(),
			})
		}
	}
	return ops
}

// model is a number of admissions that grows by one.
func model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return 0 },
		Step: func(state, input, _ any) (bool, any) {
			n, o := state.(int), input.(op)
			switch {
			case o.admits:
				return o.n == n, n + 1
			case o.exact:
				return o.n == n, n
			}
			return o.n <= n, n
		},
	}
}

// suspects looks for reads that are too old or too new by themselves, to tell a
// person more than that there is no order.
func (h *history) suspects(ops []porcupine.Operation) (text string) {
	sort.Slice(ops, func(i, j int) bool { return ops[i].Call < ops[j].Call })
	for _, r := range ops {
		read := r.Input.(op)
		if read.admits {
			continue
		}
		for _, a := range ops {
			other := a.Input.(op)
			missed := other.admits && other.n >= read.n || !other.admits && other.n > read.n
			if read.exact && missed && a.Return < r.Call {
				text += fmt.Sprintf("\n  %s, asked %v (of those at most %v are allowed) after the end of %s, does not show it",
					read.what, time.Duration(r.Call-a.Return), h.Stale, other.what)
				break
			}
			if other.admits && other.n < read.n && a.Call > r.Return {
				text += fmt.Sprintf("\n  %s shows %s %v before that was sent", read.what, other.what, time.Duration(a.Call-r.Return))
				break
			}
		}
	}
	return text
}
