package clitest

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/clickhousetest"
	"github.com/parleyrun/parley/observability"
)

// Events is a submission with a tool, an attempt that was lost and a model that failed
// first, and one that failed for good.
func Events(t *testing.T) []observability.Event {
	t.Helper()
	start, err := time.Parse(time.RFC3339, "2026-11-01T10:00:00Z")
	if err != nil {
		t.Fatal(err)
	}
	var list []observability.Event
	own := observability.Envelope{Version: observability.Version, Agent: "desk", Instance: "c1", Submission: "sub_1"}
	add := func(ms int64, operation, turn string, p observability.Payload) {
		e := own
		e.Operation, e.Turn = operation, conversation.TurnID(turn)
		e.At, e.Type, e.Seq = conversation.TimeOf(start)+conversation.Time(ms), p.EventType(), int64(len(list))
		e.ID = "key/" + string(rune('a'+len(list))) + "/0"
		list = append(list, observability.Event{Envelope: e, Payload: p})
	}
	gpt := observability.ModelRequest{Provider: "openai", Model: "gpt-5"}
	used := func(in, out int64, cost float64) *observability.Usage {
		return &observability.Usage{Input: in, Output: out, CacheRead: 1000, Total: in + out + 1000, Cost: observability.Cost{Total: cost}}
	}
	add(0, "", "", &observability.SubmissionQueued{Kind: "direct"})
	add(3, "", "", &observability.SubmissionRunning{Attempt: 1, QueuedMs: 3})
	add(3, "op_1", "", &observability.OperationStart{Kind: "prompt"})
	add(3, "op_1", "", &observability.AgentStart{Attempt: 1})
	add(10, "op_1", "turn_1", &observability.TurnStart{Purpose: "agent", Model: "openai/gpt-5"})
	add(5000, "op_1", "", &observability.AgentEnd{Reason: "lost"})
	add(5000, "", "", &observability.SubmissionRunning{Attempt: 2, Resumed: true, QueuedMs: 5000, Recovered: true})
	add(5000, "op_1", "", &observability.AgentStart{Attempt: 2})
	add(5010, "op_1", "turn_2", &observability.TurnStart{Purpose: "agent", Model: "openai/gpt-5"})
	add(6210, "op_1", "turn_2", &observability.Turn{
		Purpose: "agent", DurationMs: 1200, FirstTokenMs: 250, Retries: 2, Request: gpt,
		Response: observability.ModelResponse{Usage: used(12_000, 40, 0.0125)},
	})
	add(6210, "op_1", "turn_2", &observability.ToolStart{ToolName: "look_up", ToolCallID: "call_1"})
	add(6250, "op_1", "turn_2", &observability.Tool{ToolName: "look_up", ToolCallID: "call_1", DurationMs: 40})
	add(7000, "op_1", "turn_3", &observability.Turn{Purpose: "agent", DurationMs: 700, FirstTokenMs: 90, Request: gpt, Response: observability.ModelResponse{Usage: used(13_000, 200, 1.5)}})
	add(7000, "op_1", "", &observability.AgentEnd{Reason: "settled", DurationMs: 2000})
	add(7000, "op_1", "", &observability.Operation{Kind: "prompt", DurationMs: 6997})
	add(7000, "", "", &observability.SubmissionSettled{Kind: "direct", Outcome: "completed", Attempt: 2, TotalMs: 7000, AdmissionMs: 6})
	own.Submission, own.Instance = "sub_2", "c2"
	broke := &observability.Error{Type: "model_error", Message: "the model\ncould not answer"}
	add(60_000, "", "", &observability.SubmissionQueued{Kind: "direct"})
	add(60_000, "op_2", "", &observability.OperationStart{Kind: "prompt"})
	add(65_000, "op_2", "", &observability.Operation{Kind: "prompt", DurationMs: 5000, IsError: true, Error: broke})
	add(65_000, "", "", &observability.SubmissionSettled{Kind: "direct", Outcome: "failed", Attempt: 1, TotalMs: 5000, Error: broke})
	return list
}

// Ask runs a statement and returns what the server answers.
func Ask(t *testing.T, server *clickhousetest.Server, query string) string {
	t.Helper()
	resp, err := http.Post(server.HTTPDSN(""), "", strings.NewReader(query))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", query, resp.Status, err)
	}
	return string(text)
}
