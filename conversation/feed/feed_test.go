package feed_test

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/conversation/feed"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the files in testdata")

type records = []conversation.Record

func created() *conversation.ConversationCreated {
	return &conversation.ConversationCreated{Agent: "support", ID: "42", UID: "inst_1", ConversationID: "conv_1", At: 1000}
}

func admitted(n string, body string, attachments ...conversation.Attachment) *conversation.SubmissionAdmitted {
	return &conversation.SubmissionAdmitted{
		Submission: conversation.SubmissionID("sub_" + n), Message: conversation.MessageID("msg_u" + n), Key: n, At: 1001,
		Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: body, Attachments: attachments},
	}
}

func attempt(n string) *conversation.AttemptStarted {
	return &conversation.AttemptStarted{Submission: conversation.SubmissionID("sub_" + n), Attempt: 1, Writer: "w", At: 1002}
}

func started(n, turn string) *conversation.ResponseStarted {
	return &conversation.ResponseStarted{
		Message: conversation.MessageID("msg_" + n), Submission: conversation.SubmissionID("sub_" + n), Turn: conversation.TurnID("turn_" + turn),
		Model: "demo/m1", At: 1003,
	}
}

func text(n, s string) *conversation.Delta {
	return &conversation.Delta{Message: conversation.MessageID("msg_" + n), Kind: conversation.PartText, Text: s}
}

func thought(n, text string) *conversation.Delta {
	return &conversation.Delta{Message: conversation.MessageID("msg_" + n), Kind: conversation.PartReasoning, Text: text}
}

func completed(n, turn, stop string, calls ...conversation.CallName) *conversation.StepCompleted {
	return &conversation.StepCompleted{
		Origin: conversation.Origin{Root: conversation.SubmissionID("sub_" + n)}, Message: conversation.MessageID("msg_" + n), Turn: conversation.TurnID("turn_" + turn), StopReason: stop,
		Model: "demo/m1", Usage: conversation.Usage{Input: 10, Output: 5, Total: 15}, DurationMs: 7, Calls: calls, At: 1004,
		Facts: conversation.CallFacts{API: "demo", Price: &conversation.Price{Input: 0.5, Output: 0.25, Total: 0.75}},
	}
}

func settled(n string, outcome conversation.Outcome) *conversation.SubmissionSettled {
	s := &conversation.SubmissionSettled{
		Submission: conversation.SubmissionID("sub_" + n), Outcome: outcome, ElapsedMs: 20, AttemptMs: 20, Attempts: 1, Began: true, Open: true, At: 1009,
	}
	if outcome != conversation.OutcomeCompleted {
		s.Error = &conversation.SettlementError{Type: conversation.CodeModelFailed, Message: "The model could not be reached."}
	}
	return s
}

// scripts are the histories whose events are in testdata.
func scripts() map[string][]records {
	look := conversation.CallName{Call: "call_1", Name: "look"}
	task := conversation.CallName{Call: "call_2", Name: "task"}
	root := conversation.Origin{Root: "sub_1"}
	ms := int64(3)
	return map[string][]records{
		"prompt": {
			{created(), admitted("1", "What is <this>?", conversation.Attachment{ID: "att_1", MimeType: "image/png", Size: 9}), attempt("1")},
			{started("1", "1"), thought("1", "Let me "), thought("1", "look.")},
			{text("1", "I look")},
			{text("1", " it up."), &conversation.ToolCalled{Origin: root, Message: "msg_1", Call: "call_1", Name: "look", Input: json.RawMessage(`{"q":"<this>"}`)}, completed("1", "1", "tool_use", look)},
			{&conversation.ToolSettled{Origin: root, Call: "call_1", Name: "look", Turn: "turn_1", Output: json.RawMessage(`"a tag"`), DurationMs: &ms, At: 1005}},
			{started("1", "2"), text("1", "It is a tag."), &conversation.DataWritten{Message: "msg_1", Name: "source", Data: json.RawMessage(`{"n":1}`)}},
			{completed("1", "2", "stop"), settled("1", conversation.OutcomeCompleted)},
		},
		"queued and failed": {
			{created(), admitted("1", "first"), attempt("1")},
			{started("1", "1"), text("1", "Hel")},
			{admitted("2", "second")},
			{&conversation.StepDropped{Origin: root, Message: "msg_1", Turn: "turn_1", Model: "demo/m1", Reason: "overloaded", DurationMs: 4, At: 1005}},
			{started("1", "2"), text("1", "Hello"), completed("1", "2", "stop"), settled("1", conversation.OutcomeCompleted), attempt("2")},
			{func() conversation.Record {
				s := settled("2", conversation.OutcomeFailed)
				s.Unheard = &conversation.FailedCall{Turn: "turn_3", Model: "demo/m1", DurationMs: 2}
				return s
			}()},
			{&conversation.Compacted{Summary: "much", Before: 2, After: 1, Reason: conversation.CompactionManual, Model: "demo/m1", Turn: "turn_4", Tokens: 99, Detached: true, At: 1010}},
		},
		"subagent": {
			{created(), admitted("1", "hand it on"), attempt("1"), started("1", "1")},
			{&conversation.ToolCalled{Origin: root, Message: "msg_1", Call: "call_2", Name: "task", Input: json.RawMessage(`{"prompt":"look"}`)}, completed("1", "1", "tool_use", task)},
			{&conversation.ChildStarted{Origin: root, Child: "conv_c", Submission: "sub_c", Call: "call_2", Agent: "helper", Prompt: "look", Turn: "turn_1", At: 1005}},
			{
				&conversation.ResponseStarted{Origin: root, Message: "msg_c", Submission: "sub_c", Child: "conv_c", Turn: "turn_c", Model: "demo/m2", At: 1006},
				&conversation.Delta{Message: "msg_c", Child: "conv_c", Kind: conversation.PartText, Text: "seen"},
				&conversation.StepCompleted{Origin: root, Message: "msg_c", Child: "conv_c", Turn: "turn_c", StopReason: "stop", Model: "demo/m2", At: 1007},
				&conversation.ChildSettled{Origin: root, Child: "conv_c", Outcome: conversation.OutcomeCompleted, Agent: "helper", Call: "call_2", Submission: "sub_c", Turn: "turn_1", DurationMs: 8, At: 1008},
				&conversation.ToolSettled{Origin: root, Call: "call_2", Name: "task", Turn: "turn_1", Output: json.RawMessage(`{"text":"seen"}`), At: 1008},
			},
			{&conversation.AbortRequested{Submissions: []conversation.SubmissionID{"sub_1"}, At: 1009}, &conversation.Advisory{Message: "msg_a", Submission: "sub_1", Text: "Aborted.", Display: conversation.DisplayDiagnostic}, settled("1", conversation.OutcomeAborted)},
			{&conversation.ConversationDeleted{At: 1010}},
			{created(), admitted("3", "a new life")},
		},
	}
}

// TestStreams compares events with testdata. Those files never change for a version of the projection,
// because clients keep offsets.
// covers: beta/24, beta/68, beta/69, beta/70, beta/71, beta/73, beta/108, beta/112, beta/113, upgrade/10, upgrade/12
// covers: upgrade/25
func TestStreams(t *testing.T) {
	all := scripts()
	maps.Copy(all, runScripts())
	for name, batches := range all {
		var out strings.Builder
		p := new(feed.Projector)
		for _, b := range batches {
			err := p.Apply(b, func(e feed.Event) {
				out.Write(e.JSON)
				out.WriteByte('\n')
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		path := filepath.Join("testdata", strings.ReplaceAll(name, " ", "_")+".jsonl")
		if *rewrite {
			if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(out.String(), "\n")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// FuzzParseMarks checks that marks are rejected, or that each resumes at its position or not at all.
func FuzzParseMarks(f *testing.F) {
	f.Add([]byte(`{"v":1,"gap":64,"marks":[{"seq":5,"next":70,"state":{"next":70}},{"seq":9,"next":140,"state":{"next":140,"owed":{"sub_1":{"index":3,"turn":{"id":"t"}}}}}]}`))
	f.Add([]byte(`{"v":1,"gap":-1,"marks":null}`))
	f.Add([]byte(`{"v":1,"gap":1,"marks":[{"seq":5,"next":0,"state":{"owed":{"s":null},"tasks":{"c":null}}}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := feed.ParseMarks(b)
		if err != nil {
			return
		}
		for _, k := range m.List {
			p, err := k.Resume(created())
			if err != nil {
				continue
			}
			if p.Next() != k.Next || p.Weight() <= 0 {
				t.Fatalf("mark of %d resumes at %d", k.Next, p.Next())
			}
		}
		if k, ok := m.Before(100); ok && k.Next > 100 {
			t.Fatalf("event 100 is reached from %d", k.Next)
		}
	})
}
