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

// history holds the admissions and the reads of one conversation as seen by clients.
type history struct {
	ID           string
	Order        []*noderun.Admitted // all admissions, in log order
	Sent         []*sent
	Observations []observation
	Marks        []noderun.Mark // of SSE readers
	Strict       bool           // no read may be old
	// Windows are the changes of the membership. Only in them may a read without an offset be as old
	// as Stale.
	Windows []window
	Stale   time.Duration
	// Limit bounds the search for an order.
	Limit time.Duration
}

// op is an admission or a read, reduced to the number of admissions.
type op struct {
	admits bool
	n      int  // the number of an admission from 0, or the number of admissions a read returned
	exact  bool // the read returned all admissions
	desc   string
}

func (h *history) check() (flaws []string) {
	flaw := func(format string, args ...any) { flaws = append(flaws, h.ID+": "+fmt.Sprintf(format, args...)) }
	ops := h.admissions(flaw)
	for _, l := range h.Observations {
		o, ok := h.observation(l, flaw)
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

// admissions compares the receipts with the log.
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
				flaw("key %s has receipt %+v but is not in the log", m.Key, *m.Receipt)
			}
			continue
		}
		back := int64(math.MaxInt64) // Without a receipt it may have been admitted at any later time.
		if r := m.Receipt; r != nil {
			back = m.Back.UnixNano()
			if r.SubmissionID != h.Order[i].Submission || r.Offset != h.Order[i].Offset {
				flaw("key %s has receipt %+v, but the log has %s at %s", m.Key, *r, h.Order[i].Submission, h.Order[i].Offset)
			}
		}
		ops = append(ops, porcupine.Operation{
			Input: op{admits: true, n: i, desc: "message " + m.Key}, Call: m.Call.UnixNano(), Return: back,
		})
	}
	for _, a := range h.Order {
		if !known[a.Key] {
			flaw("key %s is in the log but was never sent", a.Key)
		}
	}
	return ops
}

// observation compares a read with the log up to its offset.
func (h *history) observation(l observation, flaw func(string, ...any)) (op, bool) {
	from, n := 0, h.visible(l.Next)
	if !l.Whole {
		from = h.visible(l.After)
	}
	var want []string
	for _, a := range h.Order[min(from, n):n] {
		want = append(want, a.Key)
	}
	if l.Next < l.After || !slices.Equal(l.Keys, want) {
		flaw("read at node %d from %s to %s: got %q, want %q as in the log", l.Node+1, l.After, l.Next, l.Keys, want)
		return op{}, false
	}
	return op{n: n, exact: l.UpToDate, desc: fmt.Sprintf("read at node %d after %s to %s", l.Node+1, l.After, l.Next)}, true
}

// visible returns the number of admissions up to an offset.
func (h *history) visible(at conversation.Offset) (n int) {
	for _, a := range h.Order {
		if a.Offset <= at {
			n++
		}
	}
	return n
}

// changing reports whether the membership changed during a read.
func (h *history) changing(l observation) bool {
	return slices.ContainsFunc(h.Windows, func(w window) bool { return !l.Call.After(w.To) && !l.Back.Before(w.From) })
}

// marks returns reads with a minimum of admissions: an SSE reader received them at some time after its
// request.
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
				Input: op{n: i + 1, desc: "stream up to " + first.Offset.String()}, Call: first.Call.UnixNano(), Return: first.At.UnixNano(),
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

// suspects names single reads that are too old or too new, as an explanation when no order exists.
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
				text += fmt.Sprintf("\n  %s, started %v (allowed: %v) after the end of %s, lacks it",
					read.desc, time.Duration(r.Call-a.Return), h.Stale, other.desc)
				break
			}
			if other.admits && other.n < read.n && a.Call > r.Return {
				text += fmt.Sprintf("\n  %s has %s %v before it was sent", read.desc, other.desc, time.Duration(a.Call-r.Return))
				break
			}
		}
	}
	return text
}
