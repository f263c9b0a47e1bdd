package conversation_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parleyrun/parley/conversation"
)

const treeHour = conversation.Time(3600_000)

func member(n int) conversation.Address {
	return conversation.Address{Agent: "desk", ID: fmt.Sprint(n)}
}

func joined(sub conversation.SubmissionID, n int, at conversation.Time) *conversation.TreeCounted {
	return &conversation.TreeCounted{Must: true, Submission: sub, Member: member(n), Key: fmt.Sprint("k", n), Joined: true, At: at}
}

func cost(sub conversation.SubmissionID, n int, dollars float64, at conversation.Time) *conversation.TreeCounted {
	return &conversation.TreeCounted{Must: true, Submission: sub, Member: member(n), Key: fmt.Sprint("k", n), Cost: dollars, At: at}
}

func TestTree(t *testing.T) {
	s := conversation.NewState()
	apply(t, s, created(), admitted(1), admitted(2))
	apply(t, s, joined("sub_1", 1, at), joined("sub_1", 2, at+treeHour), cost("sub_1", 1, 0.5, at+treeHour), cost("sub_1", 1, 0.75, at+2*treeHour), cost("sub_1", 1, 0.6, at+2*treeHour))
	apply(t, s, joined("sub_2", 3, at))
	for _, c := range []struct {
		after       conversation.Time
		submissions int
		dollars     float64
	}{
		{2 * treeHour, 2, 0.75}, {23 * treeHour, 2, 0.75}, {24 * treeHour, 1, 0.75}, {25 * treeHour, 0, 0.25}, {26 * treeHour, 0, 0},
	} {
		for range 2 {
			if n, dollars := s.Tree("sub_1").Used(at + c.after); n != c.submissions || dollars != c.dollars {
				t.Errorf("after %d h: got use of %d and $%v, want %d and $%v", c.after/treeHour, n, dollars, c.submissions, c.dollars)
			}
			s = restored(t, s)
		}
	}
	if m := s.Tree("sub_1").Member(member(1), "k1"); m == nil || m.Dollars != 0.75 {
		t.Errorf("member 1 is %+v, want a cost of $0.75", m)
	}
	if m := s.Tree("sub_1").Member(member(1), "k2"); m != nil {
		t.Errorf("k2 of desk/1 is the member %+v, want none", m)
	}
	if s.Tree("sub_9") != nil || s.Tree("sub_9").Member(member(1), "k1") != nil {
		t.Error("sub_9 has a tree, want none")
	}
	apply(t, s, &conversation.ConversationDeleted{At: at})
	if got := s.Trees(); len(got) != 0 {
		t.Errorf("got trees %v in a new incarnation, want none", got)
	}
}

func TestTreeCloses(t *testing.T) {
	s := conversation.NewState()
	of := admitted(3).(*conversation.SubmissionAdmitted)
	of.Tree = &conversation.TreeRef{Root: member(9), Submission: "sub_9"}
	apply(t, s, created(), admitted(1), admitted(2), of, joined("sub_1", 1, at))
	apply(t, s, &conversation.AbortRequested{Submissions: []conversation.SubmissionID{"sub_2"}, At: at})
	if s.Tree("sub_1").Closed {
		t.Error("abort without trees closed one")
	}
	apply(t, s, &conversation.AbortRequested{Submissions: []conversation.SubmissionID{"sub_2", "sub_3"}, Trees: true, At: at})
	for range 2 {
		for id, want := range map[conversation.SubmissionID]bool{"sub_1": true, "sub_2": true, "sub_3": false, "sub_4": false} {
			if tree := s.Tree(id); (tree != nil && tree.Closed) != want {
				t.Errorf("the tree of %s is %+v, want closed %t", id, tree, want)
			}
		}
		s = restored(t, s)
	}
}

func TestTreeBounds(t *testing.T) {
	s := conversation.NewState()
	apply(t, s, created())
	for n := range conversation.MaxTrees + 1 {
		apply(t, s, joined(conversation.SubmissionID(fmt.Sprint("sub_", n)), 1, at))
		apply(t, s, cost("sub_0", 1, float64(n+1), at))
	}
	if s.Tree("sub_0") == nil || s.Tree("sub_1") != nil || s.Tree("sub_2") == nil || len(s.Trees()) != conversation.MaxTrees {
		t.Errorf("%d trees, want the %d that changed last", len(s.Trees()), conversation.MaxTrees)
	}
	s = conversation.NewState()
	apply(t, s, created(), joined("sub_2", 1, at))
	var records []conversation.Record
	for n := range conversation.MaxTreeMembers + 2 {
		records = append(records, joined("sub_1", n, at))
	}
	apply(t, s, records...)
	if tree := s.Tree("sub_1"); s.Tree("sub_2") != nil || len(tree.Members) != conversation.MaxTreeMembers || tree.Member(member(1), "k1") != nil {
		t.Errorf("%d members, want the newest %d and no other tree", len(s.Tree("sub_1").Members), conversation.MaxTreeMembers)
	}
	if n, _ := s.Tree("sub_1").Used(at); n != conversation.MaxTreeMembers+2 {
		t.Errorf("%d submissions count, want %d", n, conversation.MaxTreeMembers+2)
	}
}

func TestTreeIsShared(t *testing.T) {
	s := conversation.NewState()
	apply(t, s, created(), admitted(1), joined("sub_1", 1, at))
	before := s.Tree("sub_1")
	apply(t, s, cost("sub_1", 1, 1, at), joined("sub_1", 2, at), &conversation.AbortRequested{Submissions: []conversation.SubmissionID{"sub_1"}, Trees: true, At: at})
	if n, dollars := before.Used(at); len(before.Members) != 1 || before.Closed || before.Members[0].Dollars != 0 || n != 1 || dollars != 0 {
		t.Errorf("returned tree changed to %+v", before)
	}
}

func TestTreeRefuses(t *testing.T) {
	for name, r := range map[string]*conversation.TreeCounted{
		"a cost below 0": cost("sub_1", 1, -1, at),
		"joined twice":   joined("sub_1", 1, at),
	} {
		s := conversation.NewState()
		apply(t, s, created(), admitted(1), joined("sub_1", 1, at))
		err := s.Apply(conversation.Batch{Offset: s.Head() + 1, Records: []conversation.Record{r}})
		if err == nil || !strings.Contains(err.Error(), "tree_counted") {
			t.Errorf("%s: got error %v, want one of tree_counted", name, err)
		}
	}
}
