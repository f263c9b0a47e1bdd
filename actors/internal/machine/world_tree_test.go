package machine_test

import (
	"fmt"
	"slices"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/conversation"
)

var treeRoot = conversation.TreeRef{Root: conversation.Address{Agent: "triage", ID: "root"}, Submission: "sub_root"}

type trees struct {
	asking []machine.AskTree                  // without an answer
	open   map[string]bool                    // attempts allowed by their tree
	closed map[conversation.SubmissionID]bool // by answered aborts
	late   map[machine.ReplyID]bool           // questions about closed trees
}

func (w *world) attemptOf(root *conversation.Submission) string {
	return fmt.Sprintf("%s %d %d", root.ID, root.Attempts, w.activations)
}

// mayRun checks that the tree of a submission has answered before anything runs.
func (w *world) mayRun(root *conversation.Submission) {
	if root.Tree != nil && !w.trees.open[w.attemptOf(root)] {
		violate("%s runs before its tree has answered", root.ID)
	}
}

func (w *world) askTree(e machine.AskTree) {
	sub := w.durable.Submission(e.Submission)
	switch {
	case e.Tree != treeRoot:
		violate("unexpected question to tree %+v", e.Tree)
	case e.Gen == 0:
		w.seen["cost reported"]++
	case sub == nil || w.busy(e.Submission):
		violate("%s asks its tree before it is durable or while it works", e.Submission)
	default:
		w.trees.asking = append(w.trees.asking, e)
	}
}

func (w *world) answerTree() {
	e := w.trees.asking[0]
	w.trees.asking = w.trees.asking[1:]
	status := machine.TreeStatus{Dollars: w.chance(50)}
	switch {
	case w.chance(8):
		status.Closed = true
		w.seen["tree closed"]++
	default:
		if w.chance(8) { // A complete response continues to its end.
			status.Bound, status.Limit, status.Spent = machine.TreeDollars, 1, 2
		}
		root := w.durable.Submission(e.Submission)
		for root.Child != "" {
			root = w.durable.Submission(root.Parent)
		}
		w.trees.open[w.attemptOf(root)] = true
		w.seen["tree open"]++
	}
	in := machine.TreeAnswered{Gen: e.Gen, Status: status}
	w.stale = append(w.stale, in)
	w.note("tree answers gen=%d %s", e.Gen, treeText(status))
	w.do(in)
}

// join joins a submission to a tree rooted here, or asks for a member.
func (w *world) join() {
	id := conversation.SubmissionID("sub_gone")
	if all := w.m.State().Unsettled(); len(all) > 0 && w.chance(90) {
		id = all[w.r.IntN(len(all))].ID
	} else if all := w.m.State().Trees(); len(all) > 0 {
		id = all[w.r.IntN(len(all))].Submission
	}
	n := w.r.IntN(6)
	in := machine.Tree{
		Submission: id, Member: conversation.Address{Agent: "triage", ID: fmt.Sprint("m", n)}, Key: fmt.Sprint("k", n), Join: w.chance(70), Cost: float64(w.r.IntN(3)),
	}
	w.caller++
	in.To = w.caller
	w.callers[in.To], w.asked[in.To], w.trees.late[in.To] = in, w.tailReads, w.trees.closed[id]
	w.note("tree %d %s member %s join=%t cost=%v", in.To, id, in.Key, in.Join, in.Cost)
	w.do(in)
}

func (w *world) treeAnswer(asked machine.Tree, v machine.TreeStatus) {
	t := w.durable.Tree(asked.Submission)
	member := t.Member(asked.Member, asked.Key)
	n, _ := t.Used(w.wall)
	switch {
	case !w.durable.Exists():
	case v.Closed && (t == nil || !t.Closed):
		violate("%s is answered as closed but is %+v", asked.Submission, t)
	case v.Closed || v.Bound != "":
		w.seen["join refused"]++
	case asked.Join && member == nil:
		violate("%s may be dispatched but has not joined durably", asked.Key)
	case w.trees.late[asked.To]:
		violate("%s continues in a tree that an abort has closed", asked.Key)
	case w.limits.MaxTree > 0 && n > w.limits.MaxTree:
		violate("%d members have joined, limit is %d", n, w.limits.MaxTree)
	case asked.Cost > 0 && (member == nil || member.Dollars < asked.Cost):
		violate("%s reported cost %v, its tree has %+v", asked.Key, asked.Cost, member)
	default:
		w.seen["joined"]++
	}
}

func (w *world) treesAborted(asked machine.Abort, v machine.Aborted) {
	if !asked.Trees {
		return
	}
	for _, id := range v.Trees {
		if t := w.durable.Tree(id); t == nil || !t.Closed {
			violate("an abort is answered before the tree of %s is closed", id)
		}
		w.trees.closed[id] = true
		w.seen["tree aborted"]++
	}
}

func (w *world) cancelTree(gen int) {
	w.trees.asking = slices.DeleteFunc(w.trees.asking, func(e machine.AskTree) bool {
		if e.Gen == gen {
			w.stale = append(w.stale, machine.TreeAnswered{Gen: gen})
		}
		return e.Gen == gen
	})
}
