package conversation

import (
	"math"
	"slices"
)

const (
	// MaxTrees bounds how many trees a conversation remembers that began in it: those that changed last.
	MaxTrees = 64
	// MaxTreeMembers bounds how many members a conversation remembers of all of its trees, those of the trees that changed
	// last, and of one tree those that joined last.
	MaxTreeMembers = 10_000
	// treeHours is how long a member, and a cost, count against the budget of a tree.
	treeHours = 24
	// hour is the resolution of that time.
	hour = Time(3600_000)
)

// TreeRef names a tree of dispatches: the submission that began it, and its conversation by [Address.Reach]. The submissions that the work
// on it dispatches belong to the tree, and so do those that they dispatch.
type TreeRef struct {
	Root       Address      `json:"root"`
	Submission SubmissionID `json:"submission"`
}

// TreeMember is a submission of a tree: the conversation that it was dispatched to, and its idempotency key there.
type TreeMember struct {
	Address Address `json:"address"`
	Key     string  `json:"key"`
	// Dollars is the cost that the member has reported.
	Dollars float64 `json:"dollars,omitempty"`
}

// is reports whether m is the member under a key of a conversation.
func (m *TreeMember) is(at Address, key string) bool { return m.Key == key && m.Address == at }

// TreeHour is the part of a tree's budget that was used in an hour.
type TreeHour struct {
	From        Time    `json:"from"`
	Submissions int     `json:"submissions,omitempty"`
	Dollars     float64 `json:"dollars,omitempty"`
}

// Tree is the state of a tree of dispatches in the conversation that began it. It is read-only.
type Tree struct {
	Submission SubmissionID `json:"submission"`
	// Closed reports that an abort covers the tree. It takes no more members.
	Closed bool `json:"closed,omitempty"`
	// Members are in the order in which they joined. The one that began the tree is among them once it has reported a
	// cost.
	Members []TreeMember `json:"members,omitempty"`
	Hours   []TreeHour   `json:"hours,omitempty"`
}

// TreeCounted counts a submission of a tree of dispatches, in the conversation that began it: Joined says that it is
// about to be dispatched to Member under Key, and Cost is what it has cost in US dollars. Submission began the tree.
// Submissions and Dollars are what the tree has used in 24 hours, with this, and MaxSubmissions and MaxDollars its
// budget, 0 for no bound.
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

// bytes is about what the tree has in memory.
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

// Used returns how many submissions have joined in the 24 hours before a time, and the cost that was reported in them,
// both to the hour.
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

// Tree returns the tree that a submission began, nil if it began none that is remembered.
func (s *State) Tree(id SubmissionID) *Tree {
	i := slices.IndexFunc(s.trees, func(t *Tree) bool { return t.Submission == id })
	if i < 0 {
		return nil
	}
	return s.trees[i]
}

// Trees returns the trees that began here, the one that changed last at the end. The slice is shared and read-only.
func (s *State) Trees() []*Tree { return s.trees }

// TreeMembers returns how many members are remembered of all trees.
func (s *State) TreeMembers() int {
	n := 0
	for _, t := range s.trees {
		n += len(t.Members)
	}
	return n
}

// foldTree counts a member of a tree, or its cost.
func (s *State) foldTree(r *TreeCounted) error {
	if !(r.Cost >= 0) || math.IsInf(r.Cost, 1) {
		return s.bad(r, "the cost is %v", r.Cost)
	}
	t := s.touchTree(r.Submission)
	m := t.Member(r.Member, r.Key)
	switch {
	case m == nil: // Appending changes no tree that was returned before.
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

// touchTree returns the tree of a submission as the one that changed last. It begins it if there is none, and forgets
// the one that has not changed for the longest time if there are too many.
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

// closeTrees closes the trees that began here, and those that the aborted submissions could begin yet.
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
