package chaos

import (
	"strings"
	"testing"

	"github.com/parleyrun/parley/conversation"
)

// forgedTree is a world after a schedule of one tree. Its root has one member, in another
// conversation.
type forgedTree struct {
	*world
	root, member           conversation.Address
	rootLog, memberLog     [][]conversation.Record
	rootLands, memberLands []int // the landing of each batch
}

const (
	treeSub   = conversation.SubmissionID("sub_r")
	memberSub = conversation.SubmissionID("sub_m")
	memberKey = "tree-k/0"
)

// newForgedTree makes a world with valid logs.
func newForgedTree() *forgedTree {
	f := &forgedTree{world: newWorld(Options{Profile: Trees}), root: address(0), member: address(2)}
	of := &conversation.TreeRef{Root: f.root, Submission: treeSub}
	body := func(text string) conversation.Delivery {
		return conversation.Delivery{Kind: conversation.KindUser, Body: text}
	}
	f.rootLog = [][]conversation.Record{
		{
			&conversation.ConversationCreated{Agent: agentName, ID: f.root.ID, UID: "inst_1", ConversationID: "conv_1"},
			&conversation.SubmissionAdmitted{Submission: treeSub, Message: "msg_r", Key: "k", Delivery: body("tree-k")},
			&conversation.AttemptStarted{Submission: treeSub, Attempt: 1, Writer: "w"},
		},
		{&conversation.TreeCounted{Submission: treeSub, Member: f.member, Key: memberKey, Joined: true, Submissions: 1}},
		{&conversation.SubmissionSettled{Submission: treeSub, Outcome: conversation.OutcomeCompleted}},
		{&conversation.TreeCounted{Submission: treeSub, Member: f.member, Key: memberKey, Cost: 1, Submissions: 1, Dollars: 1}},
	}
	f.memberLog = [][]conversation.Record{
		{
			&conversation.ConversationCreated{Agent: agentName, ID: f.member.ID, UID: "inst_2", ConversationID: "conv_2"},
			&conversation.SubmissionAdmitted{Submission: memberSub, Message: "msg_m", Key: memberKey, Tree: of, Delivery: body(memberKey)},
			&conversation.AttemptStarted{Submission: memberSub, Attempt: 1, Writer: "v"},
		},
		{
			&conversation.ResponseStarted{Message: "res_m", Submission: memberSub, Turn: "turn_m"},
			&conversation.StepCompleted{Message: "res_m", Turn: "turn_m", StopReason: "stop", Usage: conversation.Usage{Input: 1}},
		},
		{&conversation.SubmissionSettled{Submission: memberSub, Outcome: conversation.OutcomeCompleted}},
	}
	f.rootLands, f.memberLands = []int{1, 2, 4, 7}, []int{3, 5, 6}
	f.ledger.members[memberSub] = &treeMember{tree: *of, settled: true, calls: 1, ran: 5}
	return f
}

// abort lands an abort of the tree. The member ends with the outcome o.
func (f *forgedTree) abort(landing int, o conversation.Outcome) {
	f.ledger.log(f.root.Key()).aborts = []*abortCall{{trees: true, from: landing - 1, to: landing, answered: 10}}
	f.rootLog, f.rootLands = append(f.rootLog, []conversation.Record{&conversation.AbortRequested{Trees: true}}), append(f.rootLands, landing)
	f.memberLog[2][0].(*conversation.SubmissionSettled).Outcome = o
}

// verdict runs the checks and returns the violations.
func (f *forgedTree) verdict(t *testing.T) string {
	t.Helper()
	for _, l := range []struct {
		at      conversation.Address
		batches [][]conversation.Record
		lands   []int
	}{{f.root, f.rootLog, f.rootLands}, {f.member, f.memberLog, f.memberLands}} {
		log := newLog(l.at)
		for i, records := range l.batches {
			f.ledger.log(l.at.Key()).batches[int64(i)] = landing{at: l.lands[i]}
			if err := log.add(conversation.Batch{Offset: conversation.Offset(i), Records: records}); err != nil {
				t.Fatal(err)
			}
		}
		f.known[l.at] = log
	}
	for _, at := range f.addresses {
		if f.known[at] == nil {
			f.known[at] = newLog(at)
		}
	}
	f.checkTrees()
	return f.trace.Report().Violation
}

func TestTreeCheckerDetectsForgeries(t *testing.T) {
	for name, c := range map[string]struct {
		forge func(f *forgedTree)
		want  string // "" for none
	}{
		"valid log":         {func(*forgedTree) {}, ""},
		"never joined":      {func(f *forgedTree) { f.rootLog[1][0].(*conversation.TreeCounted).Joined = false }, "but joined its tree at 0"},
		"joined late":       {func(f *forgedTree) { f.memberLands[0] = 1 }, "but joined its tree at 2"},
		"not settled":       {func(f *forgedTree) { f.memberLog = f.memberLog[:2] }, "settled 0 times"},
		"cost not counted":  {func(f *forgedTree) { f.rootLog = f.rootLog[:3]; f.ledger.members[memberSub].calls = 2; f.again() }, "2 recorded"},
		"last cost lost":    {func(f *forgedTree) { f.rootLog = f.rootLog[:3] }, ""},
		"cost of no call":   {func(f *forgedTree) { f.ledger.members[memberSub].calls = 0 }, "has counted $1"},
		"ended by an abort": {func(f *forgedTree) { f.abort(5, conversation.OutcomeAborted) }, ""},
		"admitted after an abort": {func(f *forgedTree) {
			f.memberLands = []int{9, 10, 11}
			f.abort(8, conversation.OutcomeCompleted)
		}, "after its tree was closed"},
		"ran after an abort": {func(f *forgedTree) {
			f.abort(5, conversation.OutcomeAborted)
			f.ledger.members[memberSub].ran = 11
		}, "after an abort of its tree was answered"},
		"joined after an abort": {func(f *forgedTree) {
			f.abort(8, conversation.OutcomeAborted)
			f.rootLog = append(f.rootLog, []conversation.Record{&conversation.TreeCounted{Submission: treeSub, Member: f.member, Key: "tree-k/1", Joined: true, Submissions: 2}})
			f.rootLands = append(f.rootLands, 9)
		}, "closed by an abort"},
		"over the budget": {func(f *forgedTree) {
			for n := range treeSubmissions {
				f.rootLog = append(f.rootLog, []conversation.Record{&conversation.TreeCounted{Submission: treeSub, Member: f.member, Key: string(rune('a' + n)), Joined: true, Submissions: n + 2}})
				f.rootLands = append(f.rootLands, 8+n)
			}
		}, "7 submissions join"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newForgedTree()
			c.forge(f)
			if got := f.verdict(t); c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("verdict %q, want %q", got, c.want)
			}
		})
	}
}

// again makes the member call its model twice.
func (f *forgedTree) again() {
	f.memberLog[1] = append(f.memberLog[1],
		&conversation.ResponseStarted{Message: "res_m", Submission: memberSub, Turn: "turn_n"},
		&conversation.StepCompleted{Message: "res_m", Turn: "turn_n", StopReason: "stop", Usage: conversation.Usage{Input: 1}})
}
