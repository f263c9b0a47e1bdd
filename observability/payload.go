package observability

import (
	"encoding/json"

	"github.com/parleyrun/parley/conversation"
)

// Types and values of payload fields. Durations are milliseconds, costs US dollars. Content is text of
// people, models or tools. It is empty unless content is enabled for the agent, and has a size limit;
// a byte count next to it gives the original size.
type (
	// Error describes a failure, without a stack and without text of a vendor.
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

	// ModelRequest describes the request to a model. Provider and Name are the names in the
	// configuration and in OpenTelemetry. Messages and Tools count the model's input, in turn_request
	// only. Input is that input, as content; InputTruncated reports truncation.
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

	// ModelResponse describes the end of a model call. FinishReason is stop, length, toolUse,
	// content_filter, error, or one that is not the model's: see [Turn.CutOff].
	ModelResponse struct {
		ID           string `json:"responseId,omitempty"`
		Model        string `json:"responseModel,omitempty"`
		Usage        *Usage `json:"usage,omitempty"`
		FinishReason string `json:"finishReason,omitempty"`
		Error        *Error `json:"error,omitempty"`
	}

	// Message is a message of the transcript. Role is user, assistant or toolResult. Text is content;
	// Bytes is its original size.
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

	// Content is text or JSON: its size and, if content is enabled, its value up to a limit.
	Content struct {
		Bytes     int    `json:"bytes"`
		Text      string `json:"text,omitempty"`
		Truncated bool   `json:"truncated,omitempty"`
	}
)

// Values of Kind, of a submission: its sender.
const (
	KindDirect   = "direct"   // an HTTP request
	KindDispatch = "dispatch" // code in the process
)

// Values of OperationKind.
const (
	OperationPrompt  = "prompt"
	OperationTask    = "task"
	OperationCompact = "compact"
)

// Values of Purpose, of a turn.
const (
	PurposeAgent      = "agent"
	PurposeCompaction = "compaction"
)

// LogCallFailed is the message of the log of a failed model call. Its attributes are "model", "reason"
// and, where prompts are kept, "cause", the text of the vendor. It is the only event of a call that
// failed without output and is retried.
const LogCallFailed = "model call failed"

// LogTreeCounted is the message of the durable log of a new member or cost of a dispatch tree. It
// belongs to the submission that began the tree. Its attributes are agent, id and key of the member,
// submissions and dollars, the usage of the tree in 24 hours, and maxSubmissions and maxDollars, its
// limits, absent if none.
const LogTreeCounted = "tree counted"

// Values of Reason, of agent_end: the end of a run of the agent loop.
const (
	EndSettled   = "settled"
	EndReleased  = "released" // handed to another node
	EndSuspended = "parked"   // suspended until a time
	EndLost      = "lost"     // its process crashed or its writer was fenced
)

// Values of Reason, of wait: the cause of its end.
const (
	WaitSignal    = string(conversation.EndedBySignal)
	WaitTimeout   = string(conversation.EndedByTimeout)
	WaitAbandoned = "abandoned" // the call has an outcome without it
)

// Values of Outcome, of post.
const (
	PostDelivered = string(conversation.PostDelivered)
	PostDead      = string(conversation.PostDead) // dead letter
	PostDeferred  = "deferred"                    // retried later
)

// Values of Operation and Outcome, of submission_recovery.
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
	// SubmissionQueued reports that a submission is durably admitted. Trace is the W3C context of its
	// request.
	SubmissionQueued struct {
		Kind        string   `json:"kind"`
		MessageKind string   `json:"messageKind,omitempty"` // user or signal
		Attachments int      `json:"attachments,omitempty"`
		Traceparent string   `json:"traceparent,omitempty"`
		Tracestate  string   `json:"tracestate,omitempty"`
		Body        *Content `json:"body,omitempty"`
	}
	// SubmissionRunning reports the start of an attempt. QueuedMs is the wall time since the
	// admission, for the first attempt only; later ones are Resumed.
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
	// SubmissionRecovery reports that work was interrupted, and the recovery chosen.
	SubmissionRecovery struct {
		Operation   string `json:"operation"`
		Outcome     string `json:"outcome"`
		Attempt     int    `json:"attemptCount,omitempty"`
		MaxAttempts int    `json:"maxAttempts,omitempty"`
		Fenced      bool   `json:"fenced,omitempty"` // another writer took the log
		Error       *Error `json:"error,omitempty"`
	}
	// SubmissionSettled reports the outcome of a submission. WorkMs is the time of its attempts,
	// TotalMs the wall time since its admission. AdmissionMs is how long its sender waited for the
	// receipt at the conversation's owner, so far if the outcome came first. It is at least 1, or 0 if
	// unknown, because the conversation was passivated or taken over after the admission.
	SubmissionSettled struct {
		Kind        string `json:"kind"`
		Outcome     string `json:"outcome"` // completed, failed or aborted
		Attempt     int    `json:"attemptCount"`
		WorkMs      int64  `json:"workMs"`
		TotalMs     int64  `json:"totalMs"`
		AdmissionMs int64  `json:"admissionMs,omitempty"`
		Error       *Error `json:"error,omitempty"`
	}

	// OperationStart reports the start of the work on a submission or task, with its first attempt.
	OperationStart struct {
		Kind string `json:"operationKind"`
	}
	// Operation reports the end of the work that [OperationStart] began.
	Operation struct {
		Kind       string `json:"operationKind"`
		DurationMs int64  `json:"durationMs"`
		IsError    bool   `json:"isError"`
		Error      *Error `json:"error,omitempty"`
		Usage      *Usage `json:"usage,omitempty"` // of a task
	}

	// AgentStart reports the start of a run of the agent loop, one per attempt.
	AgentStart struct {
		Attempt int `json:"attemptCount,omitempty"`
	}
	// AgentEnd reports the end of a run of the agent loop. DurationMs is 0 if unknown.
	AgentEnd struct {
		Reason     string `json:"reason"`
		DurationMs int64  `json:"durationMs,omitempty"`
	}
	// Idle reports that an operation is over.
	Idle struct{}

	// TurnStart reports that a model has begun to answer.
	TurnStart struct {
		Purpose string `json:"purpose"`
		Model   string `json:"model,omitempty"` // provider/model
	}
	// TurnRequest reports that a model is about to be called. Live.
	TurnRequest struct {
		Purpose string       `json:"purpose"`
		Request ModelRequest `json:"request"`
	}
	// Turn reports the end of a model call. DurationMs is 0 if its process crashed. FirstTokenMs is
	// the time to its first output. Dropped reports that the call is retried and its output, if any,
	// withdrawn; Retries counts the failed calls that it repeats. Every turn_request has its turn,
	// which is live if the call ended without output and is retried, or its work ended first.
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
	// TurnMessages reports that a turn and its tools are complete. Live.
	TurnMessages struct {
		Purpose     string    `json:"purpose"`
		Message     Message   `json:"message"`
		ToolResults []Message `json:"toolResults,omitempty"`
	}
	// MessageStart reports that a message begins to appear. Live.
	MessageStart struct {
		Message Message `json:"message"`
	}
	// MessageEnd reports that the message of [MessageStart] is complete. Live.
	MessageEnd struct {
		Message Message `json:"message"`
	}
	// TextDelta reports more durable text. Live, as all deltas are.
	TextDelta struct {
		Bytes int    `json:"bytes"`
		Text  string `json:"text,omitempty"`
	}
	// ThinkingStart reports the start of reasoning.
	ThinkingStart struct {
		ContentIndex int `json:"contentIndex"`
	}
	// ThinkingDelta reports more durable reasoning.
	ThinkingDelta struct {
		ContentIndex int    `json:"contentIndex"`
		Bytes        int    `json:"bytes"`
		Delta        string `json:"delta,omitempty"`
	}
	// ThinkingEnd reports the end of reasoning.
	ThinkingEnd struct {
		ContentIndex int    `json:"contentIndex"`
		Bytes        int    `json:"bytes"`
		Content      string `json:"content,omitempty"`
	}
	// ToolcallDelta reports more arguments of a call. Live. ToolCallID is the vendor's; the id in
	// tool_start is assigned to a complete call.
	ToolcallDelta struct {
		ToolCallID string `json:"toolCallId"`
		ToolName   string `json:"toolName"`
		Bytes      int    `json:"bytes"`
		Delta      string `json:"argumentTextDelta,omitempty"`
	}

	// ToolStart reports that a call is about to run, after the turn that made it. Args are content,
	// omitted if an earlier batch holds them.
	ToolStart struct {
		ToolName   string              `json:"toolName"`
		ToolCallID conversation.CallID `json:"toolCallId"`
		Args       *Content            `json:"args,omitempty"`
	}
	// Tool reports the outcome of a call. DurationMs is 0 if no handler ran to its end.
	Tool struct {
		ToolName   string              `json:"toolName"`
		ToolCallID conversation.CallID `json:"toolCallId"`
		IsError    bool                `json:"isError"`
		DurationMs int64               `json:"durationMs"`
		Result     *Content            `json:"result,omitempty"`
	}

	// WaitStart reports that a call waits for a signal, at most until Until. Name is chosen by the
	// tool and known to the sender of the signal, so it is not content.
	WaitStart struct {
		Name       string              `json:"name"`
		ToolName   string              `json:"toolName"`
		ToolCallID conversation.CallID `json:"toolCallId"`
		Until      conversation.Time   `json:"until"`
	}
	// Wait reports the end of a wait, DurationMs after its start. Signal is the submission of
	// [WaitSignal], whose submission_queued has the content.
	Wait struct {
		Name       string                    `json:"name"`
		ToolName   string                    `json:"toolName"`
		ToolCallID conversation.CallID       `json:"toolCallId"`
		Reason     string                    `json:"reason"`
		Signal     conversation.SubmissionID `json:"signalSubmissionId,omitempty"`
		DurationMs int64                     `json:"durationMs"`
	}

	// Post reports an attempt to deliver a post, its duration DurationMs and its Outcome:
	// [PostDelivered], [PostDeferred] or [PostDead]. Attempts counts it. Target is a name, or scheme
	// and host of a URL.
	Post struct {
		PostID     conversation.PostID `json:"postId"`
		Target     string              `json:"target"`
		Outcome    string              `json:"outcome"`
		Attempts   int                 `json:"attempts"`
		DurationMs int64               `json:"durationMs"`
	}

	// TaskStart reports the start of a subagent. It has the operation and the turn of the caller, and
	// the conversation and session of the subagent.
	TaskStart struct {
		Agent      string              `json:"agent"`
		ToolCallID conversation.CallID `json:"toolCallId,omitempty"`
		Prompt     *Content            `json:"prompt,omitempty"`
	}
	// Task reports the end of a subagent, with the ids of [TaskStart]. Its Usage has no cost, like
	// that of its [Operation], because its turns have.
	Task struct {
		Agent      string              `json:"agent"`
		ToolCallID conversation.CallID `json:"toolCallId,omitempty"`
		Outcome    string              `json:"outcome"`
		IsError    bool                `json:"isError"`
		DurationMs int64               `json:"durationMs"`
		Usage      *Usage              `json:"usage,omitempty"`
	}

	// CompactionStart reports that a summary is to replace the oldest part of the model's input.
	// Messages count exchanges.
	CompactionStart struct {
		Reason          string `json:"reason"` // threshold, overflow or manual
		EstimatedTokens int64  `json:"estimatedTokens,omitempty"`
	}
	// Compaction reports the end of the compaction that [CompactionStart] began.
	Compaction struct {
		Reason         string `json:"reason,omitempty"`
		MessagesBefore int    `json:"messagesBefore"`
		MessagesAfter  int    `json:"messagesAfter"`
		DurationMs     int64  `json:"durationMs"`
		IsError        bool   `json:"isError"`
		Error          *Error `json:"error,omitempty"`
		Usage          *Usage `json:"usage,omitempty"`
	}

	// Log is a message of the runtime or an author. Level is info, warn or error. Live, except for
	// [LogTreeCounted].
	Log struct {
		Level      string         `json:"level"`
		Message    string         `json:"message"`
		Attributes map[string]any `json:"attributes,omitempty"`
	}
)
