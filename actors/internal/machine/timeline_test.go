package machine_test

import (
	"iter"
	"slices"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/stats"
)

// verifyTimelines checks the timelines of all submissions for the whole log and its first batches.
func (w *world) verifyTimelines() {
	w.verifyLosses()
	for _, n := range []int{len(w.log), w.r.IntN(len(w.log) + 1)} {
		events := eventsOf(w.log[:n])
		for _, ev := range events {
			p, ok := ev.Payload.(*observability.SubmissionQueued)
			if !ok {
				continue
			}
			root, err := stats.Trace(yield(events), ev.Submission)
			if err != nil {
				violate("trace %s: %v", ev.Submission, err)
			}
			if root.Start != ev.At {
				violate("the timeline of %s, a %s, starts at %d, want %d", ev.Submission, p.MessageKind, root.Start, ev.At)
			}
			w.checkNode(root)
		}
	}
}

// verifyLosses checks that an attempt is lost at the build time of its writer's last batch with
// records.
func (w *world) verifyLosses() {
	for i, e := range w.log {
		for _, r := range e.batch.Records {
			a, ok := r.(*conversation.AttemptStarted)
			if !ok || a.LostAt == 0 { // The activation read a checkpoint that covers all batches.
				continue
			}
			w.seen["timeline loss known"]++
			if want := built(w.log[:i]); a.After != conversation.AfterLoss || a.LostAt != want {
				violate("batch %d: attempt %d after %q, lost at %d, want %d", i, a.Attempt, a.After, a.LostAt, want)
			}
		}
	}
}

func eventsOf(log []entry) (all []observability.Event) {
	var src observability.Source
	for _, e := range log {
		all = append(all, observability.Project(src, e.batch, nil)...)
		src = src.After(e.batch)
	}
	return all
}

func yield(events []observability.Event) iter.Seq2[observability.Event, error] {
	return func(yield func(observability.Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func ends(n *stats.Node) conversation.Time { return n.Start + conversation.Time(n.DurationMs) }

// checkNode checks that children lie within their parent, that sequential ones do not overlap, and
// that lengths add up.
func (w *world) checkNode(n *stats.Node) {
	for _, c := range n.Children {
		if c.Start < n.Start || ends(c) > ends(n) {
			violate("%s %q from %d to %d exceeds its parent %s %q from %d to %d", c.Kind, c.Name, c.Start, ends(c), n.Kind, n.Name, n.Start, ends(n))
		}
		w.checkNode(c)
	}
	for _, c := range n.After {
		w.seen["timeline after"]++
		w.checkNode(c)
	}
	if !w.skewed {
		w.seen["timeline exact "+string(n.State)]++
		checkSequence(n, stats.KindRun)
		checkSequence(n, stats.KindTurn)
		checkSum(n)
	}
	switch {
	case n.Kind == stats.KindRun && n.State == stats.StateLost && n.DurationMs > 0:
		w.seen["timeline lost"]++
	case n.Kind == stats.KindTurn && n.State == stats.StateLost && n.DurationMs > 0:
		w.seen["timeline lost turn"]++
	case n.Kind == stats.KindOperation && slices.ContainsFunc(n.Children, func(c *stats.Node) bool { return c.Kind == stats.KindTool }):
		w.seen["timeline tool over attempts"]++
	case n.State == stats.StateAborted:
		w.seen["timeline aborted "+string(n.Kind)]++
	}
	if n.Kind == stats.KindSubmission && n.State == stats.StateAborted {
		for _, c := range n.Children {
			if c.Kind == stats.KindOperation && c.Name == observability.OperationPrompt && c.State != stats.StateAborted {
				violate("operation of aborted %s: got state %s", n.ID, c.State)
			}
		}
	}
}

func checkSequence(n *stats.Node, kind stats.Kind) {
	var before *stats.Node
	var sum int64
	for _, c := range n.Children {
		if c.Kind != kind || c.Purpose == observability.PurposeCompaction {
			continue
		}
		if before != nil && c.Start < ends(before) {
			violate("%s %q at %d overlaps the previous %q from %d to %d", kind, c.Name, c.Start, before.Name, before.Start, ends(before))
		}
		before = c
		sum += c.DurationMs
	}
	if sum > n.DurationMs {
		violate("children of kind %s take %d ms, their parent %s %q takes %d ms", kind, sum, n.Kind, n.Name, n.DurationMs)
	}
}

func checkSum(n *stats.Node) {
	if n.Kind != stats.KindSubmission {
		return
	}
	var sum int64
	for _, c := range n.Children {
		if c.Kind == stats.KindQueue || c.Kind == stats.KindOperation && c.Name == observability.OperationPrompt {
			sum += c.DurationMs
		}
	}
	if sum != n.DurationMs {
		violate("queue and operation of %s: got %d ms, want %d ms", n.ID, sum, n.DurationMs)
	}
}
