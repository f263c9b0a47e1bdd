package machine

import (
	"slices"

	"github.com/parleyrun/parley/conversation"
)

// A tree of dispatches has its state in the conversation that began it, see [conversation.Tree]. The rules, whose model is
// TestTrees of package internal/model:
//
//   - T1: that a submission joins is durable before it is dispatched.
//   - T2: a submission of a tree asks before anything of an author or a model runs for its attempt.
//   - T3: an abort of a tree is durable before it reads the members.
//   - T4: a tree that an abort covers takes no members.

type (
	// Tree asks about a tree of dispatches that began here: whether a submission may join it, or go on; [TreeStatus]
	// answers. Member and Key name the submission, and Cost is what it has cost so far.
	Tree struct {
		To         ReplyID                   `json:"-"`
		Submission conversation.SubmissionID `json:"submission"` // that began it
		Member     conversation.Address      `json:"member"`
		Key        string                    `json:"key"`
		Join       bool                      `json:"join,omitempty"`
		Cost       float64                   `json:"cost,omitempty"`
		// List asks for the members from the one numbered From on instead, up to [TreePage].
		List bool `json:"list,omitempty"`
		From int  `json:"from,omitempty"`
	}
	// TreeStatus answers [Tree].
	TreeStatus struct {
		// Closed says that an abort covers the tree.
		Closed bool `json:"closed,omitempty"`
		// Bound is the limit that is reached, [TreeSubmissions] or [TreeDollars], empty for none; Limit and Spent are
		// its values.
		Bound string  `json:"bound,omitempty"`
		Limit float64 `json:"limit,omitempty"`
		Spent float64 `json:"spent,omitempty"`
		// Dollars says that the tree has a limit of dollars: its members report what they cost.
		Dollars bool `json:"dollars,omitempty"`
		// Members are what List has asked for, and More says that there are others.
		Members []conversation.TreeMember `json:"members,omitempty"`
		More    bool                      `json:"more,omitempty"`
	}
	// TreeAnswered delivers the answer to [AskTree].
	TreeAnswered struct {
		Gen    int
		Status TreeStatus
	}

	// AskTree asks the conversation that began a tree whether the work gen of a submission may go on; [TreeAnswered]
	// answers. Gen 0 reports the cost alone, and nothing answers.
	AskTree struct {
		Gen        int
		Submission conversation.SubmissionID
		Tree       conversation.TreeRef
		Key        string
		Cost       float64
	}
)

func (Tree) input()         {}
func (TreeAnswered) input() {}
func (AskTree) effect()     {}
func (TreeStatus) answer()  {}

// TreePage is how many members of a tree are listed at once.
const TreePage = 500

// The limits of a tree.
const (
	TreeSubmissions = "treeSubmissions"
	TreeDollars     = "treeDollars"
)

// tree decides whether a submission may join a tree, or go on.
func (m *Machine) tree(in Tree) {
	if m.closed(in.To) {
		return
	}
	if !m.state.Exists() { // The root was deleted with its budget.
		m.confirm(in.To, TreeStatus{Closed: in.Join})
		return
	}
	t := m.state.Tree(in.Submission)
	if in.List {
		m.confirm(in.To, page(t, in.From))
		return
	}
	limits, member := m.limits(), t.Member(in.Member, in.Key)
	joins := in.Join && member == nil
	n, dollars := t.Used(m.env.Wall)
	cost := added(member, in.Cost)
	dollars += cost
	status := TreeStatus{Dollars: limits.MaxTreeDollars > 0}
	switch {
	case t != nil && t.Closed && refusesClosed():
		status.Closed = true
	case limits.MaxTree > 0 && joins && n >= limits.MaxTree:
		status.Bound, status.Limit, status.Spent = TreeSubmissions, float64(limits.MaxTree), float64(n)
	case status.Dollars && (joins || !in.Join) && dollars >= limits.MaxTreeDollars:
		status.Bound, status.Limit, status.Spent = TreeDollars, limits.MaxTreeDollars, dollars
	}
	joins = joins && status.Bound == "" && !status.Closed
	if joins || cost > 0 {
		if joins {
			n++
		}
		m.count(in, joins, n, dollars)
		if joins && !joinsFirst() {
			m.emit(Reply{in.To, status})
			return
		}
		m.reply(in.To, status, false) // Its batch shows that the log ends there.
		return
	}
	m.confirm(in.To, status)
}

// added is by how much a cost exceeds the one that a member has reported.
func added(member *conversation.TreeMember, cost float64) float64 {
	if member != nil {
		cost -= member.Dollars
	}
	return max(cost, 0)
}

// page returns members of a tree.
func page(t *conversation.Tree, from int) TreeStatus {
	if t == nil || from < 0 || from >= len(t.Members) {
		return TreeStatus{Closed: t != nil && t.Closed}
	}
	to := min(from+TreePage, len(t.Members))
	return TreeStatus{Closed: t.Closed, Members: slices.Clone(t.Members[from:to]), More: to < len(t.Members)}
}

// count records that a submission joins a tree, or its cost, and what the tree has used with it.
func (m *Machine) count(in Tree, joins bool, submissions int, dollars float64) {
	limits := m.limits()
	m.enqueue(true, &conversation.TreeCounted{
		Must: true, Submission: in.Submission, Member: in.Member, Key: in.Key, Joined: joins, Cost: in.Cost,
		Submissions: submissions, Dollars: dollars,
		MaxSubmissions: limits.MaxTree, MaxDollars: limits.MaxTreeDollars, At: m.env.Wall,
	})
}

// askTree has the work wait for the conversation that began its tree, and reports whether it does: at the start of an
// attempt, and before a model call if the cost has changed since it was reported and counts.
func (m *Machine) askTree(w *work, starts bool) bool {
	root := m.state.Submission(m.work.submission)
	if root.Tree == nil {
		return false
	}
	cost := m.state.Spent(root.ID).Dollars
	if asks := starts || m.work.treeDollars && cost > m.work.reported; !asks || !asksTree() {
		return false
	}
	m.work.reported = cost
	w.phase, w.starts = phaseTree, starts
	m.emit(AskTree{Gen: m.newGen(w), Submission: w.submission, Tree: *root.Tree, Key: root.Key, Cost: cost})
	return true
}

// treeAnswered goes on with work that has asked, or ends it.
func (m *Machine) treeAnswered(in TreeAnswered) {
	w := m.workOf(in.Gen)
	if w == nil || w.phase != phaseTree {
		return
	}
	root := m.state.Submission(m.work.submission)
	switch s := in.Status; {
	case s.Closed:
		m.abortAll([]*conversation.Submission{root}, false)
	case s.Bound != "" && !w.starts:
		m.fail(w, reached(s.Bound, s.Limit, s.Spent))
	case s.Bound != "" && !answered(root):
		m.closeWork(root, toolNotStarted, toolUnknown, false)
		m.settle(root, conversation.OutcomeFailed, reached(s.Bound, s.Limit, s.Spent))
	default:
		m.work.treeDollars = s.Dollars
		if w.starts {
			m.begin(w)
		} else {
			m.startCall(w)
		}
	}
}

// reportCost counts what a submission has cost in its tree, before it settles. The conversation that began the tree
// does so in the batch; others send it.
func (m *Machine) reportCost(sub *conversation.Submission) {
	w := m.work
	if w == nil || w.submission != sub.ID {
		return
	}
	cost := m.state.Spent(sub.ID).Dollars
	switch {
	case sub.Tree == nil:
		m.countOwn(sub, cost)
	case w.treeDollars && cost > w.reported:
		m.emit(AskTree{Tree: *sub.Tree, Key: sub.Key, Cost: cost})
	}
}

// countOwn counts the cost of a submission that may have begun a tree, if it is bounded, and returns the dollars that
// the tree has used.
func (m *Machine) countOwn(sub *conversation.Submission, cost float64) float64 {
	in := Tree{Submission: sub.ID, Member: m.state.Created().Address().Reach(), Key: sub.Key, Cost: cost}
	t := m.state.Tree(sub.ID)
	n, dollars := t.Used(m.env.Wall)
	if more := added(t.Member(in.Member, in.Key), cost); more > 0 && m.limits().MaxTreeDollars > 0 {
		dollars += more
		m.count(in, false, n, dollars)
	}
	return dollars
}

// overTree returns the error of a submission that began a tree which has cost as much as it may, nil if it has not.
func (m *Machine) overTree(sub *conversation.Submission) *conversation.SettlementError {
	limit := m.limits().MaxTreeDollars
	if sub.Tree != nil || limit == 0 {
		return nil
	}
	if dollars := m.countOwn(sub, m.state.Spent(sub.ID).Dollars); dollars >= limit {
		return reached(TreeDollars, limit, dollars)
	}
	return nil
}
