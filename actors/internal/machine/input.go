package machine

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// Env is the environment of one step.
type Env struct {
	// Wall is the wall clock. It is used for timestamps and for the time part of ids.
	Wall conversation.Time
	// Ahead is how far the clock for waits is ahead of Wall, in whole milliseconds.
	Ahead time.Duration
	// Mono is a monotonic clock reading; only differences are meaningful.
	Mono time.Duration
	// Seed is the randomness for the ids minted in this step.
	Seed [10]byte
	// Unread lists the record types that some member of the bucket cannot read, as far as this node
	// knows.
	Unread []conversation.RecordType
}

// AllRead reports whether every member reads records of a type. A must-record added after the first
// release is written only then.
func (e Env) AllRead(t conversation.RecordType) bool { return !slices.Contains(e.Unread, t) }

// ReplyID identifies a waiting caller. The activation chooses it.
type ReplyID uint64

// Input is an event for the machine.
type Input interface{ input() }

// Question is an input of running work that waits for an answer.
type Question interface {
	Input
	// For returns the question with the caller set.
	For(to ReplyID) Input
}

// Claim is the first batch of a writer incarnation.
type Claim struct {
	Seq   conversation.Offset
	Nonce string
}

// ModelEventKind is the kind of a model event.
type ModelEventKind int

// The kinds of [ModelEvent].
const (
	ModelText ModelEventKind = iota
	ModelReasoning
	ModelSignature
	ModelCall
	ModelDone
	ModelFailed
	// ModelMetadata is the initial metadata of a new response, with the author's state writes in
	// State. It may only come first.
	ModelMetadata
	// ModelData is data written by a tool or a hook. It may come after ModelDone.
	ModelData
)

// ModelEvent is one vendor-independent event of a model call.
type ModelEvent struct {
	Kind ModelEventKind
	// Text is the content of text, reasoning and signature events. Part is the kind of the part that a
	// signature closes.
	Text string
	Part conversation.PartKind
	// These describe a complete call; Signature is opaque vendor data to return with it. Data events
	// use Name and Input, metadata events Input.
	ProviderCall string
	Signature    string
	Name         string
	Input        json.RawMessage
	Durable      bool
	State        []StateWrite
	// These describe the end of the reply. Full reports that the context is close to the model's
	// window.
	StopReason string
	Usage      conversation.Usage
	Facts      conversation.CallFacts
	Full       bool
	// Reminder is sent once to a subagent's model if its work ends without the requested output; "" if
	// none was requested.
	Reminder string
	// These describe a failure. Err may be shown to clients. Retry reports that the same call may
	// succeed later, and RetryAfter is the vendor's retry hint. Overflow reports that the context
	// exceeds the model's window. Fallback reports that another model remains to be called. Unasked
	// reports that no model was called yet. TooManyCalls reports that the reply was cut off because it
	// exceeds MaxCalls. Images are the images of a refused request, of which the first First, at least
	// 1, are omitted before the others.
	Err          *conversation.SettlementError
	Unasked      bool
	TooManyCalls bool
	Retry        bool
	RetryAfter   time.Duration
	Overflow     bool
	Fallback     bool
	Images       []conversation.AttachmentID
	First        int
}

// Replaced is a model that another one replaces. Why may be shown to clients.
type Replaced struct {
	Name string
	Why  *conversation.SettlementError
}

// StateWrite sets a key of the author's persistent state; a null value removes it.
type StateWrite struct {
	Key   string
	Value json.RawMessage
}

// Fit is the result of validating a signal against the schema of a wait: the decoded value, or the
// error.
type Fit struct {
	Schema json.RawMessage
	Value  json.RawMessage
	Unfit  *conversation.Error
}

type (
	// Opened delivers the folded log and the writer incarnation of this machine. The writer is new,
	// or, if Claimed, one that an earlier machine released at the very batch where the log ends.
	// Claims are in order of Seq. Since is the number of batches read after the checkpoint. Bytes is
	// the approximate size of the state. Last is the build time of the newest of these batches that
	// has records, 0 if there is none.
	Opened struct {
		Writer  string
		Claimed bool
		State   *conversation.State
		Claims  []Claim
		Since   int
		Bytes   int
		Last    conversation.Time
	}
	// OpenFailed reports that the log could not be read. Permanent failures persist until an operator
	// repairs the log.
	OpenFailed struct {
		Err       error
		Permanent bool
	}

	// Admit requests an admission, or with Precheck only the decision.
	Admit struct {
		To        ReplyID
		Admission conversation.Admission
		Precheck  bool
		// Unfit is the validation error of the initial data, for an admission that creates a
		// conversation.
		Unfit *conversation.Error
		// Fit is the validation result of a signal, nil if no wait was known for it.
		Fit *Fit
		// DeadLetter is the post that a signal asks to deliver again, or nil.
		DeadLetter *conversation.PostEnqueued

		came time.Duration // Env.Mono of the step that received it
	}
	// Abort aborts all unsettled submissions or, if Of is not nil, those of that dispatch tree. Trees
	// also closes the trees rooted here. [Aborted] answers.
	Abort struct {
		To    ReplyID
		Of    *conversation.TreeRef
		Trees bool
	}
	// Probe asks about an entry of a pending-work journal; [Probed] answers.
	Probe struct {
		To    ReplyID
		Nonce string
		Seq   conversation.Offset
	}

	// CheckTimer asks about the stored timer of the batch at an offset that suspended a submission or
	// deferred a post; [TimerChecked] answers.
	CheckTimer struct {
		To ReplyID
		At conversation.Offset
	}
	// TimerStored reports that a timer is stored.
	TimerStored struct{ Timer StoreTimer }

	// ReplySent reports that the sender of a submission has its reply or no longer wants it.
	ReplySent struct{ Submission conversation.SubmissionID }

	// Post enqueues a post for a call of the work gen; [PostKept], [PostFull] or [StepTooMuch]
	// answers. A durable tool records it together with Step, whose result is Output.
	Post struct {
		To       ReplyID
		Gen      int
		Enqueued conversation.PostEnqueued // the machine sets the submission and the time
		Step     string
		Output   json.RawMessage
	}
	// PostTried reports the outcome of an attempt to deliver a post. Reason is the failure text. Gone
	// means that no retry can succeed; RetryAfter is the receiver's retry hint.
	PostTried struct {
		Post       conversation.PostID
		Delivered  bool
		Gone       bool
		Reason     string
		RetryAfter time.Duration
		Took       time.Duration
	}
	// DeadLetterStored reports that the dead letter of a post is stored.
	DeadLetterStored struct{ Post conversation.PostID }

	// Appended reports that the batch in flight is durable and its claim verified.
	Appended struct{ Offset conversation.Offset }
	// AppendLost reports that the batch in flight was fenced or that its outcome is unknown. The
	// writer must not be used again.
	AppendLost struct{ Err error }
	// Listed reports that the landed journal, and any in flight, list this writer.
	Listed struct{}
	// TailRead answers a [ReadTail] with the tail of the log, or with the error of the read.
	TailRead struct {
		Tail conversation.Offset
		Err  error
	}

	// Model delivers events of the call gen. Name is the called model. Passed is a preferred model
	// that was skipped because it failed recently elsewhere, nil if there is none. Facts are the facts
	// about the call known before its end.
	Model struct {
		Gen    int
		Name   string
		Passed *Replaced
		Facts  conversation.CallFacts
		Events []ModelEvent
	}
	// ToolDone delivers the outcome of a call of the work gen. Output is valid JSON unless Failed.
	// ErrorText is for the model and for clients. NotRun reports that no handler ran, so there is no
	// duration. State are the handler's state writes. Stored locates the whole output if Output is a
	// part of it, nil otherwise.
	ToolDone struct {
		Gen       int
		Call      conversation.CallID
		Output    json.RawMessage
		Stored    *conversation.StoredOutput
		Images    []conversation.Attachment
		Terminate bool
		State     []StateWrite
		Failed    bool
		NotRun    bool
		ErrorText string
		Duration  time.Duration
	}
	// ToolSuspended reports that a call of the work gen waits for a time, or for a signal until then.
	// Its results so far are in its recorded steps.
	ToolSuspended struct {
		Gen   int
		Call  conversation.CallID
		Until conversation.Time
	}
	// WaitFor returns the state of a call's wait for a signal, and starts the wait if it does not
	// exist. Gen names the work of the call. [WaitOver], [WaitOpen], [WaitValidate] or [StepTooMuch]
	// answers. After WaitValidate, Fit is the validation result of the signal Kept.
	WaitFor struct {
		To     ReplyID
		Gen    int
		Call   conversation.CallID
		Name   string
		Schema json.RawMessage
		Until  conversation.Time
		Kept   conversation.SubmissionID
		Fit    *Fit
	}
	// StepDone records the result of a durable tool's step; [StepKept] or [StepTooMuch] answers.
	StepDone struct {
		To     ReplyID
		Gen    int
		Call   conversation.CallID
		Name   string
		Output json.RawMessage
	}
	// TaskCalled reports that a call of the work gen starts a subagent's task.
	TaskCalled struct {
		Gen    int
		Call   conversation.CallID
		Agent  string
		Prompt string
	}

	// DeliveryStarted reports that the author's delivery hook of the work gen has returned. Err fails
	// the submission.
	DeliveryStarted struct {
		Gen   int
		State []StateWrite
		Err   *conversation.SettlementError
	}
	// ResponseFinished reports that the author's response hook of the work gen has returned. Metadata
	// is a JSON object to merge, or nil. Again, if not empty, is a note to the model, which is called
	// again.
	ResponseFinished struct {
		Gen      int
		Metadata json.RawMessage
		Again    string
		Err      *conversation.SettlementError // the response is invalid
		State    []StateWrite
	}

	// Compact requests a compaction; [Compacted] answers.
	Compact struct {
		To           ReplyID
		Instructions string
	}
	// Summarized delivers the summary requested by gen, of everything before FirstKept and of its
	// turns before FirstTurn. Before counts the exchanges before FirstKept. Nothing reports that there
	// is nothing to omit, Err that the summary failed.
	Summarized struct {
		Gen       int
		Summary   string
		FirstKept conversation.SubmissionID
		FirstTurn conversation.TurnID
		Before    int
		Model     string
		Usage     conversation.Usage
		Facts     conversation.CallFacts
		After     int // exchanges that stay unchanged
		Nothing   bool
		Err       *conversation.Error
	}

	// Tick reports that a timer set by [SetTimer] has expired.
	Tick struct {
		Timer Timer
		Gen   int
	}
	// Drain releases the conversation at the next durable boundary.
	Drain struct{}
)

// For implements [Question].
func (in StepDone) For(to ReplyID) Input { in.To = to; return in }

// For implements [Question].
func (in Post) For(to ReplyID) Input { in.To = to; return in }

// For implements [Question].
func (in WaitFor) For(to ReplyID) Input { in.To = to; return in }

func (Opened) input()           {}
func (OpenFailed) input()       {}
func (Admit) input()            {}
func (Abort) input()            {}
func (Probe) input()            {}
func (CheckTimer) input()       {}
func (TimerStored) input()      {}
func (ReplySent) input()        {}
func (Post) input()             {}
func (PostTried) input()        {}
func (DeadLetterStored) input() {}
func (ToolSuspended) input()    {}
func (Appended) input()         {}
func (AppendLost) input()       {}
func (Listed) input()           {}
func (TailRead) input()         {}
func (Model) input()            {}
func (ToolDone) input()         {}
func (WaitFor) input()          {}
func (StepDone) input()         {}
func (TaskCalled) input()       {}
func (DeliveryStarted) input()  {}
func (ResponseFinished) input() {}
func (Compact) input()          {}
func (Summarized) input()       {}
func (Tick) input()             {}
func (Drain) input()            {}
