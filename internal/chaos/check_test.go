package chaos

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/schedule"
)

// forged is a world after a schedule of one submission with one tool call.
type forged struct {
	*world
	at      conversation.Address
	batches [][]conversation.Record
}

const (
	forgedSub  = conversation.SubmissionID("sub_1")
	forgedMsg  = conversation.MessageID("res_1")
	forgedCall = conversation.CallID("call_1")
)

// newForged makes a world with a valid log. With its seed both hooks decorate the response and the
// model has one step.
func newForged(t *testing.T) *forged {
	t.Helper()
	f := &forged{world: newWorld(Options{}), at: address(0)}
	for ; ; f.Seed++ {
		if f.mode("started", "hi") == decorates && f.mode("finished", "hi") == decorates && lastStep(f.Seed, "hi") == 1 {
			break
		}
	}
	f.ledger.started.Next(forgedCall)
	f.ledger.writes.Next(string(forgedCall))
	ms := int64(14)
	text := stepText(f.Seed, "hi", 1)
	f.batches = [][]conversation.Record{
		{
			&conversation.ConversationCreated{Agent: agentName, ID: f.at.ID, UID: "inst_1", ConversationID: "conv_1"},
			&conversation.SubmissionAdmitted{Submission: forgedSub, Message: "msg_1", Key: "k", Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: "hi"}},
			&conversation.AttemptStarted{Submission: forgedSub, Attempt: 1, Writer: "w"},
		},
		{
			&conversation.ResponseStarted{Message: forgedMsg, Submission: forgedSub, Turn: "turn_1", Metadata: json.RawMessage(`{"by":{"started":"hi"}}`)},
			&conversation.ToolCalled{Message: forgedMsg, Call: forgedCall, Name: "work", Input: json.RawMessage(`{"millis":15,"writes":1}`)},
			&conversation.StepCompleted{Message: forgedMsg, Turn: "turn_1", StopReason: "interrupted"},
		},
		{
			&conversation.DataWritten{Message: forgedMsg, Name: dataName, Data: json.RawMessage(`{"from":"call_1","n":0}`)},
			&conversation.ToolSettled{Call: forgedCall, Output: json.RawMessage(`"worked 15 ms"`), DurationMs: &ms},
			&conversation.ResponseStarted{Message: forgedMsg, Submission: forgedSub, Turn: "turn_2"},
			&conversation.Delta{Message: forgedMsg, Kind: conversation.PartText, Text: text},
			&conversation.StepCompleted{Message: forgedMsg, Turn: "turn_2", StopReason: "stop"},
		},
		{
			&conversation.DataWritten{Message: forgedMsg, Name: dataName, Data: json.RawMessage(`{"from":"hook-sub_1","n":0}`)},
			&conversation.MetadataMerged{Message: forgedMsg, Metadata: json.RawMessage(`{"by":{"finished":"hi"}}`)},
			&conversation.SubmissionSettled{Submission: forgedSub, Outcome: conversation.OutcomeCompleted},
		},
	}
	return f
}

// verdict runs the checks and returns the violations.
func (f *forged) verdict(t *testing.T) string {
	t.Helper()
	log := newLog(f.at)
	for i, records := range f.batches {
		f.ledger.log(f.at.Key()).batches[int64(i)] = landing{at: i + 1}
		if err := log.add(conversation.Batch{Offset: conversation.Offset(i), Records: records}); err != nil {
			t.Fatal(err)
		}
	}
	f.checkLog(log)
	return f.trace.Report().Violation
}

func (f *forged) settled() *conversation.SubmissionSettled {
	return f.batches[3][2].(*conversation.SubmissionSettled)
}

// abort replaces the end of the log with an abort.
func (f *forged) abort() {
	s := f.settled()
	s.Outcome, s.Error = conversation.OutcomeAborted, &conversation.SettlementError{Type: conversation.CodeAborted}
	f.batches[3] = []conversation.Record{&conversation.AbortRequested{Submissions: []conversation.SubmissionID{forgedSub}}, s}
}

func TestCheckerDetectsForgeries(t *testing.T) {
	for name, c := range map[string]struct {
		forge func(f *forged)
		want  string // "" for none
	}{
		"valid log": {func(*forged) {}, ""},
		"an abort": {func(f *forged) {
			f.ledger.abort(f.at.Key())
			f.abort()
		}, ""},
		"an abort without a request": {func(f *forged) { f.abort() }, "without a request"},
		"an abort after one that was granted": {func(f *forged) {
			f.ledger.ended(f.ledger.abort(f.at.Key()))
			f.abort()
		}, "without a request"},
		"an abort that covers nothing": {func(f *forged) {
			f.ledger.abort(f.at.Key())
			f.abort()
			f.batches[3] = f.batches[3][1:]
		}, "no abort covers it"},
		"an abort that ends otherwise": {func(f *forged) {
			f.ledger.abort(f.at.Key())
			f.batches[3] = append([]conversation.Record{&conversation.AbortRequested{Submissions: []conversation.SubmissionID{forgedSub}}}, f.batches[3]...)
		}, `settles it as "completed"`},
		"text is lost":               {func(f *forged) { f.batches[2][3].(*conversation.Delta).Text = "hi says 1.0" }, "complete step has text"},
		"text is repeated":           {func(f *forged) { f.batches[2] = append(f.batches[2][:4:4], f.batches[2][3:]...) }, "complete step has text"},
		"data is repeated":           {func(f *forged) { f.batches[2] = append(f.batches[2][:1:1], f.batches[2]...) }, "repeated"},
		"data is lost":               {func(f *forged) { f.batches[2] = f.batches[2][1:] }, "want 1 pieces"},
		"output of another call":     {func(f *forged) { f.batches[2][1].(*conversation.ToolSettled).Output = json.RawMessage(`"worked 1 ms"`) }, "got output"},
		"outcome without a run":      {func(f *forged) { f.ledger.started = schedule.Counter[conversation.CallID]{} }, "the call ran 0 times"},
		"metadata of start is lost":  {func(f *forged) { f.batches[1][0].(*conversation.ResponseStarted).Metadata = nil }, "the hook started"},
		"metadata of end is lost":    {func(f *forged) { f.batches[3] = append(f.batches[3][:1:1], f.batches[3][2]) }, "the hook finished"},
		"metadata of end twice":      {func(f *forged) { f.batches[3] = append(f.batches[3][:2:2], f.batches[3][1:]...) }, "the hook finished"},
		"data of the hook is lost":   {func(f *forged) { f.batches[3] = f.batches[3][1:] }, "the data of the hook"},
		"a failure without a reason": {func(f *forged) { f.fail(conversation.CodeModelFailed) }, "failed with"},
		"a failure with a reason": {func(f *forged) {
			f.fail(conversation.CodeModelFailed)
			f.ledger.failed(forgedSub, 0, false)
		}, ""},
		"too few retries": {func(f *forged) {
			f.fail(conversation.CodeModelFailed)
			f.ledger.failed(forgedSub, maxRetries-1, true)
		}, "failed with"},
		"too few attempts":           {func(f *forged) { f.fail(conversation.CodeRetryExhausted) }, "failed with"},
		"another value is delivered": {func(f *forged) { f.signal("b", `"c"`) }, "want the signal's"},
		"another is returned":        {func(f *forged) { f.signal("b", `"b"`) }, `want "`},
		"a second signal": {func(f *forged) {
			f.signal("b", `"b"`)
			f.batches[1] = append([]conversation.Record{&conversation.SignalKept{Submission: "sub_3", Name: "n", At: 1}}, f.batches[1]...)
		}, "already decided by"},
		"refused as late without a decision": {func(f *forged) { f.tooLate[f.at] = []string{"n"} }, "refused as late"},
		"another receipt": {func(f *forged) {
			p := &post{Admission: conversation.Admission{Address: f.at, Key: "k", Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: "ho"}}}
			f.acks["k"] = ack{p, conversation.Receipt{SubmissionID: forgedSub, UID: "inst_1"}}
		}, "does not admit"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newForged(t)
			c.forge(f)
			if got := f.verdict(t); c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("verdict %q, want %q", got, c.want)
			}
		})
	}
}

// signal makes the call receive a signal with any body.
func (f *forged) signal(body, received string) {
	d, _ := conversation.SignalFor("n", body)
	f.batches[2] = append([]conversation.Record{
		&conversation.SubmissionAdmitted{Submission: "sub_2", Message: "msg_2", Key: "s", Delivery: d},
		&conversation.SubmissionSettled{Submission: "sub_2", Outcome: conversation.OutcomeCompleted},
		&conversation.WaitStarted{Call: forgedCall, Name: "n"},
		&conversation.WaitEnded{Call: forgedCall, Name: "n", Reason: conversation.EndedBySignal, Signal: "sub_2", Value: json.RawMessage(received)},
	}, f.batches[2]...)
}

func (f *forged) fail(code conversation.Code) {
	s := f.settled()
	s.Outcome, s.Error = conversation.OutcomeFailed, &conversation.SettlementError{Type: code}
}

func TestCountsLack(t *testing.T) {
	for p, desc := range map[Profile]schedule.Event{Everything: "abort", Journals: "journal swept", Waits: "signal kept", Posts: "posted", Runs: "run failed", Trees: "tree member aborted"} {
		s := schedule.Counts{}
		for desc, n := range p.wanted() {
			s[desc] = n
		}
		if l := p.Lacking(s, 1000); len(l) > 0 {
			t.Errorf("Lacking() = %v, want none", l)
		}
		s[desc] = 0
		if got, want := fmt.Sprint(p.Lacking(s, 1000)), fmt.Sprintf("[%s 0, want %d]", desc, p.wanted()[desc]); got != want {
			t.Errorf("Lacking() = %s, want %s", got, want)
		}
	}
}
