package conversation

import "encoding/json"

// RecordType names a record on the durable log. Names are never reused.
type RecordType string

// The record table. "Must" is the answer to: may a node that does not know this
// type skip it? See [Must].
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

// The two kinds of streamed text.
const (
	PartText      PartKind = "text"
	PartReasoning PartKind = "reasoning"
)

// Outcome is how a submission ended.
type Outcome string

// The three outcomes.
const (
	OutcomeCompleted Outcome = "completed"
	OutcomeFailed    Outcome = "failed"
	OutcomeAborted   Outcome = "aborted"
)

// Display is a visibility hint for a message.
type Display string

// The three displays: primary chat, plumbing, activity-panel material.
const (
	DisplayVisible    Display = "visible"
	DisplayHidden     Display = "hidden"
	DisplayDiagnostic Display = "diagnostic"
)

// Hook names a hook of an author whose end is recorded.
type Hook string

// The hooks of [HookDone].
const (
	// HookDeliveryStarted is shown a delivery before the first model call for it.
	HookDeliveryStarted Hook = "delivery_started"
	// HookContinued has asked for more after the model wanted to stop.
	HookContinued Hook = "continued"
)

// ReasonTimer is the reason of a [Suspended] submission that waits for a time alone.
const ReasonTimer = "timer"

// ReasonInterrupted is the stop reason of a turn that was closed by recovery.
const ReasonInterrupted = "interrupted"

// ReasonHandover is the reason of a turn that ended because its node drained. Events have
// it; the record of such a turn has [ReasonInterrupted], and an AttemptStarted after a pause
// follows in its batch.
const ReasonHandover = "handover"

// CompactionReason says why a history was compacted.
type CompactionReason string

// The three reasons: the context came near the model's window, the model refused it
// as too long, or somebody asked for it.
const (
	CompactionThreshold CompactionReason = "threshold"
	CompactionOverflow  CompactionReason = "overflow"
	CompactionManual    CompactionReason = "manual"
)

// WaitEnd says what has ended a wait for a signal.
type WaitEnd string

// The two ends of a wait.
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

// Price is what model calls have cost, in US dollars.
type Price struct {
	Input      float64 `json:"input,omitempty"`
	Output     float64 `json:"output,omitempty"`
	CacheRead  float64 `json:"cacheRead,omitempty"`
	CacheWrite float64 `json:"cacheWrite,omitempty"`
	Total      float64 `json:"total,omitempty"`
}

// Origin says for whom a record's work is done: Root is the submission of a client,
// and Parent, of a subagent of a subagent, the conversation of who asked. Like other
// facts that stand in earlier records too, it makes events a function of one batch; see
// [State.Complete].
type Origin struct {
	Root   SubmissionID   `json:"root,omitempty"`
	Parent ConversationID `json:"parent,omitempty"`
}

// OpenWait is a wait that nothing has ended, after WaitedMs.
type OpenWait struct {
	Name     string `json:"name"`
	WaitedMs int64  `json:"waitedMs,omitempty"`
}

// StoredOutput is an output that is too long for a record: a text of Size bytes, or JSON,
// which begins with Head and ends with Tail. Pieces stand one after the other and are all of
// it. It is not changed.
type StoredOutput struct {
	Size   int64         `json:"size"`
	Head   string        `json:"head"`
	Tail   string        `json:"tail"`
	Pieces []StoredPiece `json:"pieces"`
}

// StoredPiece is a part of a value, of Size bytes, that is stored under its digest.
type StoredPiece struct {
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// CallFacts are what is known of a model call beyond its outcome. All are optional.
// Server has no scheme.
type CallFacts struct {
	Provider      string `json:"provider,omitempty"` // as telemetry names it, if not as the model does
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

// FailedCall is a model call that ended without a word: nothing else records it.
type FailedCall struct {
	Turn       TurnID    `json:"turn"`
	Model      string    `json:"model,omitempty"`
	Facts      CallFacts `json:"facts,omitzero"`
	DurationMs int64     `json:"durationMs,omitempty"`
	Retries    int       `json:"retries,omitempty"`
}

// Started says what an attempt follows.
type Started string

// The values of [AttemptStarted].After: nothing, an attempt that was put away in an
// orderly way, or one whose writer did not end it.
const (
	AfterNothing Started = ""
	AfterPause   Started = "pause"
	AfterLoss    Started = "loss"
)

// SettlementError is the caller-safe error of a failed or aborted submission, in
// our own words: text of a model vendor never stands here.
type SettlementError struct {
	Type    Code           `json:"type"`
	Message string         `json:"message"`
	Meta    map[string]any `json:"meta,omitempty"`
}

type (
	// ConversationCreated begins a life of the conversation. InitialData is nil
	// when the creating delivery had none. Stream is the version of its event stream, 0 for
	// the first, the only one that this version writes.
	ConversationCreated struct {
		Agent          string          `json:"agent"`
		ID             string          `json:"id"`
		UID            UID             `json:"uid"`
		ConversationID ConversationID  `json:"conversationId"`
		InitialData    json.RawMessage `json:"initialData,omitempty"`
		Stream         int             `json:"stream,omitempty"`
		At             Time            `json:"at"`
	}

	// SubmissionAdmitted is the durable acceptance of a delivery, and the message
	// it shows in the transcript. Dispatched says that code in the process has sent it,
	// DispatchDepth and Sender are those of its [Admission]. Channel is the channel that
	// delivered it.
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
		// Tree is the tree of dispatches that it belongs to, nil for none.
		Tree *TreeRef `json:"tree,omitempty"`
		At   Time     `json:"at"`
	}

	// AttemptStarted counts one try at a submission. Nothing of an author or a
	// model runs before it is durable. QueuedMs is the wall time since the admission, of the
	// first attempt only. LostAt, after a loss, is when the lost writer built its last batch
	// with records, 0 if the activation did not read that batch.
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

	// AttemptReleased ends an attempt without counting it. ElapsedMs is the monotonic
	// time since it started.
	AttemptReleased struct {
		Submission SubmissionID `json:"submission"`
		Attempt    int          `json:"attempt"`
		Reason     string       `json:"reason"`
		ElapsedMs  int64        `json:"elapsedMs,omitempty"`
		At         Time         `json:"at,omitempty"`
	}

	// ResponseStarted opens a turn of the response. Every turn of a submission has
	// the same message and its own turn. Child, here and in other records, is the
	// subagent conversation it belongs to: then no client sees it. WaitMs is the time
	// from the model call to its first word.
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

	// Delta is streamed text, coalesced within its batch. Text is stored here and
	// nowhere else.
	Delta struct {
		Message MessageID      `json:"message"`
		Child   ConversationID `json:"child,omitempty"`
		Kind    PartKind       `json:"kind"`
		Text    string         `json:"text"`
	}

	// PartDone signs the last reasoning part of a turn, again if it was signed before, and
	// leaves it open. Nothing writes it any more: [PartSigned] replaced it.
	PartDone struct {
		Message   MessageID      `json:"message"`
		Child     ConversationID `json:"child,omitempty"`
		Signature string         `json:"signature"`
	}

	// PartSigned closes the part under way of a kind and signs it, or stands for a part
	// without text if there is none: what its vendor wants back where the part stood. Of a
	// call, which Call names, it is the signature alone. Nobody but the model sees it.
	PartSigned struct {
		Must      bool           `json:"must"`
		Message   MessageID      `json:"message"`
		Child     ConversationID `json:"child,omitempty"`
		Kind      PartKind       `json:"kind,omitempty"`
		Call      CallID         `json:"call,omitempty"`
		Signature string         `json:"signature"`
	}

	// ImagesRefused says that a model's vendor refused a request and took it without these
	// attachments. No model is shown them any more, and everybody else sees them as before.
	ImagesRefused struct {
		Must        bool           `json:"must"`
		Attachments []AttachmentID `json:"attachments"`
		Model       string         `json:"model,omitempty"`
		At          Time           `json:"at"`
	}

	// OutputStored says that the outcome of a call, which stands in the same batch, is a part
	// of its output, and where all of it is. Clients see the outcome alone.
	OutputStored struct {
		Must  bool           `json:"must"`
		Call  CallID         `json:"call"`
		Child ConversationID `json:"child,omitempty"`
		StoredOutput
	}

	// ToolCalled is a complete call of the model. ProviderCall is the vendor's own
	// id of it. Durable says that the call may be run again, with what it recorded.
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

	// ToolSettled is the single outcome of a call: Output, or ErrorText when
	// Failed. DurationMs is the handler's time; nil if it did not run to an end.
	// Attachments are images that belong to the output. Terminate asks to end the
	// response if all calls of the turn do. Waits are those that it ends with the call.
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

	// StepCompleted closes a turn. ElapsedMs is the monotonic time since its
	// attempt started, DurationMs that of its model call, of which WaitMs went by before
	// the first word. Retries counts the failed calls that it repeats, and Calls are the
	// turn's, which run now.
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

	// DataWritten sets the data part of a name of a response. The first write of the name appends the part.
	DataWritten struct {
		Message MessageID       `json:"message"`
		Name    string          `json:"name"`
		Data    json.RawMessage `json:"data"`
	}

	// MetadataMerged merges an object deeply onto a response's metadata.
	MetadataMerged struct {
		Message  MessageID       `json:"message"`
		Metadata json.RawMessage `json:"metadata"`
	}

	// Advisory is a message of the runtime itself.
	Advisory struct {
		Message    MessageID         `json:"message"`
		Child      ConversationID    `json:"child,omitempty"`
		Submission SubmissionID      `json:"submission,omitempty"`
		TagName    string            `json:"tagName,omitempty"`
		Attributes map[string]string `json:"attributes,omitempty"`
		Text       string            `json:"text"`
		Display    Display           `json:"display"`
	}

	// AbortRequested is the durable intent to abort what it covers. Trees says that it closes the trees of dispatches
	// that began in the conversation, and those that its submissions could begin.
	AbortRequested struct {
		Submissions []SubmissionID `json:"submissions"`
		Trees       bool           `json:"trees,omitempty"`
		At          Time           `json:"at"`
	}

	// SubmissionSettled is the single terminal outcome of a submission. ElapsedMs
	// is the sum of its attempts, AttemptMs that of the one under way, TotalMs the wall
	// time since the admission. AdmissionMs is how long its sender waited for the receipt,
	// so far if it still waits, at least 1, and 0 if another writer admitted it. Began says
	// that there was an attempt, Open that one is under way, Lost that the writer of that one
	// was lost, at LostAt as in [AttemptStarted].
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

	// StepDropped withdraws a turn from the transcript. Reason is the kind of failure.
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

	// Compacted replaces the model's view of everything before FirstKept by a
	// summary. Before counts the exchanges it stands for. Of FirstKept itself, turns
	// before FirstTurn are part of the summary; empty keeps all of them. The transcript
	// stays. After counts the exchanges that are left as they are, Tokens what the model
	// was shown before, about; Detached says that the work it was made for was over by then.
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

	// StepRecorded is the result of one named step of a durable tool.
	StepRecorded struct {
		Call   CallID          `json:"call"`
		Name   string          `json:"name"`
		Output json.RawMessage `json:"output"`
	}

	// Parked ends an attempt without counting it: the submission waits until a time,
	// and nothing of it runs. ElapsedMs is the monotonic time since its attempt started.
	Suspended struct {
		Submission SubmissionID `json:"submission"`
		Until      Time         `json:"until,omitempty"`
		Reason     string       `json:"reason"`
		ElapsedMs  int64        `json:"elapsedMs,omitempty"`
		At         Time         `json:"at,omitempty"`
	}

	// HookDone says that a hook has come to its end for a submission.
	HookDone struct {
		Submission SubmissionID `json:"submission"`
		Hook       Hook         `json:"hook"`
	}

	// ChildStarted opens a subagent conversation on behalf of a call. Its work is the
	// hidden submission named, which is never settled by itself.
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

	// ChildSettled ends a subagent conversation; its usage is that of all its turns.
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

	// RetryScheduled says that the model call of a submission, or of a subagent's, is not
	// made again before a time. Until then nothing of it runs; see [Suspended]. Rounds counts
	// how often all its models have failed, Blind those of them in which no vendor said
	// when to come back, and WaitedMs what was waited because of those who did.
	RetryScheduled struct {
		Must       bool           `json:"must"`
		Submission SubmissionID   `json:"submission"`
		Child      ConversationID `json:"child,omitempty"`
		Model      string         `json:"model"`
		Reason     string         `json:"reason"`
		Until      Time           `json:"until"`
		Rounds     int            `json:"rounds"`
		Blind      int            `json:"blind,omitempty"`
		WaitedMs   int64          `json:"waitedMs"`
		At         Time           `json:"at"`
	}

	// WaitStarted says that a call of a durable tool waits for a signal of a name, no longer
	// than until a time. A value that it gets fits Schema. Dropped is the signal kept for the
	// name which does not.
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

	// WaitEnded says what a wait has come to: [EndedBySignal] has the value of a signal, which was
	// kept or stands in the same batch. WaitedMs is the time since its start.
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

	// Overtook says that a submission is worked on although others came before it and are not
	// settled: all of them are parked. Its first attempt begins in the same batch.
	Overtook struct {
		Must       bool         `json:"must"`
		Submission SubmissionID `json:"submission"`
	}

	// ReplyPending says who waits for the reply to a submission that is admitted in the same batch.
	ReplyPending struct {
		Must       bool         `json:"must"`
		Submission SubmissionID `json:"submission"`
		To         ReplyTo      `json:"to"`
	}

	// RunStarted says that a submission, which is admitted in the same batch, is a run: a function works on it, and its
	// delivery is the function's input.
	RunStarted struct {
		Must       bool         `json:"must"`
		Submission SubmissionID `json:"submission"`
		At         Time         `json:"at"`
	}

	// KeyKept says that the key of a submission, which is admitted in the same batch, is known
	// for longer than others: at least until then, as far as there is room.
	KeyKept struct {
		Must       bool         `json:"must"`
		Submission SubmissionID `json:"submission"`
		Until      Time         `json:"until"`
	}

	// ReplySent says that who waits for a reply has it, or is over.
	ReplySent struct {
		Must       bool         `json:"must"`
		Submission SubmissionID `json:"submission"`
		At         Time         `json:"at"`
	}

	// SignalKept says that nobody waits yet for the name of a signal, whose admission and
	// settlement stand in the same batch.
	SignalKept struct {
		Must       bool         `json:"must"`
		Submission SubmissionID `json:"submission"`
		Name       string       `json:"name"`
		Body       string       `json:"body"`
		At         Time         `json:"at"`
	}

	// ConversationDeleted ends a life. A new one continues at the next offset.
	ConversationDeleted struct {
		At Time `json:"at"`
	}

	// Unknown is a record of a type this version does not know and may skip. Line
	// is its JSON object as read.
	Unknown struct {
		Name RecordType
		Line json.RawMessage
	}
)

// Address is where the conversation is reached.
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
