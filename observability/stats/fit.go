package stats

import (
	"slices"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
)

// fit sets the duration of every node after all nodes have their states. A node lies within its
// parent, whatever the clocks of the processes that recorded them.
func (b *builder) fit() {
	b.outlive(b.root)
	b.exact(b.root)
	b.place(b.root, b.root.Start, b.reach(b.root))
	slices.SortStableFunc(b.root.After, byStart)
	for _, n := range b.root.After {
		b.exact(n)
		b.place(n, n.Start, b.reach(n))
	}
}

// outlive moves work that ended after the settlement out of the submission: attempts to deliver posts,
// and a compaction.
func (b *builder) outlive(root *Node) {
	settled, ok := b.ends[root]
	if !ok {
		return
	}
	root.Children = slices.DeleteFunc(root.Children, func(c *Node) bool {
		end, ended := b.ends[c]
		later := (c.Kind == KindPost || c.Kind == KindOperation) && ended && end.seq > settled.seq
		if later {
			root.After = append(root.After, c)
		}
		return later
	})
}

// moveTools moves calls that outlived their run to the operation, which has all of its runs.
func (b *builder) moveTools(operation *Node) {
	runs := slices.DeleteFunc(slices.Clone(operation.Children), func(n *Node) bool { return n.Kind != KindRun })
	for i, run := range runs {
		over, ok := b.ends[run]
		if !ok {
			continue
		}
		next := int64(-1)
		if i+1 < len(runs) && run.Name != observability.EndSuspended {
			next = b.begun[runs[i+1]]
		}
		run.Children = slices.DeleteFunc(run.Children, func(c *Node) bool {
			end, ended := b.ends[c]
			// The batch that begins the next run closes the calls that ended with this one.
			closed := ended && end.took == 0 && c.State != StateOK && end.seq <= next
			outlives := c.Kind == KindTool && (ended && end.seq > over.seq && !closed || !ended && b.open[operation])
			if outlives {
				operation.Children = append(operation.Children, c)
			}
			return outlives
		})
	}
}

// exact sets the starts of calls to the start of their functions: before that, a call waited for its
// record to be durable.
func (b *builder) exact(n *Node) {
	for _, c := range n.Children {
		b.exact(c)
	}
	if end := b.ends[n]; n.Kind == KindTool && len(n.Children) == 0 && end.at != 0 && end.took > 0 {
		n.Start = max(n.Start, end.at-conversation.Time(end.took))
	}
}

// reach returns the latest known time of a node.
func (b *builder) reach(n *Node) conversation.Time {
	if end := b.ends[n]; end.at != 0 {
		return max(end.at, n.Start)
	}
	at := n.Start
	if n.State == StateRunning || n.State == StateQueued {
		at = max(at, b.last)
	}
	for _, c := range n.Children {
		at = max(at, b.reach(c))
	}
	return at
}

// place clips a node to two times, and its children to the node.
func (b *builder) place(n *Node, from, to conversation.Time) {
	n.Start = min(max(n.Start, from), to)
	end := min(max(b.reach(n), n.Start), to)
	n.DurationMs = int64(end - n.Start)
	for i, c := range n.Children {
		until := end
		if b.endless(n, c) { // It ran until the next model call began, or the run was lost.
			if next := slices.IndexFunc(n.Children[i+1:], isTurn); next >= 0 {
				until = n.Children[i+1+next].Start
			}
			b.ends[c] = ending{at: until}
		}
		b.place(c, n.Start, end)
	}
}

// endless reports whether no event has the end of c, which was lost with its parent.
func (b *builder) endless(parent, c *Node) bool {
	return parent.State == StateLost && c.State == StateLost && b.ends[c].at == 0
}

func isTurn(n *Node) bool { return n.Kind == KindTurn }
