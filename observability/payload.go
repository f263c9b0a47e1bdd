package observability

import (
	"encoding/json"

	"github.com/parleyrun/parley/conversation"
)

// Types and values of payload fields. Durations are milliseconds, costs US dollars.
// Fields that hold what people, models or tools have said are called content: they are
// empty unless content is switched on for the agent, and bounded then; what was left
// out is told by a count of bytes beside it.
type (
	// Error says what went wrong, without a stack and without words of a vendor.
	Error struct {
		Type    string         `json:"type"`
		Message string         `json:"message,omitempty"`
		Meta    map[string]any `json:"meta,omitempty"`
	}

	// Cost is the price of model calls in US dollars.
	Cost struct {
		Input      float64 `json:"input"`
		Output     float64 `json:"output"`
		CacheRead  float64 `json:"cacheRead"`
		CacheWrite float64 `json:"cacheWrite"`
		Total      float64 `json:"total"`
	}

	// Usage counts the tokens of model calls. Input excludes those of the prompt cache;
	// Reasoning is part of Output.
	Usage struct {
		Input      int64 `json:"input"`
		Output     int64 `json:"output"`
		CacheRead  int64 `json:"cacheRead"`
		CacheWrite int64 `json:"cacheWrite"`
		Reasoning  int64 `json:"reasoning,omitempty"`
		Total      int64 `json:"totalTokens"`
		Cost       Cost  `json:"cost"`
	}

	// ModelRequest says what was asked of which model. Provider and Name are those of
	// the provider as configured and as OpenTelemetry calls it. Messages and Tools count
	// what the model was shown, in turn_request only; Input is that, content, and
	// InputTruncated says that it is not all of it.
	ModelRequest struct {
		Provider       string          `json:"providerId"`
		ProviderName   string          `json:"providerName"`
		Model          string          `json:"requestedModel"`
		API            string          `json:"api,omitempty"`
		Server         string          `json:"serverAddress,omitempty"`
		Port           int             `json:"serverPort,omitempty"`
		Reasoning      string          `json:"reasoningLevel,omitempty"`
		Compacted      bool            `json:"contextCompacted,omitempty"`
		Messages       int             `json:"messageCount,omitempty"`
		Tools          int             `json:"toolCount,omitempty"`
		InputBytes     int             `json:"inputBytes,omitempty"`
		Input          json.RawMessage `json:"input,omitempty"`
		InputTruncated bool            `json:"inputTruncated,omitempty"`
	}

	// ModelResponse says how a model call ended. FinishReason is stop, length, toolUse,
	// content_filter, error, or one that is not the model's: see [Turn.CutOff].
	ModelResponse struct {
		ID           string `json:"responseId,omitempty"`
		Model        string `json:"responseModel,omitempty"`
		Usage        *Usage `json:"usage,omitempty"`
		FinishReason string `json:"finishReason,omitempty"`
		Error        *Error `json:"error,omitempty"`
	}

	// Message is a message of the transcript. Role is user, assistant or toolResult.
	// Text is content; Bytes is how long it is.
	Message struct {
		ID         string `json:"id,omitempty"`
		Role       string `json:"role"`
		ToolCallID string `json:"toolCallId,omitempty"`
		ToolName   string `json:"toolName,omitempty"`
		IsError    bool   `json:"isError,omitempty"`
		Bytes      int    `json:"bytes"`
		Text       string `json:"text,omitempty"`
		Images     int    `json:"images,omitempty"`
		Truncated  bool   `json:"truncated,omitempty"`
	}

	// Content is text or JSON that was said: its length, and, if content is switched on,
	// what it is, up to a bound.
	Content struct {
		Bytes     int    `json:"bytes"`
		Text      string `json:"text,omitempty"`
		Truncated bool   `json:"truncated,omitempty"`
	}
)

// The values of Kind, of a submission: who sent it.
const (
	KindDirect   = "direct"   // an HTTP request
	KindDispatch = "dispatch" // code in the process
)

// The values of OperationKind.
const (
	OperationPrompt  = "prompt"
	OperationTask    = "task"
	OperationCompact = "compact"
)

// The values of Purpose, of a turn.
const (
	PurposeAgent      = "agent"
	PurposeCompaction = "compaction"
)

// LogCallFailed is the message of the log that the runtime writes when a model call has
// failed. Its attributes are "model" and "reason", and "cause", the words of the vendor, where
// prompts are kept; a call that failed without a word and is repeated has no other end.
const LogCallFailed = "model call failed"

// LogTreeCounted is the message of the durable log that a tree of dispatches has a new member, or a new cost. It belongs
// to the submission that began the tree. Its attributes are agent, id and key of the member, submissions and dollars, what
// the tree has used in 24 hours, and maxSubmissions and maxDollars, its limits, absent for none.
const LogTreeCounted = "tree counted"

// The values of Reason, of agent_end: why a run of the agent loop ended.
const (
	EndSettled   = "settled"
	EndReleased  = "released" // handed to another node
	EndSuspended = "parked"   // it waits for a time
	EndLost      = "lost"     // its process or its writer did not survive
)

// The values of Reason, of wait: what has ended it.
const (
	WaitSignal    = string(conversation.EndedBySignal)
	WaitTimeout   = string(conversation.EndedByTimeout)
	WaitAbandoned = "abandoned" // its call has an outcome without it
)

// The values of Outcome, of post.
const (
	PostDelivered = string(conversation.PostDelivered)
	PostDead      = string(conversation.PostDead) // given up
	PostDeferred  = "deferred"                    // another attempt is made later
)

// The values of Operation and Outcome, of submission_recovery.
const (
	RecoveryReconcile  = "reconcile_submission"
	RecoveryStart      = "start_submission"
	RecoveryProcess    = "process_submission"
	RecoveryDeadline   = "enforce_deadline"
	RecoveryPass       = "reconcile_pass"
	OutcomeDeferred    = "deferred"
	OutcomeTerminated  = "terminated"
	OutcomeUnavailable = "agent_unavailable"
)

type (
	// SubmissionQueued: a submission is admitted, durably. Trace is the W3C context of
	// its request.
	SubmissionQueued struct {
		Kind        string   `json:"kind"`
		MessageKind string   `json:"messageKind,omitempty"` // user or signal
		Attachments int      `json:"attachments,omitempty"`
		Traceparent string   `json:"traceparent,omitempty"`
		Tracestate  string   `json:"tracestate,omitempty"`
		Body        *Content `json:"body,omitempty"`
	}
	// SubmissionRunning: an attempt begins. QueuedMs is the wall time since the admission,
	// of the first attempt only; those after it are Resumed.
	SubmissionRunning struct {
		Kind        string `json:"kind"`
		Attempt     int    `json:"attemptCount"`
		MaxAttempts int    `json:"maxAttempts,omitempty"`
		QueuedMs    int64  `json:"queuedMs"`
		Resumed     bool   `json:"resumed,omitempty"`
		Recovered   bool   `json:"recovered,omitempty"` // the attempt before it was lost
		Traceparent string `json:"traceparent,omitempty"`
		Tracestate  string `json:"tracestate,omitempty"`
	}
	// SubmissionRecovery: work could not go on where it was, and what was done about it.
	SubmissionRecovery struct {
		Operation   string `json:"operation"`
		Outcome     string `json:"outcome"`
		Attempt     int    `json:"attemptCount,omitempty"`
		MaxAttempts int    `json:"maxAttempts,omitempty"`
		Fenced      bool   `json:"fenced,omitempty"` // another writer was faster
		Error       *Error `json:"error,omitempty"`
	}
	// SubmissionSettled: the one outcome of a submission. WorkMs is the time of its
	// attempts, TotalMs the wall time since its admission. AdmissionMs is how long its
	// sender waited for the receipt, at the owner of the conversation, so far if the outcome
	// came before it: 1 or more, and 0 if nobody knows, because the conversation was put away
	// or taken over after the admission.
	SubmissionSettled struct {
		Kind        string `json:"kind"`
		Outcome     string `json:"outcome"` // completed, failed or aborted
		Attempt     int    `json:"attemptCount"`
		WorkMs      int64  `json:"workMs"`
		TotalMs     int64  `json:"totalMs"`
		AdmissionMs int64  `json:"admissionMs,omitempty"`
		Error       *Error `json:"error,omitempty"`
	}

	// OperationStart and Operation: the work on a submission, or on a task, from its first
	// attempt to its end.
	OperationStart struct {
		Kind string `json:"operationKind"`
	}
	// Operation is described at [OperationStart].
	Operation struct {
		Kind       string `json:"operationKind"`
		DurationMs int64  `json:"durationMs"`
		IsError    bool   `json:"isError"`
		Error      *Error `json:"error,omitempty"`
		Usage      *Usage `json:"usage,omitempty"` // of a task
	}

	// AgentStart and AgentEnd: a run of the agent loop, one for every attempt.
	AgentStart struct {
		Attempt int `json:"attemptCount,omitempty"`
	}
	// AgentEnd is described at [AgentStart]. DurationMs is 0 if nobody knows.
	AgentEnd struct {
		Reason     string `json:"reason"`
		DurationMs int64  `json:"durationMs,omitempty"`
	}
	// Idle: an operation is over.
	Idle struct{}

	// TurnStart: a model has begun to answer.
	TurnStart struct {
		Purpose string `json:"purpose"`
		Model   string `json:"model,omitempty"` // provider/model
	}
	// TurnRequest: a model is about to be called. Live.
	TurnRequest struct {
		Purpose string       `json:"purpose"`
		Request ModelRequest `json:"request"`
	}
	// Turn: a model call has ended. DurationMs is 0 if its process did not survive it, as
	// nobody knows then. FirstTokenMs is the time to its first output. Dropped
	// reports that the call is made again, and that its output, if any, was withdrawn; Retries
	// counts the failed calls before it that it repeats. Every turn_request has its turn, which
	// is live if the call ended without output and is made again, or its work ended first.
	Turn struct {
		Purpose      string        `json:"purpose"`
		DurationMs   int64         `json:"durationMs"`
		FirstTokenMs int64         `json:"firstTokenMs,omitempty"`
		IsError      bool          `json:"isError"`
		Dropped      bool          `json:"dropped,omitempty"`
		Retries      int           `json:"retries,omitempty"`
		Request      ModelRequest  `json:"request"`
		Response     ModelResponse `json:"response"`
	}
	// TurnMessages: a turn and its tools are complete. Live.
	TurnMessages struct {
		Purpose     string    `json:"purpose"`
		Message     Message   `json:"message"`
		ToolResults []Message `json:"toolResults,omitempty"`
	}
	// MessageStart and MessageEnd: a message begins to show, and is complete. Live.
	MessageStart struct {
		Message Message `json:"message"`
	}
	// MessageEnd is described at [MessageStart].
	MessageEnd struct {
		Message Message `json:"message"`
	}
	// TextDelta: more text is durable. Live, as all deltas are.
	TextDelta struct {
		Bytes int    `json:"bytes"`
		Text  string `json:"text,omitempty"`
	}
	// ThinkingStart, ThinkingDelta and ThinkingEnd: the same for reasoning.
	ThinkingStart struct {
		ContentIndex int `json:"contentIndex"`
	}
	// ThinkingDelta is described at [ThinkingStart].
	ThinkingDelta struct {
		ContentIndex int    `json:"contentIndex"`
		Bytes        int    `json:"bytes"`
		Delta        string `json:"delta,omitempty"`
	}
	// ThinkingEnd is described at [ThinkingStart].
	ThinkingEnd struct {
		ContentIndex int    `json:"contentIndex"`
		Bytes        int    `json:"bytes"`
		Content      string `json:"content,omitempty"`
	}
	// ToolcallDelta: a model writes the arguments of a call. Live. ToolCallID is the
	// vendor's: that of tool_start is given to a call once it is complete.
	ToolcallDelta struct {
		ToolCallID string `json:"toolCallId"`
		ToolName   string `json:"toolName"`
		Bytes      int    `json:"bytes"`
		Delta      string `json:"argumentTextDelta,omitempty"`
	}

	// ToolStart: the turn that made a call is over, and the call is about to run. Args are
	// content; they are left out if an earlier batch holds them.
	ToolStart struct {
		ToolName   string              `json:"toolName"`
		ToolCallID conversation.CallID `json:"toolCallId"`
		Args       *Content            `json:"args,omitempty"`
	}
	// Tool: a call has its outcome. DurationMs is 0 if no handler ran to its end.
	Tool struct {
		ToolName   string              `json:"toolName"`
		ToolCallID conversation.CallID `json:"toolCallId"`
		IsError    bool                `json:"isError"`
		DurationMs int64               `json:"durationMs"`
		Result     *Content            `json:"result,omitempty"`
	}

	// WaitStart: a call waits for a signal, no longer than Until. Name is chosen by the tool and
	// known to who signals, so it is no content.
	WaitStart struct {
		Name       string              `json:"name"`
		ToolName   string              `json:"toolName"`
		ToolCallID conversation.CallID `json:"toolCallId"`
		Until      conversation.Time   `json:"until"`
	}
	// Wait: a wait has ended, DurationMs after its start. Signal is the submission of
	// [WaitSignal], whose submission_queued has what it said.
	Wait struct {
		Name       string                    `json:"name"`
		ToolName   string                    `json:"toolName"`
		ToolCallID conversation.CallID       `json:"toolCallId"`
		Reason     string                    `json:"reason"`
		Signal     conversation.SubmissionID `json:"signalSubmissionId,omitempty"`
		DurationMs int64                     `json:"durationMs"`
	}

	// Post: an attempt to deliver a post has ended, which took DurationMs, by an Outcome:
	// [PostDelivered], [PostDeferred] or [PostDead]. Attempts counts it. Target is a name, or of a
	// URL the scheme and the host.
	Post struct {
		PostID     conversation.PostID `json:"postId"`
		Target     string              `json:"target"`
		Outcome    string              `json:"outcome"`
		Attempts   int                 `json:"attempts"`
		DurationMs int64               `json:"durationMs"`
	}

	// TaskStart: a subagent begins. It has the operation and the turn of who asked, and
	// the conversation and the session of the subagent.
	TaskStart struct {
		Agent      string              `json:"agent"`
		ToolCallID conversation.CallID `json:"toolCallId,omitempty"`
		Prompt     *Content            `json:"prompt,omitempty"`
	}
	// Task: a subagent has ended. Ids as [TaskStart]. Usage, as that of its [Operation],
	// has no cost: its turns have.
	Task struct {
		Agent      string              `json:"agent"`
		ToolCallID conversation.CallID `json:"toolCallId,omitempty"`
		Outcome    string              `json:"outcome"`
		IsError    bool                `json:"isError"`
		DurationMs int64               `json:"durationMs"`
		Usage      *Usage              `json:"usage,omitempty"`
	}

	// CompactionStart and Compaction: a summary takes the place of the oldest part of what
	// the model is shown. Messages count exchanges.
	CompactionStart struct {
		Reason          string `json:"reason"` // threshold, overflow or manual
		EstimatedTokens int64  `json:"estimatedTokens,omitempty"`
	}
	// Compaction is described at [CompactionStart].
	Compaction struct {
		Reason         string `json:"reason,omitempty"`
		MessagesBefore int    `json:"messagesBefore"`
		MessagesAfter  int    `json:"messagesAfter"`
		DurationMs     int64  `json:"durationMs"`
		IsError        bool   `json:"isError"`
		Error          *Error `json:"error,omitempty"`
		Usage          *Usage `json:"usage,omitempty"`
	}

	// Log: the runtime or an author tells people something. Level is info, warn or error.
	// Live, except for [LogTreeCounted].
	Log struct {
		Level      string         `json:"level"`
		Message    string         `json:"message"`
		Attributes map[string]any `json:"attributes,omitempty"`
	}
)
