package conversation

import (
	"math"
	"slices"
)

const (
	// MaxTrees bounds the trees kept in the conversation that began them. The last changed ones stay.
	MaxTrees = 64
	// MaxTreeMembers bounds the members kept of all trees of a conversation. Members of the last
	// changed trees stay, and of one tree those that joined last.
	MaxTreeMembers = 10_000
	// treeHours is how long members and costs count against a tree's budget.
	treeHours = 24
	// hour is the resolution of that time.
	hour = Time(3600_000)
)

// TreeRef names a dispatch tree: the submission that began it, and its conversation by
// [Address.Reach]. Submissions dispatched by work on the tree belong to it, and so do those that they
// dispatch.
type TreeRef struct {
	Root       Address      `json:"root"`
	Submission SubmissionID `json:"submission"`
}

// TreeMember is a submission of a tree: the conversation that it was dispatched to, and its
// idempotency key there.
type TreeMember struct {
	Address Address `json:"address"`
	Key     string  `json:"key"`
	// Dollars is the reported cost.
	Dollars float64 `json:"dollars,omitempty"`
}

func (m *TreeMember) is(at Address, key string) bool { return m.Key == key && m.Address == at }

// TreeHour is the budget use of a tree in one hour.
type TreeHour struct {
	From        Time    `json:"from"`
	Submissions int     `json:"submissions,omitempty"`
	Dollars     float64 `json:"dollars,omitempty"`
}

// Tree is the state of a dispatch tree in the conversation that began it. It is read-only.
type Tree struct {
	Submission SubmissionID `json:"submission"`
	// Closed is set if an abort covers the tree. It takes no more members.
	Closed bool `json:"closed,omitempty"`
	// Members are in join order. The submission that began the tree is among them once it has reported
	// a cost.
	Members []TreeMember `json:"members,omitempty"`
	Hours   []TreeHour   `json:"hours,omitempty"`
}

// TreeCounted counts a submission of a dispatch tree, in the conversation that began it. Submission
// began the tree. Joined is set if a submission is about to be dispatched to Member under Key. Cost is
// its reported cost in US dollars. Submissions and Dollars are the tree's use in 24 hours, including
// this. MaxSubmissions and MaxDollars are its budget, 0 for no bound.
type TreeCounted struct {
	Must           bool         `json:"must"`
	Submission     SubmissionID `json:"submission"`
	Member         Address      `json:"member"`
	Key            string       `json:"key"`
	Joined         bool         `json:"joined,omitempty"`
	Cost           float64      `json:"cost,omitempty"`
	Submissions    int          `json:"submissions"`
	Dollars        float64      `json:"dollars,omitempty"`
	MaxSubmissions int          `json:"maxSubmissions,omitempty"`
	MaxDollars     float64      `json:"maxDollars,omitempty"`
	At             Time         `json:"at"`
}

// Type implements [Record].
func (*TreeCounted) Type() RecordType { return TypeTreeCounted }

// bytes returns the estimated memory of the tree.
func (t *Tree) bytes() int {
	n := PartBytes + PartBytes*len(t.Hours)
	for _, m := range t.Members {
		n += PartBytes + len(m.Address.Agent) + len(m.Address.ID) + len(m.Key)
	}
	return n
}

// Member returns the member under a key of a conversation, or nil.
func (t *Tree) Member(at Address, key string) *TreeMember {
	if t == nil {
		return nil
	}
	i := slices.IndexFunc(t.Members, func(m TreeMember) bool { return m.is(at, key) })
	if i < 0 {
		return nil
	}
	return &t.Members[i]
}

// Used returns the submissions that joined and the cost reported in the 24 hours before now, both at
// hourly resolution.
func (t *Tree) Used(now Time) (submissions int, dollars float64) {
	if t == nil {
		return 0, 0
	}
	for _, h := range t.Hours {
		if h.From > now-treeHours*hour {
			submissions, dollars = submissions+h.Submissions, dollars+h.Dollars
		}
	}
	return submissions, dollars
}

// Tree returns the tree that a submission began, nil if there is none or it was dropped.
func (s *State) Tree(id SubmissionID) *Tree {
	i := slices.IndexFunc(s.trees, func(t *Tree) bool { return t.Submission == id })
	if i < 0 {
		return nil
	}
	return s.trees[i]
}

// Trees returns the trees that began here, ordered by last change. The slice is shared and read-only.
func (s *State) Trees() []*Tree { return s.trees }

// TreeMembers returns the number of members kept of all trees.
func (s *State) TreeMembers() int {
	n := 0
	for _, t := range s.trees {
		n += len(t.Members)
	}
	return n
}

func (s *State) foldTree(r *TreeCounted) error {
	if !(r.Cost >= 0) || math.IsInf(r.Cost, 1) {
		return s.bad(r, "the cost is %v", r.Cost)
	}
	t := s.touchTree(r.Submission)
	m := t.Member(r.Member, r.Key)
	switch {
	case m == nil: // Appending does not change trees returned before.
		t.Members = append(t.Members[max(0, len(t.Members)-MaxTreeMembers+1):], TreeMember{Address: r.Member, Key: r.Key})
		m = &t.Members[len(t.Members)-1]
	case r.Joined:
		return s.bad(r, "%s of %s is a member already", r.Key, r.Member.ID)
	default:
		t.Members = slices.Clone(t.Members)
		m = t.Member(r.Member, r.Key)
	}
	from := r.At - r.At%hour
	t.Hours = slices.DeleteFunc(t.Hours, func(h TreeHour) bool { return h.From <= from-treeHours*hour })
	if n := len(t.Hours); n == 0 || t.Hours[n-1].From != from {
		t.Hours = append(t.Hours, TreeHour{From: from})
	}
	h := &t.Hours[len(t.Hours)-1]
	if r.Joined {
		h.Submissions++
	}
	if r.Cost > m.Dollars {
		h.Dollars, m.Dollars = h.Dollars+r.Cost-m.Dollars, r.Cost
	}
	return nil
}

// touchTree moves the tree of a submission to the end and returns it. It creates a missing tree, and
// drops the least recently changed one if there are too many.
func (s *State) touchTree(id SubmissionID) *Tree {
	t, trees := &Tree{Submission: id}, slices.Clone(s.trees)
	if i := slices.IndexFunc(s.trees, func(t *Tree) bool { return t.Submission == id }); i >= 0 {
		before := s.trees[i]
		t = &Tree{Submission: id, Closed: before.Closed, Members: before.Members, Hours: slices.Clone(before.Hours)}
		trees = append(slices.Clone(s.trees[:i]), s.trees[i+1:]...)
	}
	s.trees = append(trees, t)
	for len(s.trees) > 1 && (len(s.trees) > MaxTrees || s.TreeMembers() > MaxTreeMembers) {
		s.trees = s.trees[1:]
	}
	return t
}

// closeTrees closes the trees that began here, and those that the aborted submissions could still
// begin.
func (s *State) closeTrees(aborted []SubmissionID) {
	s.trees = slices.Clone(s.trees)
	for _, id := range aborted {
		if sub := s.bySub[id]; sub != nil && sub.Tree == nil {
			s.touchTree(id)
		}
	}
	for i, t := range s.trees {
		s.trees[i] = &Tree{Submission: t.Submission, Closed: true, Members: t.Members, Hours: t.Hours}
	}
}
