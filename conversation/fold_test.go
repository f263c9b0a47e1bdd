package conversation_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
)

type records = []conversation.Record

func created() conversation.Record {
	return &conversation.ConversationCreated{UID: "inst_1", ConversationID: "conv_1", At: at}
}

func admitted(n int) conversation.Record {
	return &conversation.SubmissionAdmitted{
		Submission: conversation.SubmissionID(fmt.Sprint("sub_", n)), Message: conversation.MessageID(fmt.Sprint("msg_", n)),
		Key: fmt.Sprint("key_", n), Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: "hi"}, At: at,
	}
}

func attempt(sub conversation.SubmissionID, n int) conversation.Record {
	return &conversation.AttemptStarted{Submission: sub, Attempt: n, Writer: fmt.Sprint("w_", n), At: at}
}

func started(message conversation.MessageID, sub conversation.SubmissionID, turn conversation.TurnID) conversation.Record {
	return &conversation.ResponseStarted{Message: message, Submission: sub, Turn: turn, At: at}
}

func completed(message conversation.MessageID, turn conversation.TurnID) conversation.Record {
	return &conversation.StepCompleted{Message: message, Turn: turn, StopReason: "stop", ElapsedMs: 100, At: at}
}

func settled(sub conversation.SubmissionID) conversation.Record {
	return &conversation.SubmissionSettled{Submission: sub, Outcome: conversation.OutcomeCompleted, At: at}
}

func called(call conversation.CallID) conversation.Record {
	return &conversation.ToolCalled{Message: "res_1", Call: call, Name: "label", Input: json.RawMessage(`{}`), At: at}
}

// task starts the subagent child_n for a call; its work is the submission task_n.
func task(n int, call conversation.CallID) conversation.Record {
	return &conversation.ChildStarted{
		Child: conversation.ConversationID(fmt.Sprint("child_", n)), Submission: conversation.SubmissionID(fmt.Sprint("task_", n)),
		Call: call, Agent: "helper", Prompt: "Look it up.", At: at,
	}
}

func taskDone(n int) conversation.Record {
	return &conversation.ChildSettled{Child: conversation.ConversationID(fmt.Sprint("child_", n)), Outcome: conversation.OutcomeCompleted, At: at}
}

// hidden opens a turn of child_1.
func hidden(message conversation.MessageID, sub conversation.SubmissionID, turn conversation.TurnID) conversation.Record {
	return &conversation.ResponseStarted{Message: message, Submission: sub, Child: "child_1", Turn: turn, At: at}
}

// running returns a state in which sub_1 has an open turn and sub_2 waits.
func running(t *testing.T) *conversation.State {
	t.Helper()
	s := conversation.NewState()
	apply(t, s, created(), admitted(1), attempt("sub_1", 1), admitted(2))
	apply(t, s, started("res_1", "sub_1", "turn_1"))
	return s
}

func apply(t *testing.T, s *conversation.State, list ...conversation.Record) {
	t.Helper()
	if err := s.Apply(conversation.Batch{Offset: s.Head() + 1, Records: list}); err != nil {
		t.Fatal(err)
	}
}

func TestInvalidRecords(t *testing.T) {
	text := func(m conversation.MessageID) conversation.Record {
		return &conversation.Delta{Message: m, Kind: conversation.PartText, Text: "a"}
	}
	ok := &conversation.ToolSettled{Call: "call_1", Output: json.RawMessage(`1`), At: at}
	stored, others := &conversation.OutputStored{Call: "call_1"}, &conversation.OutputStored{Call: "call_1", Child: "child_1"}
	for name, c := range map[string]wrongEnd{
		"wait of an unknown":       {records{waits("call_9", "a")}, "call call_9 is not open"},
		"wait after the end":       {records{called("call_1"), completed("res_1", "turn_1"), ok, waits("call_1", "a")}, "call call_1 is not open"},
		"wait twice":               {records{called("call_1"), waits("call_1", "a"), waits("call_1", "a")}, `call call_1 waits for "a" already`},
		"end of no wait":           {records{called("call_1"), waitOver("call_1", "a", "")}, `call call_1 does not wait for "a"`},
		"end of another's wait":    {records{called("call_1"), waits("call_1", "a"), waitOver("call_1", "b", "")}, `call call_1 does not wait for "b"`},
		"end of a wait twice":      {records{called("call_1"), waits("call_1", "a"), waitOver("call_1", "a", ""), waitOver("call_1", "a", "")}, `call call_1 does not wait for "a"`},
		"signal kept twice":        {records{kept(3, "a"), kept(4, "a")}, `a signal is kept for "a" already`},
		"second creation":          {records{created()}, "the conversation exists as inst_1"},
		"submission twice":         {records{admitted(1)}, "submission sub_1 exists"},
		"message twice":            {records{&conversation.SubmissionAdmitted{Submission: "sub_9", Message: "msg_1"}}, "message msg_1 exists"},
		"attempt at an unknown":    {records{attempt("sub_9", 1)}, "unknown submission sub_9"},
		"attempt out of order":     {records{attempt("sub_2", 1)}, "not the first in the queue"},
		"attempt after the end":    {records{completed("res_1", "turn_1"), settled("sub_1"), attempt("sub_1", 2)}, "submission sub_1 is settled"},
		"release of an unknown":    {records{&conversation.AttemptReleased{Submission: "sub_9"}}, "unknown submission sub_9"},
		"response of an unknown":   {records{started("res_9", "sub_9", "turn_9")}, "unknown submission sub_9"},
		"response without attempt": {records{started("res_2", "sub_2", "turn_2")}, "submission sub_2 is not running"},
		"response after release": {records{
			completed("res_1", "turn_1"), &conversation.AttemptReleased{Submission: "sub_1", Attempt: 1}, started("res_1", "sub_1", "turn_2"),
		}, "submission sub_1 is not running"},
		"turn inside a turn":      {records{started("res_1", "sub_1", "turn_2")}, "turn turn_1 is open"},
		"other response":          {records{completed("res_1", "turn_1"), started("res_9", "sub_1", "turn_2")}, "the response of sub_1 is res_1"},
		"response is a message":   {records{completed("res_1", "turn_1"), settled("sub_1"), attempt("sub_2", 1), started("msg_1", "sub_2", "turn_2")}, "message msg_1 exists"},
		"text of an unknown":      {records{text("res_9")}, "unknown response res_9"},
		"text of a user":          {records{text("msg_1")}, "unknown response msg_1"},
		"text after the turn":     {records{completed("res_1", "turn_1"), text("res_1")}, "has no open turn"},
		"signature of an unknown": {records{&conversation.PartDone{Message: "res_9"}}, "unknown response res_9"},
		"signature of text":       {records{text("res_1"), &conversation.PartDone{Message: "res_1"}}, "turn turn_1 has no reasoning"},
		"call of an unknown":      {records{&conversation.ToolCalled{Message: "res_9", Call: "call_1"}}, "unknown response res_9"},
		"call twice":              {records{called("call_1"), called("call_1")}, "call call_1 exists"},
		"call after the turn":     {records{completed("res_1", "turn_1"), called("call_1")}, "has no open turn"},
		"outcome of an unknown":   {records{ok}, "unknown call call_1"},
		"outcome of a withdrawn call": {records{
			called("call_1"), &conversation.StepDropped{Message: "res_1", Turn: "turn_1"}, ok,
		}, "unknown call call_1"},
		"outcome twice":          {records{called("call_1"), ok, ok}, "call call_1 is settled"},
		"output of an unknown":   {records{stored}, "unknown call call_1"},
		"output twice":           {records{called("call_1"), stored, stored}, "call call_1 has an output"},
		"output after the end":   {records{called("call_1"), ok, stored}, "call call_1 has an output"},
		"output of another's":    {records{called("call_1"), others}, `submission sub_1 belongs to "", not to "child_1"`},
		"end of an unknown":      {records{completed("res_9", "turn_1")}, "unknown response res_9"},
		"end of another turn":    {records{completed("res_1", "turn_9")}, "turn turn_1 is open, not turn_9"},
		"end twice":              {records{completed("res_1", "turn_1"), completed("res_1", "turn_1")}, "has no open turn"},
		"data of an unknown":     {records{&conversation.DataWritten{Message: "msg_1", Name: "n"}}, "unknown response msg_1"},
		"metadata of an unknown": {records{&conversation.MetadataMerged{Message: "res_9"}}, "unknown response res_9"},
		"metadata not an object": {records{&conversation.MetadataMerged{Message: "res_1", Metadata: json.RawMessage(`[]`)}}, "metadata: "},
		"start metadata": {records{
			completed("res_1", "turn_1"), settled("sub_1"), attempt("sub_2", 1),
			&conversation.ResponseStarted{Message: "res_2", Submission: "sub_2", Metadata: json.RawMessage(`1`)},
		}, "metadata: "},
		"advisory twice":           {records{&conversation.Advisory{Message: "msg_1"}}, "message msg_1 exists"},
		"note to an unknown":       {records{&conversation.Advisory{Message: "a", Submission: "sub_9", Text: "x", Display: conversation.DisplayHidden}}, "unknown submission sub_9"},
		"abort of an unknown":      {records{&conversation.AbortRequested{Submissions: []conversation.SubmissionID{"sub_1", "sub_9"}}}, "unknown submission sub_9"},
		"settlement of an unknown": {records{settled("sub_9")}, "unknown submission sub_9"},
		"settlement of a turn":     {records{settled("sub_1")}, "submission sub_1 has an open turn"},
		"settlement twice":         {records{settled("sub_2"), settled("sub_2")}, "submission sub_2 is settled"},
		"withdrawal of an unknown": {records{&conversation.StepDropped{Message: "res_9"}}, "unknown response res_9"},
		"withdrawal of no turn":    {records{&conversation.StepDropped{Message: "res_1", Turn: "turn_9"}}, "unknown turn turn_9"},
		"durable step of no one":   {records{&conversation.StepRecorded{Call: "call_9"}}, "unknown call call_9"},
		"suspension of no one":     {records{&conversation.Suspended{Submission: "sub_9"}}, "unknown submission sub_9"},
		"suspended in a turn":      {records{&conversation.Suspended{Submission: "sub_1"}}, "turn turn_1 is open"},
		"suspended in a queue":     {records{&conversation.Suspended{Submission: "sub_2"}}, "submission sub_2 is not running"},
		"retry of an unknown":      {records{&conversation.RetryScheduled{Submission: "sub_9"}}, "unknown submission sub_9"},
		"retry in a turn":          {records{&conversation.RetryScheduled{Submission: "sub_1"}}, "turn turn_1 is open"},
		"retry of another's":       {records{&conversation.RetryScheduled{Submission: "sub_2", Child: "child_1"}}, `submission sub_2 belongs to "", not to "child_1"`},
		"after the deletion":       {records{&conversation.ConversationDeleted{}, admitted(3)}, "the conversation was not created"},
		"deletion twice":           {records{&conversation.ConversationDeleted{}, &conversation.ConversationDeleted{}}, "the conversation was not created"},
	} {
		t.Run(name, func(t *testing.T) { cannotFollow(t, c) })
	}
}

// wrongEnd is a list of records whose last one is invalid.
type wrongEnd struct {
	list records
	want string
}

func cannotFollow(t *testing.T, c wrongEnd) {
	t.Helper()
	s := running(t)
	last := len(c.list) - 1
	if err := s.Apply(conversation.Batch{Offset: 2, Records: c.list[:last]}); err != nil {
		t.Fatalf("the preceding record failed: %v", err)
	}
	err := s.Extend(2, c.list[last])
	var bad *conversation.InvariantError
	if !errors.As(err, &bad) || !strings.Contains(bad.Reason, c.want) {
		t.Fatalf("got error %v, want %q", err, c.want)
	}
	if bad.Offset != 2 || bad.Type != c.list[last].Type() {
		t.Errorf("error names batch %d and type %s", bad.Offset, bad.Type)
	}
}

func TestInvalidTasks(t *testing.T) {
	ok := &conversation.ToolSettled{Call: "call_1", Output: json.RawMessage(`1`), At: at}
	for name, c := range map[string]wrongEnd{
		"hook of an unknown":    {records{&conversation.HookDone{Submission: "sub_9"}}, "unknown submission sub_9"},
		"task of an unknown":    {records{task(1, "call_9")}, "call call_9 is not open"},
		"task of an outcome":    {records{called("call_1"), ok, task(1, "call_1")}, "call call_1 is not open"},
		"task as a submission":  {records{called("call_1"), &conversation.ChildStarted{Child: "c", Submission: "sub_2", Call: "call_1"}}, "submission sub_2 exists"},
		"task twice":            {records{called("call_1"), task(1, "call_1"), task(2, "call_1")}, "call call_1 has its subagent"},
		"outcome before a task": {records{called("call_1"), task(1, "call_1"), ok}, "subagent child_1 is running"},
		"settlement of a task":  {records{called("call_1"), task(1, "call_1"), completed("res_1", "turn_1"), settled("sub_1")}, "subagent child_1 is running"},
		"task ends twice":       {records{called("call_1"), task(1, "call_1"), taskDone(1), taskDone(1)}, "subagent child_1 is not running"},
		"end of no task":        {records{taskDone(9)}, "subagent child_9 is not running"},
		"task shows itself":     {records{called("call_1"), task(1, "call_1"), started("res_2", "task_1", "turn_2")}, `belongs to "child_1", not to ""`},
		"task writes data": {records{
			called("call_1"), task(1, "call_1"), hidden("res_2", "task_1", "turn_2"), &conversation.DataWritten{Message: "res_2", Name: "n"},
		}, `belongs to "child_1", not to ""`},
		"response hides itself": {records{completed("res_1", "turn_1"), hidden("res_1", "sub_1", "turn_2")}, `belongs to "", not to "child_1"`},
		"summary of no task":    {records{&conversation.Compacted{Child: "child_9"}}, "subagent child_9 is not running"},
		"task ends in a turn": {records{
			called("call_1"), task(1, "call_1"), hidden("res_2", "task_1", "turn_2"), taskDone(1),
		}, "subagent child_1 has an open turn"},
	} {
		t.Run(name, func(t *testing.T) { cannotFollow(t, c) })
	}
}

func TestBatchesFollowEachOther(t *testing.T) {
	for _, offset := range []conversation.Offset{-1, 0, 1, 3} {
		s := running(t) // through batch 1
		err := s.Apply(conversation.Batch{Offset: offset})
		var bad *conversation.InvariantError
		if !errors.As(err, &bad) || bad.Offset != offset || bad.Type != "" {
			t.Errorf("batch %d after 1: %v", offset, err)
		}
		if want := fmt.Sprintf("fold batch %d: batch does not follow head 1", int64(offset)); err != nil && err.Error() != want {
			t.Errorf("got error %q, want %q", err, want)
		}
	}
	s := running(t)
	for _, offset := range []conversation.Offset{0, 3} {
		if err := s.Extend(offset); err == nil {
			t.Errorf("extended at %d after 1", offset)
		}
	}
	for _, offset := range []conversation.Offset{1, 2, 2} {
		if err := s.Extend(offset); err != nil || s.Head() != offset {
			t.Errorf("extend at %d: head %d, %v", offset, s.Head(), err)
		}
	}
	if err := conversation.NewState().Apply(conversation.Batch{Records: records{admitted(1)}}); err == nil ||
		!strings.Contains(err.Error(), "fold batch 0: submission_admitted: the conversation was not created") {
		t.Errorf("admission without a creation: %v", err)
	}
}

// keyed admits n submissions and settles them at once.
func keyed(t *testing.T, s *conversation.State, from, n int, now conversation.Time) {
	t.Helper()
	for i := from; i < from+n; i++ {
		r := admitted(i).(*conversation.SubmissionAdmitted)
		r.At = now
		apply(t, s, r, settled(r.Submission))
	}
}

// covers: channels/93
func TestKeysAreKeptLonger(t *testing.T) {
	const day = conversation.Time(24 * time.Hour / time.Millisecond)
	deliver := func(s *conversation.State, from, n int, now conversation.Time) {
		for i := from; i < from+n; i++ {
			r := admitted(i).(*conversation.SubmissionAdmitted)
			r.At = now
			apply(t, s, r, &conversation.KeyKept{Must: true, Submission: r.Submission, Until: now + 8*day}, settled(r.Submission))
		}
	}
	for name, between := range map[string]func(s *conversation.State) *conversation.State{
		"folded":     func(s *conversation.State) *conversation.State { return s },
		"checkpoint": func(s *conversation.State) *conversation.State { return restored(t, s) },
		"cut": func(s *conversation.State) *conversation.State {
			if _, err := s.Cut(); err != nil {
				t.Fatal(err)
			}
			return restored(t, s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := conversation.NewState()
			apply(t, s, created())
			known := func(n int) bool { return s.Lookup(fmt.Sprint("key_", n)) != nil }
			deliver(s, 0, 10, at)
			keyed(t, s, 10, 10, at)
			s = between(s)
			keyed(t, s, 20, 1000, at+3*day)
			s = between(s)
			for n := range 20 {
				if got, want := known(n), n < 10; got != want {
					t.Errorf("after three days and 1000 admissions: key %d known: %t", n, got)
				}
			}
			if sub := s.Lookup("key_3"); sub.ID != "sub_3" || sub.PayloadHash != admitted(3).(*conversation.SubmissionAdmitted).PayloadHash {
				t.Errorf("key_3 belongs to %+v", sub)
			}
			keyed(t, s, 1020, 1, at+8*day-1)
			if s = between(s); !known(9) {
				t.Error("key expired early")
			}
			keyed(t, s, 1021, 1, at+8*day)
			if s = between(s); known(0) || known(9) {
				t.Error("key did not expire")
			}
		})
	}
	t.Run("bounded", func(t *testing.T) {
		s := conversation.NewState()
		apply(t, s, created())
		deliver(s, 0, 8000, at)
		keyed(t, s, 8000, 1001, at+2*day)
		b, err := conversation.EncodeState(s)
		if err != nil {
			t.Fatal(err)
		}
		if s.Lookup("key_0") != nil || s.Lookup("key_4000") == nil || s.Lookup("key_7999") == nil {
			t.Error("kept keys are not the newest")
		}
		if lines := len(b) - bytes.IndexByte(b, '\n'); lines > 1<<20+200<<10 {
			t.Errorf("got keys of %d bytes", lines)
		}
	})
	t.Run("another batch", func(t *testing.T) {
		s := conversation.NewState()
		apply(t, s, created(), admitted(1))
		if err := s.Apply(conversation.Batch{Offset: s.Head() + 1, Records: records{&conversation.KeyKept{Submission: "sub_1"}}}); err == nil {
			t.Error("key_kept of an earlier admission was folded")
		}
	})
}

// covers: protocol/193
func TestKeysAreKept(t *testing.T) {
	const day = conversation.Time(24 * time.Hour / time.Millisecond)
	s := conversation.NewState()
	apply(t, s, created())
	known := func(n int) bool {
		sub := s.Lookup(fmt.Sprint("key_", n))
		if sub != nil && sub.ID != conversation.SubmissionID(fmt.Sprint("sub_", n)) {
			t.Errorf("key_%d belongs to %s", n, sub.ID)
		}
		return sub != nil
	}
	keyed(t, s, 0, 1500, at)
	keyed(t, s, 1500, 1, at+day-1)
	for n := range 1501 {
		if !known(n) {
			t.Fatalf("key %d expired within 24 h", n)
		}
	}
	keyed(t, s, 1501, 1, at+day)
	for n := range 1502 {
		if want := n >= 502; known(n) != want {
			t.Fatalf("after 1502 admissions: key %d known: %t, want %t", n, !want, want)
		}
	}
	keyed(t, s, 1502, 498, at+100*day)
	if known(999) || !known(1000) {
		t.Errorf("kept keys are not the last 1000 of 2000: 999 %t, 1000 %t", known(999), known(1000))
	}
	// A clock that goes back drops no further keys.
	keyed(t, s, 2000, 1, at)
	if !known(1001) || !known(2000) {
		t.Error("keys expired because the clock went back")
	}
	if s.Submission("sub_0") == nil {
		t.Error("submission expired with its key")
	}
}

func TestExpiredKeyCanBeReused(t *testing.T) {
	s := conversation.NewState()
	apply(t, s, created())
	keyed(t, s, 0, 1001, at)
	const later = at + 48*3600*1000
	keyed(t, s, 1001, 1, later)
	apply(t, s, &conversation.SubmissionAdmitted{Submission: "again", Message: "msg_again", Key: "key_0", At: later}, settled("again"))
	keyed(t, s, 2000, 900, later)
	if got := s.Lookup("key_0"); got == nil || got.ID != "again" {
		t.Errorf("key_0 belongs to %v, want the second submission", got)
	}
}

func TestIncarnations(t *testing.T) {
	s := running(t)
	apply(t, s, completed("res_1", "turn_1"), &conversation.StateWritten{Key: "k", Value: json.RawMessage(`1`)})
	apply(t, s, &conversation.ConversationDeleted{At: at})
	if s.Exists() || s.Created() != nil || s.Lookup("key_1") != nil || len(s.Unsettled()) > 0 || len(s.AuthorState()) > 0 {
		t.Error("deleted conversation is not empty")
	}
	if s.Head() != 3 {
		t.Errorf("got head %d, want 3", s.Head())
	}
	apply(t, s)
	apply(t, s, &conversation.ConversationCreated{UID: "inst_2", ConversationID: "conv_2"}, admitted(1), attempt("sub_1", 1))
	if got := s.Snapshot(); got.ConversationID != "conv_2" || got.Offset != 5 || len(got.Messages) != 1 {
		t.Errorf("got snapshot %+v of the new incarnation", got)
	}
}

func TestQueue(t *testing.T) {
	s := running(t)
	ids := func() (out []conversation.SubmissionID) {
		for _, sub := range s.Unsettled() {
			out = append(out, sub.ID)
		}
		return out
	}
	sub := s.Submission("sub_1")
	if !sub.Running || sub.Writer != "w_1" || sub.Attempts != 1 || sub.Message != "res_1" || sub.OpenTurn() != "turn_1" {
		t.Errorf("running submission is %+v", sub)
	}
	apply(t, s, &conversation.AbortRequested{Submissions: []conversation.SubmissionID{"sub_2"}}, admitted(3))
	if sub.Aborted || !s.Submission("sub_2").Aborted || s.Submission("sub_3").Aborted {
		t.Error("abort covers an unnamed submission")
	}
	apply(t, s, completed("res_1", "turn_1"), &conversation.Suspended{Submission: "sub_1", Until: at, Reason: conversation.ReasonTimer, ElapsedMs: 150})
	if sub.Suspended == nil || sub.SuspendedAt != s.Head() || sub.Running || sub.Attempts != 0 || sub.Elapsed() != 150*time.Millisecond {
		t.Errorf("got suspended %v at %d after %v, running %t, %d attempts", sub.Suspended, int64(sub.SuspendedAt), sub.Elapsed(), sub.Running, sub.Attempts)
	}
	apply(t, s, attempt("sub_1", 2), started("res_1", "sub_1", "turn_2"), completed("res_1", "turn_2"))
	if now := sub.ElapsedNow(); now != 100*time.Millisecond {
		t.Errorf("got %v elapsed in the second attempt", now)
	}
	if sub.Suspended != nil || sub.SuspendedAt != 0 || sub.Elapsed() != 250*time.Millisecond || sub.Attempts != 2 {
		t.Errorf("second attempt: got suspended %v after %v, %d attempts", sub.Suspended, sub.Elapsed(), sub.Attempts)
	}
	apply(t, s, &conversation.RetryScheduled{Submission: "sub_1", Until: at})
	if sub.Retry == nil || sub.Retry.Until != at {
		t.Errorf("got retry %+v, want none", sub.Retry)
	}
	apply(t, s, started("res_1", "sub_1", "turn_3"), completed("res_1", "turn_3"))
	if sub.Retry != nil {
		t.Errorf("got retry %+v after an answer, want none", sub.Retry)
	}
	apply(t, s, &conversation.AttemptReleased{Submission: "sub_1", Attempt: 2, Reason: "drain"})
	if sub.Running || sub.Attempts != 1 {
		t.Errorf("released: running %t, %d attempts", sub.Running, sub.Attempts)
	}
	if diff := cmp.Diff([]conversation.SubmissionID{"sub_1", "sub_2", "sub_3"}, ids()); diff != "" {
		t.Error(diff)
	}
	apply(t, s, settled("sub_2"))
	if diff := cmp.Diff([]conversation.SubmissionID{"sub_1", "sub_3"}, ids()); diff != "" {
		t.Error(diff)
	}
	apply(t, s, settled("sub_1"), attempt("sub_3", 1))
	if !sub.Settled || sub.Outcome != conversation.OutcomeCompleted || !s.Submission("sub_3").Running {
		t.Errorf("settled submission is %+v", sub)
	}
}

func TestAuthorState(t *testing.T) {
	s := running(t)
	write := func(key, value string) conversation.Record {
		return &conversation.StateWritten{Key: key, Value: json.RawMessage(value)}
	}
	apply(t, s, write("a", `1`), write("b", `2`), write("c", `3`), write("a", `4`), write("b", `null`), &conversation.StateWritten{Key: "c"})
	if diff := cmp.Diff(map[string]json.RawMessage{"a": json.RawMessage(`4`)}, s.AuthorState()); diff != "" {
		t.Error(diff)
	}
}

func TestModelView(t *testing.T) {
	s := running(t)
	delta := func(kind conversation.PartKind, text string) conversation.Record {
		return &conversation.Delta{Message: "res_1", Kind: kind, Text: text}
	}
	apply(t, s, delta(conversation.PartReasoning, "hm"), delta(conversation.PartReasoning, "m"),
		&conversation.PartDone{Message: "res_1", Signature: "sig"}, delta(conversation.PartText, "a"),
		called("call_1"), called("call_2"), &conversation.DataWritten{Message: "res_1", Name: "plan"}, delta(conversation.PartText, "b"))
	apply(t, s, completed("res_1", "turn_1"), &conversation.ToolSettled{Call: "call_2", Failed: true, ErrorText: "no", ElapsedMs: 150})
	sub := s.Submission("sub_1")
	if sub.OpenTurn() != "" || sub.Elapsed() != 150*time.Millisecond {
		t.Errorf("turn %q is open after %v", sub.OpenTurn(), sub.Elapsed())
	}
	one := conversation.ToolCall{Call: "call_1", Name: "label", Input: json.RawMessage(`{}`)}
	two := conversation.ToolCall{Call: "call_2", Name: "label", Input: json.RawMessage(`{}`), Settled: true, Failed: true, ErrorText: "no"}
	if diff := cmp.Diff([]conversation.ToolCall{one}, sub.OpenCalls()); diff != "" {
		t.Error(diff)
	}
	apply(t, s,
		&conversation.Advisory{Message: "note_1", Submission: "sub_1", Text: "Go on.", Display: conversation.DisplayHidden},
		&conversation.Advisory{Message: "note_2", Submission: "sub_1", Text: "For people.", Display: conversation.DisplayDiagnostic},
		&conversation.Advisory{Message: "note_3", Submission: "sub_1", Display: conversation.DisplayHidden},
		started("res_1", "sub_1", "turn_2"), delta(conversation.PartText, "lost"), called("call_3"))
	apply(t, s, &conversation.StepDropped{Message: "res_1", Turn: "turn_2"}, started("res_1", "sub_1", "turn_3"), delta(conversation.PartText, "c"))
	want := []conversation.Turn{
		{ID: "turn_1", Completed: true, StopReason: "stop", Parts: []conversation.TurnPart{
			{Kind: conversation.PartReasoning, Text: "hmm", Signature: "sig"}, {Kind: conversation.PartText, Text: "a"},
			{Tool: &one}, {Tool: &two}, {Kind: conversation.PartText, Text: "b"},
		}},
		{Completed: true, Note: "Go on."},
		{ID: "turn_3", Parts: []conversation.TurnPart{{Kind: conversation.PartText, Text: "c"}}},
	}
	if diff := cmp.Diff(want, sub.Turns()); diff != "" {
		t.Error(diff)
	}
	var texts []string
	for _, m := range s.Snapshot().Messages {
		for _, p := range m.Parts {
			if m.ID == "res_1" && p.Text != nil {
				texts = append(texts, *p.Text)
			}
		}
	}
	if diff := cmp.Diff([]string{"hmm", "a", "b", "c"}, texts); diff != "" {
		t.Errorf("texts of the response:\n%s", diff)
	}
	if sub.OpenTurn() != "turn_3" {
		t.Errorf("turn %q is open", sub.OpenTurn())
	}
}

func TestRefusedImages(t *testing.T) {
	s := running(t)
	refuse := func(ids ...conversation.AttachmentID) {
		t.Helper()
		apply(t, s, &conversation.ImagesRefused{Must: true, Attachments: ids})
	}
	check := func(when string, want []conversation.AttachmentID) {
		t.Helper()
		b, err := conversation.EncodeState(s)
		if err != nil {
			t.Fatal(err)
		}
		restored, err := conversation.DecodeState(b)
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range [][]conversation.AttachmentID{s.Refused(), restored.Refused()} {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
		}
		s = restored
	}
	refuse("att_2", "att_1")
	early := s.Refused()
	refuse("att_1", "att_3")
	check("a few", []conversation.AttachmentID{"att_2", "att_1", "att_3"})
	var many []conversation.AttachmentID
	for i := range conversation.MaxRefused {
		many = append(many, conversation.AttachmentID(fmt.Sprintf("att_x%d", i)))
	}
	refuse(many[:len(many)-1]...)
	check("very many", append([]conversation.AttachmentID{"att_3"}, many[:len(many)-1]...))
	refuse(many[len(many)-1])
	check("one more", many)
	if diff := cmp.Diff([]conversation.AttachmentID{"att_2", "att_1"}, early); diff != "" {
		t.Errorf("a returned slice changed:\n%s", diff)
	}
	apply(t, s, &conversation.ConversationDeleted{})
	if len(s.Refused()) != 0 {
		t.Errorf("after the end: %d", len(s.Refused()))
	}
}

func TestStoredOutputs(t *testing.T) {
	s := running(t)
	apply(t, s, called("call_1"), called("call_2"))
	before := s.CallBytes("sub_1")
	out := sampleOutput()
	apply(t, s, &conversation.OutputStored{Must: true, Call: "call_1", StoredOutput: out},
		&conversation.ToolSettled{Call: "call_1", Output: json.RawMessage(`"a part"`), At: at})
	if got, want := s.CallBytes("sub_1")-before, len(`"a part"`)+len(out.Head)+len(out.Tail)+2*128; got != want {
		t.Errorf("got %d bytes, want %d", got, want)
	}
	calls := func(x []conversation.Turn) (list []*conversation.StoredOutput) {
		for _, p := range x[0].Parts {
			list = append(list, p.Tool.Stored)
		}
		return list
	}
	want := []*conversation.StoredOutput{&out, nil}
	b, err := conversation.EncodeState(s)
	if err != nil {
		t.Fatal(err)
	}
	restored, err := conversation.DecodeState(b)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*conversation.State{s, restored} {
		if diff := cmp.Diff(want, calls(s.Submission("sub_1").Turns())); diff != "" {
			t.Errorf("stored (-want +got):\n%s", diff)
		}
		if shown := s.Snapshot().Messages[2].Parts[0]; string(shown.Output) != `"a part"` || shown.State != conversation.StateOutputAvailable {
			t.Errorf("got client view %+v", shown)
		}
	}
	if was, is := s.CallBytes("sub_1"), restored.CallBytes("sub_1"); was != is {
		t.Errorf("after a checkpoint: got %d bytes, want %d", is, was)
	}
	apply(t, s, completed("res_1", "turn_1"), &conversation.ToolSettled{Call: "call_2", At: at}, settled("sub_1"),
		attempt("sub_2", 1), settled("sub_2"))
	page, err := s.Cut()
	if err != nil {
		t.Fatal(err)
	}
	x, err := page.Exchanges()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, calls(x[0].Turns)); diff != "" {
		t.Errorf("in history (-want +got):\n%s", diff)
	}
}

// TestSignedParts compares the model's view of signed parts with that of clients, which omits them.
func TestSignedParts(t *testing.T) {
	s := running(t)
	delta := func(kind conversation.PartKind, text string) conversation.Record {
		return &conversation.Delta{Message: "res_1", Kind: kind, Text: text}
	}
	sign := func(kind conversation.PartKind, signature string) conversation.Record {
		return &conversation.PartSigned{Must: true, Message: "res_1", Kind: kind, Signature: signature}
	}
	const reasoning, text = conversation.PartReasoning, conversation.PartText
	apply(t, s, sign(reasoning, "r1"), delta(reasoning, "a"), sign(reasoning, "r2"), delta(reasoning, "b"), sign(reasoning, "r3"),
		delta(text, "c"), sign(reasoning, "r4"), delta(text, "d"), sign(text, "t1"), delta(text, "e"), called("call_1"),
		&conversation.PartSigned{Must: true, Message: "res_1", Call: "call_1", Signature: "c1"}, sign(text, "t2"))
	want := []conversation.TurnPart{
		{Kind: reasoning, Signature: "r1"}, {Kind: reasoning, Text: "a", Signature: "r2"}, {Kind: reasoning, Text: "b", Signature: "r3"},
		{Kind: text, Text: "c"}, {Kind: reasoning, Signature: "r4"}, {Kind: text, Text: "d", Signature: "t1"}, {Kind: text, Text: "e"},
		{Tool: &conversation.ToolCall{Call: "call_1", Name: "label", Input: json.RawMessage(`{}`)}, Signature: "c1"},
		{Kind: text, Signature: "t2"},
	}
	check := func(when string, s *conversation.State) {
		t.Helper()
		last, _ := s.Submission("sub_1").LastTurn()
		if diff := cmp.Diff(want, last.Parts); diff != "" {
			t.Errorf("%s: model's view (-want +got):\n%s", when, diff)
		}
		shown := s.Snapshot().Messages
		var parts []string
		for _, p := range shown[len(shown)-1].Parts {
			if p.Text != nil {
				parts = append(parts, fmt.Sprintf("%s %s %s", p.Type, *p.Text, p.State))
			}
		}
		if diff := cmp.Diff([]string{"reasoning ab done", "text cde done"}, parts); diff != "" {
			t.Errorf("%s: clients' view (-want +got):\n%s", when, diff)
		}
	}
	check("as folded", s)
	encoded, err := conversation.EncodeState(s)
	if err != nil {
		t.Fatal(err)
	}
	if version, err := conversation.ReducerOf(encoded); err != nil || version != 7 {
		t.Errorf("got reducer %d, %v, want 7", version, err)
	}
	restored, err := conversation.DecodeState(encoded)
	if err != nil {
		t.Fatal(err)
	}
	check("as restored", restored)
	apply(t, restored, completed("res_1", "turn_1"))
	check("in the end", restored)
}

func TestExchanges(t *testing.T) {
	s := running(t)
	apply(t, s, completed("res_1", "turn_1"), &conversation.AttemptReleased{Submission: "sub_1", Attempt: 1}, admitted(3), admitted(4))
	apply(t, s, settled("sub_1"), settled("sub_2"), attempt("sub_3", 1))
	var got []conversation.SubmissionID
	for _, sub := range s.Exchanges("sub_3") {
		got = append(got, sub.ID)
	}
	// sub_1 has left a turn, though its attempt does not count; sub_2 never ran.
	if diff := cmp.Diff([]conversation.SubmissionID{"sub_1", "sub_3"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestTextOfAResponseIsBounded checks that the fold keeps a prefix of a long response and one note,
// with and without checkpoints.
func TestTextOfAResponseIsBounded(t *testing.T) {
	s, restored := conversation.NewState(), conversation.NewState()
	apply := func(records ...conversation.Record) {
		t.Helper()
		for _, s := range []*conversation.State{s, restored} {
			if err := s.Apply(conversation.Batch{Offset: s.Head() + 1, Records: records}); err != nil {
				t.Fatal(err)
			}
		}
	}
	apply(&conversation.ConversationCreated{Agent: "a", ID: "i", UID: "u", ConversationID: "c"},
		&conversation.SubmissionAdmitted{Submission: "s", Message: "in", Key: "k", Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: "?"}},
		&conversation.AttemptStarted{Submission: "s", Attempt: 1},
		&conversation.ResponseStarted{Message: "out", Submission: "s", Turn: "t1"})
	delta := func(kind conversation.PartKind, text string) {
		t.Helper()
		apply(&conversation.Delta{Message: "out", Kind: kind, Text: text})
	}
	half := strings.Repeat("x", conversation.MaxResponseText/2)
	delta(conversation.PartReasoning, half)
	delta(conversation.PartText, half[1:])
	again, err := conversation.EncodeState(restored)
	if err == nil {
		restored, err = conversation.DecodeState(again)
	}
	if err != nil {
		t.Fatal(err)
	}
	delta(conversation.PartText, "ä and more")
	delta(conversation.PartText, half)
	delta(conversation.PartReasoning, half)
	for name, s := range map[string]*conversation.State{"folded": s, "restored": restored} {
		messages := s.Snapshot().Messages
		text := messages[len(messages)-1].Text()
		if kept, ok := strings.CutPrefix(text, half[1:]); !ok || !strings.Contains(kept, "too long") || strings.Contains(kept, "more") || len(kept) > 100 {
			t.Errorf("%s: got %d bytes of text ending with %q", name, len(text), kept[:min(len(kept), 200)])
		}
		b, err := conversation.EncodeState(s)
		if err != nil || len(b) > conversation.MaxResponseText+4<<10 {
			t.Errorf("%s: state of %d bytes, %v", name, len(b), err)
		}
	}
	// A withdrawn turn frees its text.
	apply(&conversation.StepDropped{Message: "out", Turn: "t1"}, &conversation.ResponseStarted{Message: "out", Submission: "s", Turn: "t2"})
	delta(conversation.PartText, half)
	messages := s.Snapshot().Messages
	if text := messages[len(messages)-1].Text(); text != half {
		t.Errorf("after a withdrawn turn: got %d bytes, want %d", len(text), len(half))
	}
}
