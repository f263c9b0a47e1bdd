package conversation_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the files in testdata")

// at is a moment with milliseconds: 2026-01-02T03:04:05.678Z.
const at conversation.Time = 1767323045678

func ptr[T any](v T) *T { return &v }

// samples returns one record of every type with every field set.
func samples() []conversation.Record { return append(workSamples(), endSamples()...) }

// Values used by several samples.
func sampleOrigin() conversation.Origin { return conversation.Origin{Root: "sub_0", Parent: "conv_3"} }

func sampleFacts() conversation.CallFacts {
	return conversation.CallFacts{
		Provider: "x.ai", API: "anthropic-messages", Server: "localhost", Port: 8080, Thinking: "high", ResponseID: "resp_1", ResponseModel: "x-1",
		Price: &conversation.Price{Input: 0.25, Output: 0.5, CacheRead: 0.125, CacheWrite: 1, Total: 1.875},
	}
}

func sampleUsage() conversation.Usage {
	return conversation.Usage{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4, Reasoning: 5, Total: 6}
}

// workSamples returns the records of work in progress.
func workSamples() []conversation.Record {
	origin, facts, usage := sampleOrigin(), sampleFacts(), sampleUsage()
	return []conversation.Record{
		&conversation.ConversationCreated{
			Agent: "triage", ID: "issue 42", UID: "inst_1", ConversationID: "conv_1",
			InitialData: json.RawMessage(`{"repo":"<a&b>"}`), Stream: 1, At: at,
		},
		&conversation.SubmissionAdmitted{
			Submission: "sub_1", Message: "msg_1", Key: "key", PayloadHash: "00ff", At: at,
			Delivery: conversation.Delivery{
				Kind: conversation.KindUser, Body: "two\nlines <b>&amp;</b>", Type: "build.done",
				Attributes: map[string]string{"b": "2", "a": "1"}, TagName: "build",
				Attachments: []conversation.Attachment{
					{ID: "att_1", SHA256: "ab", MimeType: "image/png", Size: 3, Filename: "a&b.png"},
				},
			},
			Trace: conversation.Trace{Parent: "00-1-2-01", State: "k=v"}, Dispatched: true, DispatchDepth: 2, Channel: "slack",
			Tree:   &conversation.TreeRef{Root: conversation.Address{Agent: "desk", ID: "6"}, Submission: "sub_6"},
			Sender: &conversation.Sender{Address: conversation.Address{Agent: "triage", ID: "issue 41"}, Submission: "sub_0"},
		},
		&conversation.AttemptStarted{
			Submission: "sub_1", Attempt: 2, MaxAttempts: 10, Writer: "w_1", After: conversation.AfterLoss, QueuedMs: 30, LostAt: at, Dispatched: true,
			Trace: conversation.Trace{Parent: "00-1-2-01", State: "k=v"}, At: at,
		},
		&conversation.AttemptReleased{Submission: "sub_1", Attempt: 2, Reason: "drain", ElapsedMs: 31, At: at},
		&conversation.ResponseStarted{
			Message: "msg_2", Submission: "sub_1", Child: "conv_2", Turn: "turn_1", Model: "anthropic/x",
			Metadata: json.RawMessage(`{"cost":1.50}`), Origin: origin, WaitMs: 32, At: at,
		},
		&conversation.Delta{Message: "msg_2", Child: "conv_2", Kind: conversation.PartReasoning, Text: "a\r\n\"<b>\u2028\x00😀"},
		&conversation.PartDone{Message: "msg_2", Child: "conv_2", Signature: "c2ln"},
		&conversation.ToolCalled{
			Message: "msg_2", Child: "conv_2", Call: "call_1", ProviderCall: "toolu_1", Name: "label", Input: json.RawMessage(`{"n":1}`), Durable: true,
			Origin: origin, Turn: "turn_1", At: at,
		},
		&conversation.ToolSettled{
			Call: "call_1", Child: "conv_2", Output: json.RawMessage(`"ok"`), Failed: true, ErrorText: "no such label", Terminate: true,
			Attachments: []conversation.Attachment{{ID: "att_2", SHA256: "cd", MimeType: "image/png", Size: 4, Filename: "b.png"}},
			Origin:      origin, Name: "label", Turn: "turn_1", Waits: []conversation.OpenWait{{Name: "approval", WaitedMs: 35}},
			DurationMs: ptr[int64](12), ElapsedMs: 34, At: at,
		},
		&conversation.StepCompleted{
			Message: "msg_2", Child: "conv_2", Turn: "turn_1", StopReason: conversation.ReasonInterrupted, Usage: usage,
			Origin: origin, Model: "anthropic/x", Facts: facts, DurationMs: 33, WaitMs: 32, Retries: 1,
			Calls: []conversation.CallName{{Call: "call_1", Name: "label"}}, ElapsedMs: 35, At: at,
		},
		&conversation.DataWritten{Message: "msg_2", Name: "plan", Data: json.RawMessage(`[null,"<"]`)},
		&conversation.MetadataMerged{Message: "msg_2", Metadata: json.RawMessage(`{"a":{"b":12345678901234567890}}`)},
		&conversation.Advisory{
			Message: "msg_3", Child: "conv_2", Submission: "sub_1", TagName: "stream_continued", Attributes: map[string]string{"k": "v"},
			Text: "Go on.", Display: conversation.DisplayHidden,
		},
	}
}

// endSamples returns the records of endings, and of subagents.
func endSamples() []conversation.Record {
	origin, facts, usage := sampleOrigin(), sampleFacts(), sampleUsage()
	failed := &conversation.FailedCall{Turn: "turn_2", Model: "anthropic/x", Facts: facts, DurationMs: 37, Retries: 3}
	return []conversation.Record{
		&conversation.AbortRequested{Submissions: []conversation.SubmissionID{"sub_1", "sub_2"}, Trees: true, At: at},
		&conversation.SubmissionSettled{
			Submission: "sub_1", Outcome: conversation.OutcomeFailed, ElapsedMs: 36, AttemptMs: 34, TotalMs: 66, AdmissionMs: 4,
			Attempts: 10, Began: true, Open: true, Lost: true, LostAt: at, Dispatched: true, Unheard: failed, At: at,
			Error: &conversation.SettlementError{
				Type: conversation.CodeRetryExhausted, Message: "All attempts were used.", Meta: map[string]any{"attempts": 10.0},
			},
		},
		&conversation.StepDropped{
			Message: "msg_2", Child: "conv_2", Turn: "turn_1", Origin: origin, Model: "anthropic/x", Facts: facts, Reason: "overloaded",
			DurationMs: 33, Retries: 2, At: at,
		},
		&conversation.Compacted{
			Child: "conv_2", Summary: "so far", FirstKept: "sub_1", FirstTurn: "turn_1", Before: 2, Reason: conversation.CompactionManual,
			Model: "anthropic/x", Usage: usage, Origin: origin, Turn: "turn_3", Facts: facts, Tokens: 90_000, After: 4, DurationMs: 38,
			Detached: true, At: at,
		},
		&conversation.StateWritten{Key: "seen", Value: json.RawMessage(`{"n":2}`)},
		&conversation.StepRecorded{Call: "call_1", Name: "fetch", Output: json.RawMessage(`7`)},
		&conversation.Suspended{Submission: "sub_1", Until: at, Reason: conversation.ReasonTimer, ElapsedMs: 100, At: at},
		&conversation.HookDone{Submission: "sub_1", Hook: conversation.HookContinued},
		&conversation.ChildStarted{
			Child: "conv_2", Submission: "sub_2", Call: "call_1", Agent: "helper", Prompt: "Look it up.", Origin: origin, Turn: "turn_1", At: at,
		},
		&conversation.ChildSettled{
			Child: "conv_2", Outcome: conversation.OutcomeCompleted, Usage: usage, Origin: origin, Agent: "helper", Call: "call_1",
			Submission: "sub_2", Turn: "turn_1", DurationMs: 39, Unheard: failed, At: at,
		},
		&conversation.ConversationDeleted{At: at},
		&conversation.PartSigned{
			Must: true, Message: "msg_2", Child: "conv_2", Kind: conversation.PartText, Call: "call_1", Signature: "c2ln",
		},
		&conversation.RetryScheduled{
			Must: true, Submission: "sub_2", Child: "conv_2", Model: "anthropic/x", Reason: "rate_limit", Until: at, Rounds: 2, RoundsWithoutDelay: 1, WaitedMs: 40000, At: at,
		},
		&conversation.ImagesRefused{Must: true, Attachments: []conversation.AttachmentID{"att_1", "att_2"}, Model: "anthropic/x", At: at},
		&conversation.OutputStored{Must: true, Call: "call_1", Child: "conv_2", StoredOutput: sampleOutput()},
		&conversation.WaitStarted{
			Must: true, Origin: origin, Call: "call_1", Child: "conv_2", Tool: "label", Turn: "turn_1", Name: "approval", Schema: json.RawMessage(`{"type":"boolean"}`), Until: at, Dropped: "sub_3", At: at,
		},
		&conversation.WaitEnded{
			Must: true, Origin: origin, Call: "call_1", Child: "conv_2", Tool: "label", Turn: "turn_1", Name: "approval",
			Reason: conversation.EndedBySignal, Signal: "sub_3", Value: json.RawMessage(`true`), WaitedMs: 35, At: at,
		},
		&conversation.SignalKept{Must: true, Submission: "sub_3", Name: "approval", Body: "true", At: at},
		&conversation.Overtook{Must: true, Submission: "sub_2"},
		&conversation.ReplyPending{Must: true, Submission: "sub_2", To: sampleReplyTo()},
		&conversation.ReplySent{Must: true, Submission: "sub_2", At: at},
		&conversation.KeyKept{Must: true, Submission: "sub_2", Until: at},
		&conversation.NoticeAsked{Must: true, Submission: "sub_2", Target: "ledger"},
		&conversation.PostEnqueued{Must: true, Post: "post_1", Submission: "sub_2", Call: "call_1", Target: "ledger", Body: json.RawMessage(`{"paid":true}`), Channel: "slack", ReplyAddress: "slack:v1:T:C:1.2", At: at},
		&conversation.PostDeferred{Must: true, Post: "post_1", Submission: "sub_2", Target: "ledger", Attempts: 2, Reason: "answered 503", Until: at, DurationMs: 12, At: at},
		&conversation.PostDone{Must: true, Post: "post_1", Submission: "sub_2", Target: "ledger", End: conversation.PostDead, Attempts: 3, Reason: "answered 410", DurationMs: 12, At: at},
		&conversation.RunStarted{Must: true, Submission: "sub_2", At: at},
		&conversation.TreeCounted{
			Must: true, Submission: "sub_2", Member: conversation.Address{Agent: "desk", ID: "7"}, Key: "key_7", Joined: true, Cost: 0.5,
			Submissions: 3, Dollars: 1.25, MaxSubmissions: 100, MaxDollars: 20, At: at,
		},
		&conversation.ReplyAddressed{Must: true, Submission: "sub_2", Channel: "slack", Address: "slack:v1:T:C:1.2"},
	}
}

func sampleReplyTo() conversation.ReplyTo {
	return conversation.ReplyTo{Address: conversation.Address{Agent: "desk", ID: "7"}, UID: "inst_2", Name: "reply of triage 1f"}
}

func sampleOutput() conversation.StoredOutput {
	return conversation.StoredOutput{Size: 9, Head: "a\"b", Tail: "<c>", Pieces: []conversation.StoredPiece{{SHA256: "ef", Size: 5}, {SHA256: "01", Size: 4}}}
}

// public returns the samples as records of the conversation itself, not of a subagent.
func public() []conversation.Record {
	out := samples()
	for _, r := range out {
		switch r := r.(type) {
		case *conversation.ResponseStarted:
			r.Child = ""
		case *conversation.Delta:
			r.Child = ""
		case *conversation.PartDone:
			r.Child = ""
		case *conversation.PartSigned:
			r.Child = ""
		case *conversation.RetryScheduled:
			r.Child = ""
		case *conversation.ToolCalled:
			r.Child = ""
		case *conversation.ToolSettled:
			r.Child = ""
		case *conversation.OutputStored:
			r.Child = ""
		case *conversation.WaitStarted:
			r.Child = ""
		case *conversation.WaitEnded:
			r.Child = ""
		case *conversation.StepCompleted:
			r.Child = ""
		case *conversation.StepDropped:
			r.Child = ""
		case *conversation.Advisory:
			r.Child = ""
		case *conversation.Compacted:
			r.Child = ""
		}
	}
	return out
}

// golden compares with a file in testdata, or rewrites it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-) differs:\n%s", name, diff)
	}
}
