package conversation

import "encoding/json"

// RecordType is the name of a record type in the durable log. Names are never reused.
type RecordType string

// The record types. "Must" means that a node that does not know the type may not skip it; see [Must].
const (
	TypeConversationCreated RecordType = "conversation_created"
	TypeSubmissionAdmitted  RecordType = "submission_admitted"
	TypeAttemptStarted      RecordType = "attempt_started"
	TypeAttemptReleased     RecordType = "attempt_released"
	TypeResponseStarted     RecordType = "response_started"
	TypeDelta               RecordType = "delta"
	TypePartDone            RecordType = "part_done"
	TypeToolCalled          RecordType = "tool_called"
	TypeToolSettled         RecordType = "tool_settled"
	TypeStepCompleted       RecordType = "step_completed"
	TypeDataWritten         RecordType = "data_written"
	TypeMetadataMerged      RecordType = "metadata_merged"
	TypeAdvisory            RecordType = "advisory"
	TypeAbortRequested      RecordType = "abort_requested"
	TypeTreeCounted         RecordType = "tree_counted"
	TypeSubmissionSettled   RecordType = "submission_settled"
	TypeStepDropped         RecordType = "step_dropped"
	TypeCompacted           RecordType = "compacted"
	TypeStateWritten        RecordType = "state_written"
	TypeStepRecorded        RecordType = "step_recorded"
	TypeSuspended           RecordType = "parked"
	TypeHookDone            RecordType = "hook_done"
	TypeChildStarted        RecordType = "child_started"
	TypeChildSettled        RecordType = "child_settled"
	TypeConversationDeleted RecordType = "conversation_deleted"
	TypePartSigned          RecordType = "part_signed"
	TypeRetryScheduled      RecordType = "retry_scheduled"
	TypeImagesRefused       RecordType = "images_refused"
	TypeOutputStored        RecordType = "output_stored"
	TypeWaitStarted         RecordType = "wait_started"
	TypeWaitEnded           RecordType = "wait_ended"
	TypeSignalKept          RecordType = "signal_kept"
	TypeOvertook            RecordType = "overtook"
	TypeReplyPending        RecordType = "reply_pending"
	TypeKeyKept             RecordType = "key_kept"
	TypeRunStarted          RecordType = "run_started"
	TypeReplySent           RecordType = "reply_sent"
	TypeNoticeAsked         RecordType = "notice_asked"
	TypePostEnqueued        RecordType = "post_enqueued"
	TypePostDeferred        RecordType = "post_deferred"
	TypePostDone            RecordType = "post_done"
	TypeReplyAddressed      RecordType = "reply_addressed"
)

// Record is one immutable fact of a conversation.
type Record interface {
	// Type returns the record's name on the log.
	Type() RecordType
}

// PartKind is the kind of streamed text.
type PartKind string

// The kinds of streamed text.
const (
	PartText      PartKind = "text"
	PartReasoning PartKind = "reasoning"
)

// Outcome is how a submission ended.
type Outcome string

// The outcomes of a submission.
const (
	OutcomeCompleted Outcome = "completed"
	OutcomeFailed    Outcome = "failed"
	OutcomeAborted   Outcome = "aborted"
)

// Display is a visibility hint for a message.
type Display string

// The displays: primary chat, internals, activity panel.
const (
	DisplayVisible    Display = "visible"
	DisplayHidden     Display = "hidden"
	DisplayDiagnostic Display = "diagnostic"
)

// Hook names an author's hook whose end is recorded.
type Hook string

// The hooks of [HookDone].
const (
	// HookDeliveryStarted runs for a delivery before its first model call.
	HookDeliveryStarted Hook = "delivery_started"
	// HookContinued continues a response after the model wanted to stop.
	HookContinued Hook = "continued"
)

// ReasonTimer is the reason of a [Suspended] submission that waits only for a time.
const ReasonTimer = "timer"

// ReasonInterrupted is the stop reason of a turn closed by recovery.
const ReasonInterrupted = "interrupted"

// ReasonHandover is the reason of a turn that ended because its node drained. It appears in events.
// The record of such a turn has [ReasonInterrupted], followed in its batch by an AttemptStarted after
// a pause.
const ReasonHandover = "handover"

// CompactionReason is the reason for a compaction.
type CompactionReason string

// The reasons for a compaction: the context came near the model's window, the model rejected it as too
// long, or it was requested.
const (
	CompactionThreshold CompactionReason = "threshold"
	CompactionOverflow  CompactionReason = "overflow"
	CompactionManual    CompactionReason = "manual"
)

// WaitEnd is how a wait for a signal ended.
type WaitEnd string

// The ends of a wait.
const (
	EndedBySignal  WaitEnd = "signal"
	EndedByTimeout WaitEnd = "timeout"
)

// Usage counts the tokens of a turn.
type Usage struct {
	Input      int64 `json:"input,omitempty"`
	Output     int64 `json:"output,omitempty"`
	CacheRead  int64 `json:"cacheRead,omitempty"`
	CacheWrite int64 `json:"cacheWrite,omitempty"`
	Reasoning  int64 `json:"reasoning,omitempty"`
	Total      int64 `json:"total,omitempty"`
}

// Add adds the tokens of another call.
func (u *Usage) Add(v Usage) {
	u.Input += v.Input
	u.Output += v.Output
	u.CacheRead += v.CacheRead
	u.CacheWrite += v.CacheWrite
	u.Reasoning += v.Reasoning
	u.Total += v.Total
}

// Price is the cost of model calls, in US dollars.
type Price struct {
	Input      float64 `json:"input,omitempty"`
	Output     float64 `json:"output,omitempty"`
	CacheRead  float64 `json:"cacheRead,omitempty"`
	CacheWrite float64 `json:"cacheWrite,omitempty"`
	Total      float64 `json:"total,omitempty"`
}

// Origin names the submission on whose behalf a record's work is done. Root is the submission of a
// client. Parent is set for a nested subagent: the conversation of the subagent that delegated the
// task. Like other facts repeated from earlier records, it makes events a function of one batch; see
// [State.Complete].
type Origin struct {
	Root   SubmissionID   `json:"root,omitempty"`
	Parent ConversationID `json:"parent,omitempty"`
}

// OpenWait is a wait that is still open after WaitedMs.
type OpenWait struct {
	Name     string `json:"name"`
	WaitedMs int64  `json:"waitedMs,omitempty"`
}

// StoredOutput is an output that is too long for a record: a text of Size bytes, or JSON, which begins
// with Head and ends with Tail. The concatenated Pieces are the whole output. The value is immutable.
type StoredOutput struct {
	Size   int64         `json:"size"`
	Head   string        `json:"head"`
	Tail   string        `json:"tail"`
	Pieces []StoredPiece `json:"pieces"`
}

// StoredPiece is a part of a value, of Size bytes, stored under its digest.
type StoredPiece struct {
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// CallFacts are facts of a model call beyond its outcome. All are optional. Server has no scheme.
type CallFacts struct {
	Provider      string `json:"provider,omitempty"` // the name in telemetry, if it differs from the model's
	API           string `json:"api,omitempty"`
	Server        string `json:"server,omitempty"`
	Port          int    `json:"port,omitempty"`
	Thinking      string `json:"thinking,omitempty"`
	ResponseID    string `json:"responseId,omitempty"`
	ResponseModel string `json:"responseModel,omitempty"`
	Price         *Price `json:"price,omitempty"`
}

// CallName names a tool call and the tool.
type CallName struct {
	Call CallID `json:"call"`
	Name string `json:"name"`
}

// FailedCall is a model call that failed before its first output. No other record has it.
type FailedCall struct {
	Turn       TurnID    `json:"turn"`
	Model      string    `json:"model,omitempty"`
	Facts      CallFacts `json:"facts,omitzero"`
	DurationMs int64     `json:"durationMs,omitempty"`
	Retries    int       `json:"retries,omitempty"`
}

// Started is how the previous attempt ended.
type Started string

// The values of [AttemptStarted].After: there was no attempt before, it ended in an orderly way, or
// its writer was lost.
const (
	AfterNothing Started = ""
	AfterPause   Started = "pause"
	AfterLoss    Started = "loss"
)

// SettlementError is the caller-safe error of a failed or aborted submission. The text is ours and
// never that of a model vendor.
type SettlementError struct {
	Type    Code           `json:"type"`
	Message string         `json:"message"`
	Meta    map[string]any `json:"meta,omitempty"`
}

type (
	// ConversationCreated begins an incarnation of the conversation. InitialData is nil if the
	// creating delivery had none. Stream is the version of its event stream. This version writes only
	// 0, the first.
	ConversationCreated struct {
		Agent          string          `json:"agent"`
		ID             string          `json:"id"`
		UID            UID             `json:"uid"`
		ConversationID ConversationID  `json:"conversationId"`
		InitialData    json.RawMessage `json:"initialData,omitempty"`
		Stream         int             `json:"stream,omitempty"`
		At             Time            `json:"at"`
	}

	// SubmissionAdmitted is the durable acceptance of a delivery, and its message in the transcript.
	// Dispatched is set if code in the process sent it. DispatchDepth and Sender are those of its
	// [Admission]. Channel is the channel that delivered it.
	SubmissionAdmitted struct {
		Submission  SubmissionID `json:"submission"`
		Message     MessageID    `json:"message"`
		Key         string       `json:"key"`
		PayloadHash string       `json:"payloadHash"`
		Delivery    Delivery     `json:"delivery"`
		Trace       Trace        `json:"trace,omitzero"`
		Dispatched  bool         `json:"dispatched,omitempty"`

		DispatchDepth int     `json:"dispatchDepth,omitempty"`
		Sender        *Sender `json:"sender,omitempty"`
		Channel       string  `json:"channel,omitempty"`
		// Tree is the dispatch tree of the submission, nil for none.
		Tree *TreeRef `json:"tree,omitempty"`
		At   Time     `json:"at"`
	}

	// AttemptStarted counts one attempt at a submission. No author code and no model runs before it is
	// durable. QueuedMs is the wall time since the admission, only for the first attempt. LostAt,
	// after a loss, is when the lost writer built its last batch with records. It is 0 if the
	// activation did not read that batch.
	AttemptStarted struct {
		Submission  SubmissionID `json:"submission"`
		Attempt     int          `json:"attempt"`
		MaxAttempts int          `json:"maxAttempts,omitempty"`
		Writer      string       `json:"writer"`
		After       Started      `json:"after,omitempty"`
		QueuedMs    int64        `json:"queuedMs,omitempty"`
		LostAt      Time         `json:"lostAt,omitempty"`
		Dispatched  bool         `json:"dispatched,omitempty"`
		Trace       Trace        `json:"trace,omitzero"`
		At          Time         `json:"at"`
	}

	// AttemptReleased ends an attempt without counting it. ElapsedMs is the monotonic time since its
	// start.
	AttemptReleased struct {
		Submission SubmissionID `json:"submission"`
		Attempt    int          `json:"attempt"`
		Reason     string       `json:"reason"`
		ElapsedMs  int64        `json:"elapsedMs,omitempty"`
		At         Time         `json:"at,omitempty"`
	}

	// ResponseStarted opens a turn of the response. All turns of a submission have the same message;
	// each has its own turn id. Child, here and in other records, is the subagent conversation of the
	// record, which is then hidden from clients. WaitMs is the time from the model call to its first
	// output.
	ResponseStarted struct {
		Origin
		Message    MessageID       `json:"message"`
		Submission SubmissionID    `json:"submission"`
		Child      ConversationID  `json:"child,omitempty"`
		Turn       TurnID          `json:"turn"`
		Model      string          `json:"model,omitempty"`
		Metadata   json.RawMessage `json:"metadata,omitempty"`
		WaitMs     int64           `json:"waitMs,omitempty"`
		At         Time            `json:"at"`
	}

	// Delta is streamed text, coalesced within its batch. No other record stores the text.
	Delta struct {
		Message MessageID      `json:"message"`
		Child   ConversationID `json:"child,omitempty"`
		Kind    PartKind       `json:"kind"`
		Text    string         `json:"text"`
	}

	// PartDone signs the last reasoning part of a turn and leaves it open. A second one replaces the
	// signature. It is no longer written: [PartSigned] replaced it.
	PartDone struct {
		Message   MessageID      `json:"message"`
		Child     ConversationID `json:"child,omitempty"`
		Signature string         `json:"signature"`
	}

	// PartSigned closes and signs the open part of a kind. Without an open part it stands for a part
	// without text. The signature is data that the vendor requires back at this position. If Call is
	// set, it is the signature of that call only. Only the model sees it.
	PartSigned struct {
		Must      bool           `json:"must"`
		Message   MessageID      `json:"message"`
		Child     ConversationID `json:"child,omitempty"`
		Kind      PartKind       `json:"kind,omitempty"`
		Call      CallID         `json:"call,omitempty"`
		Signature string         `json:"signature"`
	}

	// ImagesRefused records that a model's vendor rejected a request and accepted it without these
	// attachments. Later model calls omit them; clients still see them.
	ImagesRefused struct {
		Must        bool           `json:"must"`
		Attachments []AttachmentID `json:"attachments"`
		Model       string         `json:"model,omitempty"`
		At          Time           `json:"at"`
	}

	// OutputStored locates the whole output of a call whose outcome, in the same batch, has only a
	// part. Clients see only the outcome.
	OutputStored struct {
		Must  bool           `json:"must"`
		Call  CallID         `json:"call"`
		Child ConversationID `json:"child,omitempty"`
		StoredOutput
	}

	// ToolCalled is a complete call of the model. ProviderCall is the vendor's id of the call. Durable
	// is set if the call may be run again with its recorded steps.
	ToolCalled struct {
		Origin
		Message      MessageID       `json:"message"`
		Child        ConversationID  `json:"child,omitempty"`
		Call         CallID          `json:"call"`
		ProviderCall string          `json:"providerCall,omitempty"`
		Name         string          `json:"name"`
		Input        json.RawMessage `json:"input"`
		Durable      bool            `json:"durable,omitempty"`
		Turn         TurnID          `json:"turn,omitempty"`
		At           Time            `json:"at"`
	}

	// ToolSettled is the single outcome of a call: Output, or ErrorText if Failed. DurationMs is the
	// handler's time, nil if the handler did not finish. Attachments are images of the output.
	// Terminate requests the end of the response if all calls of the turn do. Waits are those that end
	// with the call.
	ToolSettled struct {
		Origin
		Call        CallID          `json:"call"`
		Child       ConversationID  `json:"child,omitempty"`
		Name        string          `json:"name,omitempty"`
		Turn        TurnID          `json:"turn,omitempty"`
		Waits       []OpenWait      `json:"waits,omitempty"`
		Output      json.RawMessage `json:"output,omitempty"`
		Attachments []Attachment    `json:"attachments,omitempty"`
		Terminate   bool            `json:"terminate,omitempty"`
		Failed      bool            `json:"failed,omitempty"`
		ErrorText   string          `json:"errorText,omitempty"`
		DurationMs  *int64          `json:"durationMs,omitempty"`
		ElapsedMs   int64           `json:"elapsedMs,omitempty"`
		At          Time            `json:"at"`
	}

	// StepCompleted closes a turn. ElapsedMs is the monotonic time since the start of its attempt.
	// DurationMs is that of its model call, and WaitMs the time before its first output. Retries
	// counts the failed calls that it repeats. Calls are the turn's calls, which run next.
	StepCompleted struct {
		Origin
		Message    MessageID      `json:"message"`
		Child      ConversationID `json:"child,omitempty"`
		Turn       TurnID         `json:"turn"`
		StopReason string         `json:"stopReason"`
		Usage      Usage          `json:"usage,omitzero"`
		Model      string         `json:"model,omitempty"`
		Facts      CallFacts      `json:"facts,omitzero"`
		DurationMs int64          `json:"durationMs,omitempty"`
		WaitMs     int64          `json:"waitMs,omitempty"`
		Retries    int            `json:"retries,omitempty"`
		Calls      []CallName     `json:"calls,omitempty"`
		ElapsedMs  int64          `json:"elapsedMs,omitempty"`
		At         Time           `json:"at"`
	}

	// DataWritten sets the named data part of a response. The first write of a name appends the part.
	DataWritten struct {
		Message MessageID       `json:"message"`
		Name    string          `json:"name"`
		Data    json.RawMessage `json:"data"`
	}

	// MetadataMerged merges an object deeply into a response's metadata.
	MetadataMerged struct {
		Message  MessageID       `json:"message"`
		Metadata json.RawMessage `json:"metadata"`
	}

	// Advisory is a message of the runtime.
	Advisory struct {
		Message    MessageID         `json:"message"`
		Child      ConversationID    `json:"child,omitempty"`
		Submission SubmissionID      `json:"submission,omitempty"`
		TagName    string            `json:"tagName,omitempty"`
		Attributes map[string]string `json:"attributes,omitempty"`
		Text       string            `json:"text"`
		Display    Display           `json:"display"`
	}

	// AbortRequested is the durable intent to abort the covered submissions. Trees closes the dispatch
	// trees that began in the conversation, and those that its submissions could begin.
	AbortRequested struct {
		Submissions []SubmissionID `json:"submissions"`
		Trees       bool           `json:"trees,omitempty"`
		At          Time           `json:"at"`
	}

	// SubmissionSettled is the single terminal outcome of a submission. ElapsedMs is the sum of its
	// attempts, AttemptMs that of the current one, TotalMs the wall time since the admission.
	// AdmissionMs is how long the sender waited for the receipt, at least 1. If it still waits, it is
	// the time so far; 0 means that another writer admitted it. Began is set if there was an attempt,
	// and Open if one is running. Lost is set if the writer of that one was lost, at LostAt as in
	// [AttemptStarted].
	SubmissionSettled struct {
		Submission  SubmissionID     `json:"submission"`
		Outcome     Outcome          `json:"outcome"`
		Error       *SettlementError `json:"error,omitempty"`
		ElapsedMs   int64            `json:"elapsedMs,omitempty"`
		AttemptMs   int64            `json:"attemptMs,omitempty"`
		TotalMs     int64            `json:"totalMs,omitempty"`
		AdmissionMs int64            `json:"admissionMs,omitempty"`
		Attempts    int              `json:"attempts,omitempty"`
		Began       bool             `json:"began,omitempty"`
		Open        bool             `json:"open,omitempty"`
		Lost        bool             `json:"lost,omitempty"`
		LostAt      Time             `json:"lostAt,omitempty"`
		Dispatched  bool             `json:"dispatched,omitempty"`
		Unheard     *FailedCall      `json:"unheard,omitempty"`
		At          Time             `json:"at"`
	}

	// StepDropped withdraws a turn from the transcript. Reason is the failure class.
	StepDropped struct {
		Origin
		Message    MessageID      `json:"message"`
		Child      ConversationID `json:"child,omitempty"`
		Turn       TurnID         `json:"turn"`
		Model      string         `json:"model,omitempty"`
		Facts      CallFacts      `json:"facts,omitzero"`
		Reason     string         `json:"reason,omitempty"`
		DurationMs int64          `json:"durationMs,omitempty"`
		Retries    int            `json:"retries,omitempty"`
		At         Time           `json:"at,omitempty"`
	}

	// Compacted replaces the model's view of everything before FirstKept by a summary. Before counts
	// the summarized exchanges. Turns of FirstKept before FirstTurn are part of the summary; an empty
	// FirstTurn keeps all of them. The transcript is unchanged. After counts the exchanges that are
	// kept. Tokens estimates the model's input before. Detached is set if the work for which it was
	// made had ended.
	Compacted struct {
		Origin
		Child      ConversationID   `json:"child,omitempty"`
		Summary    string           `json:"summary"`
		FirstKept  SubmissionID     `json:"firstKept"`
		FirstTurn  TurnID           `json:"firstTurn,omitempty"`
		Before     int              `json:"before,omitempty"`
		Reason     CompactionReason `json:"reason,omitempty"`
		Model      string           `json:"model,omitempty"`
		Usage      Usage            `json:"usage,omitzero"`
		Turn       TurnID           `json:"turn,omitempty"`
		Facts      CallFacts        `json:"facts,omitzero"`
		Tokens     int64            `json:"tokens,omitempty"`
		After      int              `json:"after,omitempty"`
		DurationMs int64            `json:"durationMs,omitempty"`
		Detached   bool             `json:"detached,omitempty"`
		At         Time             `json:"at"`
	}

	// StateWritten sets one key of the author's persistent state; null removes it.
	StateWritten struct {
		Key   string          `json:"key"`
		Value json.RawMessage `json:"value"`
	}

	// StepRecorded is the result of a named step of a durable tool.
	StepRecorded struct {
		Call   CallID          `json:"call"`
		Name   string          `json:"name"`
		Output json.RawMessage `json:"output"`
	}

	// Suspended ends an attempt without counting it. The submission waits until a time, and nothing of
	// it runs. ElapsedMs is the monotonic time since the start of its attempt.
	Suspended struct {
		Submission SubmissionID `json:"submission"`
		Until      Time         `json:"until,omitempty"`
		Reason     string       `json:"reason"`
		ElapsedMs  int64        `json:"elapsedMs,omitempty"`
		At         Time         `json:"at,omitempty"`
	}

	// HookDone records that a hook has finished for a submission.
	HookDone struct {
		Submission SubmissionID `json:"submission"`
		Hook       Hook         `json:"hook"`
	}

	// ChildStarted opens a subagent conversation on behalf of a call. Its work is the named hidden
	// submission, which is never settled by itself.
	ChildStarted struct {
		Origin
		Child      ConversationID `json:"child"`
		Submission SubmissionID   `json:"submission"`
		Call       CallID         `json:"call"`
		Agent      string         `json:"agent"`
		Prompt     string         `json:"prompt"`
		Turn       TurnID         `json:"turn,omitempty"`
		At         Time           `json:"at"`
	}

	// ChildSettled ends a subagent conversation. Its usage sums all its turns.
	ChildSettled struct {
		Origin
		Child      ConversationID `json:"child"`
		Outcome    Outcome        `json:"outcome"`
		Usage      Usage          `json:"usage,omitzero"`
		Agent      string         `json:"agent,omitempty"`
		Call       CallID         `json:"call,omitempty"`
		Submission SubmissionID   `json:"submission,omitempty"`
		Turn       TurnID         `json:"turn,omitempty"`
		DurationMs int64          `json:"durationMs,omitempty"`
		Unheard    *FailedCall    `json:"unheard,omitempty"`
		At         Time           `json:"at"`
	}

	// RetryScheduled defers the model call of a submission, or of its subagent, until a time. Until
	// then nothing of it runs; see [Suspended]. Rounds counts how often all its models have failed.
	// Unhinted counts the rounds without a retry delay from a vendor. WaitedMs sums the delays that
	// vendors requested.
	RetryScheduled struct {
		Must               bool           `json:"must"`
		Submission         SubmissionID   `json:"submission"`
		Child              ConversationID `json:"child,omitempty"`
		Model              string         `json:"model"`
		Reason             string         `json:"reason"`
		Until              Time           `json:"until"`
		Rounds             int            `json:"rounds"`
		RoundsWithoutDelay int            `json:"blind,omitempty"`
		WaitedMs           int64          `json:"waitedMs"`
		At                 Time           `json:"at"`
	}

	// WaitStarted begins a wait of a durable tool's call for a named signal, with a deadline. The
	// received value conforms to Schema. Dropped is a signal kept for the name that does not.
	WaitStarted struct {
		Must bool `json:"must"`
		Origin
		Call    CallID          `json:"call"`
		Child   ConversationID  `json:"child,omitempty"`
		Tool    string          `json:"tool,omitempty"`
		Turn    TurnID          `json:"turn,omitempty"`
		Name    string          `json:"name"`
		Schema  json.RawMessage `json:"schema"`
		Until   Time            `json:"until"`
		Dropped SubmissionID    `json:"dropped,omitempty"`
		At      Time            `json:"at"`
	}

	// WaitEnded ends a wait. [EndedBySignal] has the value of a signal, which was kept or is in the
	// same batch. WaitedMs is the time since the start of the wait.
	WaitEnded struct {
		Must bool `json:"must"`
		Origin
		Call     CallID          `json:"call"`
		Child    ConversationID  `json:"child,omitempty"`
		Tool     string          `json:"tool,omitempty"`
		Turn     TurnID          `json:"turn,omitempty"`
		Name     string          `json:"name"`
		Reason   WaitEnd         `json:"reason"`
		Signal   SubmissionID    `json:"signal,omitempty"`
		Value    json.RawMessage `json:"value,omitempty"`
		WaitedMs int64           `json:"waitedMs,omitempty"`
		At       Time            `json:"at"`
	}

	// Overtook lets a submission run before earlier ones that are not settled; all of those are
	// suspended. Its first attempt begins in the same batch.
	Overtook struct {
		Must       bool         `json:"must"`
		Submission SubmissionID `json:"submission"`
	}

	// ReplyPending names the recipient of the reply to a submission admitted in the same batch.
	ReplyPending struct {
		Must       bool         `json:"must"`
		Submission SubmissionID `json:"submission"`
		To         ReplyTo      `json:"to"`
	}

	// RunStarted marks a submission, admitted in the same batch, as a run: a function executes it, and
	// its delivery is the function's input.
	RunStarted struct {
		Must       bool         `json:"must"`
		Submission SubmissionID `json:"submission"`
		At         Time         `json:"at"`
	}

	// KeyKept extends the retention of the idempotency key of a submission admitted in the same batch.
	// The key is kept at least until the given time, if space permits.
	KeyKept struct {
		Must       bool         `json:"must"`
		Submission SubmissionID `json:"submission"`
		Until      Time         `json:"until"`
	}

	// ReplySent ends a pending reply: its recipient has it, or has ended.
	ReplySent struct {
		Must       bool         `json:"must"`
		Submission SubmissionID `json:"submission"`
		At         Time         `json:"at"`
	}

	// SignalKept keeps a signal for a name without a wait. The signal's admission and settlement are
	// in the same batch.
	SignalKept struct {
		Must       bool         `json:"must"`
		Submission SubmissionID `json:"submission"`
		Name       string       `json:"name"`
		Body       string       `json:"body"`
		At         Time         `json:"at"`
	}

	// ConversationDeleted ends an incarnation. A new one continues at the next offset.
	ConversationDeleted struct {
		At Time `json:"at"`
	}

	// Unknown is a record of a type that this version does not know and may skip. Line is the JSON
	// object as read.
	Unknown struct {
		Name RecordType
		Line json.RawMessage
	}
)

// Address returns the address of the conversation.
func (r *ConversationCreated) Address() Address { return Address{Agent: r.Agent, ID: r.ID} }

// Type implements [Record].
func (*ConversationCreated) Type() RecordType { return TypeConversationCreated }

// Type implements [Record].
func (*SubmissionAdmitted) Type() RecordType { return TypeSubmissionAdmitted }

// Type implements [Record].
func (*AttemptStarted) Type() RecordType { return TypeAttemptStarted }

// Type implements [Record].
func (*AttemptReleased) Type() RecordType { return TypeAttemptReleased }

// Type implements [Record].
func (*ResponseStarted) Type() RecordType { return TypeResponseStarted }

// Type implements [Record].
func (*Delta) Type() RecordType { return TypeDelta }

// Type implements [Record].
func (*PartDone) Type() RecordType { return TypePartDone }

// Type implements [Record].
func (*PartSigned) Type() RecordType { return TypePartSigned }

// Type implements [Record].
func (*RetryScheduled) Type() RecordType { return TypeRetryScheduled }

// Type implements [Record].
func (*ImagesRefused) Type() RecordType { return TypeImagesRefused }

// Type implements [Record].
func (*OutputStored) Type() RecordType { return TypeOutputStored }

// Type implements [Record].
func (*WaitStarted) Type() RecordType { return TypeWaitStarted }

// Type implements [Record].
func (*WaitEnded) Type() RecordType { return TypeWaitEnded }

// Type implements [Record].
func (*SignalKept) Type() RecordType { return TypeSignalKept }

func (*Overtook) Type() RecordType { return TypeOvertook }

func (*ReplyPending) Type() RecordType { return TypeReplyPending }

// Type implements Record.
func (*KeyKept) Type() RecordType { return TypeKeyKept }

// Type implements [Record].
func (*RunStarted) Type() RecordType { return TypeRunStarted }

func (*ReplySent) Type() RecordType { return TypeReplySent }

// Type implements [Record].
func (*ToolCalled) Type() RecordType { return TypeToolCalled }

// Type implements [Record].
func (*ToolSettled) Type() RecordType { return TypeToolSettled }

// Type implements [Record].
func (*StepCompleted) Type() RecordType { return TypeStepCompleted }

// Type implements [Record].
func (*DataWritten) Type() RecordType { return TypeDataWritten }

// Type implements [Record].
func (*MetadataMerged) Type() RecordType { return TypeMetadataMerged }

// Type implements [Record].
func (*Advisory) Type() RecordType { return TypeAdvisory }

// Type implements [Record].
func (*AbortRequested) Type() RecordType { return TypeAbortRequested }

// Type implements [Record].
func (*SubmissionSettled) Type() RecordType { return TypeSubmissionSettled }

// Type implements [Record].
func (*StepDropped) Type() RecordType { return TypeStepDropped }

// Type implements [Record].
func (*Compacted) Type() RecordType { return TypeCompacted }

// Type implements [Record].
func (*StateWritten) Type() RecordType { return TypeStateWritten }

// Type implements [Record].
func (*StepRecorded) Type() RecordType { return TypeStepRecorded }

// Type implements [Record].
func (*Suspended) Type() RecordType { return TypeSuspended }

// Type implements [Record].
func (*HookDone) Type() RecordType { return TypeHookDone }

// Type implements [Record].
func (*ChildStarted) Type() RecordType { return TypeChildStarted }

// Type implements [Record].
func (*ChildSettled) Type() RecordType { return TypeChildSettled }

// Type implements [Record].
func (*ConversationDeleted) Type() RecordType { return TypeConversationDeleted }

// Type implements [Record].
func (u *Unknown) Type() RecordType { return u.Name }
