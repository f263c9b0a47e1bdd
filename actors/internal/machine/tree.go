package machine

import (
	"slices"

	"github.com/parleyrun/parley/conversation"
)

// The conversation that began a tree of dispatches holds its state, see [conversation.Tree]. TestTrees
// of package internal/model checks these rules:
//
// - T1: A submission joins its tree durably before it is dispatched.
// - T2: An attempt of a tree asks the root before it runs author code or a model.
// - T3: An abort of a tree is durable before it reads the members.
// - T4: An aborted tree accepts no members.

type (
	// Tree asks whether a submission may join a dispatch tree rooted here, or continue; [TreeStatus]
	// answers. Member and Key identify the submission. Cost is its cost so far, in dollars.
	Tree struct {
		To         ReplyID                   `json:"-"`
		Submission conversation.SubmissionID `json:"submission"` // the root of the tree
		Member     conversation.Address      `json:"member"`
		Key        string                    `json:"key"`
		Join       bool                      `json:"join,omitempty"`
		Cost       float64                   `json:"cost,omitempty"`
		// List requests the members from number From on instead, up to [TreePage].
		List bool `json:"list,omitempty"`
		From int  `json:"from,omitempty"`
	}
	// TreeStatus answers [Tree].
	TreeStatus struct {
		// Closed reports that an abort covers the tree.
		Closed bool `json:"closed,omitempty"`
		// Bound is the reached limit, [TreeSubmissions] or [TreeDollars], empty for none. Limit and
		// Spent are its values.
		Bound string  `json:"bound,omitempty"`
		Limit float64 `json:"limit,omitempty"`
		Spent float64 `json:"spent,omitempty"`
		// Dollars reports that the tree has a dollar limit, so that its members report their cost.
		Dollars bool `json:"dollars,omitempty"`
		// Members answers List. More reports that there are others.
		Members []conversation.TreeMember `json:"members,omitempty"`
		More    bool                      `json:"more,omitempty"`
	}
	// TreeAnswered delivers the answer to [AskTree].
	TreeAnswered struct {
		Gen    int
		Status TreeStatus
	}

	// AskTree asks the root of a tree whether the work gen of a submission may continue;
	// [TreeAnswered] answers. Gen 0 only reports the cost, without an answer.
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

// TreePage is the maximum number of members in one answer.
const TreePage = 500

// The limits of a tree.
const (
	TreeSubmissions = "treeSubmissions"
	TreeDollars     = "treeDollars"
)

func (m *Machine) tree(in Tree) {
	if m.rejected(in.To) {
		return
	}
	if !m.state.Exists() { // The root was deleted, and its budget with it.
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
		m.reply(in.To, status, false) // The append of its batch confirms the tail.
		return
	}
	m.confirm(in.To, status)
}

// added returns by how much cost exceeds the cost reported by a member.
func added(member *conversation.TreeMember, cost float64) float64 {
	if member != nil {
		cost -= member.Dollars
	}
	return max(cost, 0)
}

func page(t *conversation.Tree, from int) TreeStatus {
	if t == nil || from < 0 || from >= len(t.Members) {
		return TreeStatus{Closed: t != nil && t.Closed}
	}
	to := min(from+TreePage, len(t.Members))
	return TreeStatus{Closed: t.Closed, Members: slices.Clone(t.Members[from:to]), More: to < len(t.Members)}
}

func (m *Machine) count(in Tree, joins bool, submissions int, dollars float64) {
	limits := m.limits()
	m.enqueue(true, &conversation.TreeCounted{
		Must: true, Submission: in.Submission, Member: in.Member, Key: in.Key, Joined: joins, Cost: in.Cost,
		Submissions: submissions, Dollars: dollars,
		MaxSubmissions: limits.MaxTree, MaxDollars: limits.MaxTreeDollars, At: m.env.Wall,
	})
}

// askTree asks the root of the work's tree and reports whether the work waits for the answer. It asks
// at the start of an attempt, and before a model call if an unreported cost counts.
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

// reportCost reports the cost of a submission to its tree before it settles. The root records it in
// the same batch; others send it.
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

// countOwn records the cost of a possible root, if the tree is bounded, and returns the dollars used
// by the tree.
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

// overTree returns the error of a root whose tree has reached its dollar limit, or nil.
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
