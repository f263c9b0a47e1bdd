package sinktest

import (
	"encoding/json"
	"fmt"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
)

// sampleKey is the key of the conversation of Sample, and sampleAt the time of its first event:
// 2026-01-02T03:04:05.678Z.
const (
	sampleKey = "00112233445566778899aabbccddeeff"
	sampleAt  = conversation.Time(1767323045678)
)

// Sample returns one event of every type, in a possible order, with every field set. Each call returns
// new ones.
func Sample() []observability.Event {
	payloads := append(append(append(submissionSamples(), turnSamples()...), messageSamples()...), workSamples()...)
	events := make([]observability.Event, len(payloads))
	for i, p := range payloads {
		e := &events[i]
		e.Payload = p
		e.Envelope = observability.Envelope{
			Version: observability.Version, Index: int64(i), Seq: 7, At: sampleAt + conversation.Time(i), Type: p.EventType(),
			Agent: "triage", Instance: "issue 42", Submission: "sub_1", Conversation: "conv_2",
			Session: "task:task_1", ParentSession: observability.SessionDefault, Task: "task_1", Harness: observability.HarnessDefault,
			Operation: "op_1", Turn: "turn_1",
		}
		e.ID = fmt.Sprintf("%s/%d/%d", sampleKey, e.Seq, e.Index)
		if live(p) {
			e.Seq, e.ID = observability.LiveSeq, fmt.Sprintf("live_node1_%d", i)
		}
	}
	return events
}

func live(p observability.Payload) bool {
	switch p.(type) {
	case *observability.TurnRequest, *observability.TurnMessages, *observability.MessageStart, *observability.MessageEnd,
		*observability.TextDelta, *observability.ThinkingStart, *observability.ThinkingDelta, *observability.ThinkingEnd,
		*observability.ToolcallDelta, *observability.Log:
		return true
	}
	return false
}

func sampleError() *observability.Error {
	return &observability.Error{
		Type: "retry_exhausted", Message: "All attempts were used.",
		Meta: map[string]any{"attempts": 10.0, "hosts": []any{"a", "b"}, "last": map[string]any{"code": "overloaded", "fatal": true, "status": nil}},
	}
}

func sampleUsage() *observability.Usage {
	return &observability.Usage{
		Input: 1200, Output: 340, CacheRead: 5600, CacheWrite: 78, Reasoning: 90, Total: 7218,
		Cost: observability.Cost{Input: 0.0036, Output: 0.0051, CacheRead: 0.00168, CacheWrite: 0.0002925, Total: 0.0106725},
	}
}

func sampleContent(text string) *observability.Content {
	return &observability.Content{Bytes: 70_000, Text: text, Truncated: true}
}

func sampleRequest() observability.ModelRequest {
	return observability.ModelRequest{
		Provider: "azure-openai-responses", ProviderName: "azure.ai.openai", Model: "gpt-5", API: "responses",
		Server: "models.example.com", Port: 8443, Reasoning: "high", Compacted: true, Messages: 12, Tools: 3,
		InputBytes: 4096, Input: json.RawMessage(`{"messages":[{"role":"user","content":"label <it> & say \"ok\""}],"n":1.50}`),
		InputTruncated: true,
	}
}

func sampleMessage(role string) observability.Message {
	return observability.Message{
		ID: "msg_2", Role: role, ToolCallID: "call_1", ToolName: "label", IsError: true,
		Bytes: 70_000, Text: "two\nlines, \"quotes\", <b>&amp;</b>, Grüße 😀", Images: 2, Truncated: true,
	}
}

func submissionSamples() []observability.Payload {
	return []observability.Payload{
		&observability.SubmissionQueued{
			Kind: observability.KindDirect, MessageKind: "user", Attachments: 2,
			Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Tracestate: "vendor=value",
			Body: sampleContent("Please label issue 42."),
		},
		&observability.SubmissionRunning{
			Kind: observability.KindDirect, Attempt: 2, MaxAttempts: 10, QueuedMs: 15, Recovered: true, Resumed: true,
			Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Tracestate: "vendor=value",
		},
		&observability.SubmissionRecovery{
			Operation: observability.RecoveryProcess, Outcome: observability.OutcomeDeferred,
			Attempt: 2, MaxAttempts: 10, Fenced: true, Error: sampleError(),
		},
		&observability.SubmissionSettled{
			Kind: observability.KindDirect, Outcome: "failed", Attempt: 2, WorkMs: 2300, TotalMs: 2315, AdmissionMs: 7,
			Error: sampleError(),
		},
		&observability.OperationStart{Kind: observability.OperationPrompt},
		&observability.Operation{
			Kind: observability.OperationTask, DurationMs: 2200, IsError: true, Error: sampleError(), Usage: sampleUsage(),
		},
		&observability.AgentStart{Attempt: 2},
		&observability.AgentEnd{Reason: observability.EndReleased, DurationMs: 2100},
		&observability.Idle{},
	}
}

func turnSamples() []observability.Payload {
	return []observability.Payload{
		&observability.TurnStart{Purpose: observability.PurposeAgent, Model: "azure-openai-responses/gpt-5"},
		&observability.TurnRequest{Purpose: observability.PurposeCompaction, Request: sampleRequest()},
		&observability.Turn{
			Purpose: observability.PurposeAgent, DurationMs: 1900, FirstTokenMs: 420, IsError: true, Dropped: true, Retries: 3,
			Request: sampleRequest(),
			Response: observability.ModelResponse{
				ID: "resp_1", Model: "gpt-5-2026-01-01", Usage: sampleUsage(), FinishReason: "error", Error: sampleError(),
			},
		},
		&observability.TurnMessages{
			Purpose: observability.PurposeAgent, Message: sampleMessage("assistant"),
			ToolResults: []observability.Message{sampleMessage("toolResult"), sampleMessage("toolResult")},
		},
	}
}

func messageSamples() []observability.Payload {
	return []observability.Payload{
		&observability.MessageStart{Message: sampleMessage("assistant")},
		&observability.MessageEnd{Message: sampleMessage("assistant")},
		&observability.TextDelta{Bytes: 12, Text: "I will label"},
		&observability.ThinkingStart{ContentIndex: 1},
		&observability.ThinkingDelta{ContentIndex: 1, Bytes: 9, Delta: "Which one"},
		&observability.ThinkingEnd{ContentIndex: 1, Bytes: 10, Content: "Which one?"},
		&observability.ToolcallDelta{ToolCallID: "toolu_1", ToolName: "label", Bytes: 8, Delta: `{"name":`},
	}
}

func workSamples() []observability.Payload {
	return []observability.Payload{
		&observability.ToolStart{ToolName: "label", ToolCallID: "call_1", Args: sampleContent(`{"name":"bug"}`)},
		&observability.Tool{ToolName: "label", ToolCallID: "call_1", IsError: true, DurationMs: 33, Result: sampleContent(`"no such label"`)},
		&observability.TaskStart{Agent: "researcher", ToolCallID: "call_2", Prompt: sampleContent("Find what is alike.")},
		&observability.Task{
			Agent: "researcher", ToolCallID: "call_2", Outcome: "failed", IsError: true, DurationMs: 1500, Usage: sampleUsage(),
		},
		&observability.CompactionStart{Reason: "threshold", EstimatedTokens: 180_000},
		&observability.Compaction{
			Reason: "overflow", MessagesBefore: 40, MessagesAfter: 6, DurationMs: 800, IsError: true, Error: sampleError(), Usage: sampleUsage(),
		},
		&observability.Log{
			Level: "warn", Message: "model call is repeated",
			Attributes: map[string]any{"attempt": 2.0, "delay": "1.5s", "path": []any{"a", 1.0}, "more": map[string]any{"x": false}},
		},
		&observability.WaitStart{Name: "approval-7", ToolName: "approve", ToolCallID: "call_3", Until: sampleAt + 3_600_000},
		&observability.Wait{
			Name: "approval-7", ToolName: "approve", ToolCallID: "call_3", Reason: observability.WaitSignal, Signal: "sub_2", DurationMs: 90_000,
		},
		&observability.Post{PostID: "post_1", Target: "ledger", Outcome: observability.PostDeferred, Attempts: 2, DurationMs: 120},
	}
}
