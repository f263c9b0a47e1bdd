package machine

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// Env is what one step knows of the world.
type Env struct {
	// Wall is informative: it becomes timestamps and the time part of ids.
	Wall conversation.Time
	// Ahead is what the clock that waits go by shows more than Wall, in whole milliseconds.
	Ahead time.Duration
	// Mono is a monotonic reading; only differences mean something.
	Mono time.Duration
	// Seed is fresh randomness for the ids minted in this step.
	Seed [10]byte
	// Unread lists the record types that some member of the bucket does not read, as far as
	// this node knows.
	Unread []conversation.RecordType
}

// AllRead reports whether every member reads records of a type. A must-record that was added
// after the first release is written only then.
func (e Env) AllRead(t conversation.RecordType) bool { return !slices.Contains(e.Unread, t) }

// ReplyID names a caller who waits. The shell chooses it.
type ReplyID uint64

// Input is something that happened.
type Input interface{ input() }

// Question is an input of work that waits for an answer.
type Question interface {
	Input
	// For returns the question of a caller.
	For(to ReplyID) Input
}

// Claim is the first batch of a writer incarnation.
type Claim struct {
	Seq   conversation.Offset
	Nonce string
}

// ModelEventKind tells model events apart.
type ModelEventKind int

// The kinds of [ModelEvent].
const (
	ModelText ModelEventKind = iota
	ModelReasoning
	ModelSignature
	ModelCall
	ModelDone
	ModelFailed
	// ModelMetadata is what a new response starts with, and in State what its author
	// wrote for it. It comes first, if at all.
	ModelMetadata
	// ModelData is data that a tool or a hook writes; it may come after ModelDone.
	ModelData
)

// ModelEvent is one event of a model call in the machine's own terms.
type ModelEvent struct {
	Kind ModelEventKind
	// Text of text, reasoning and signature. What a signature signs is the Part of that
	// kind that it closes.
	Text string
	Part conversation.PartKind
	// A complete call, and what its vendor wants back with it. Data has a name and its JSON in Input, metadata the latter.
	ProviderCall string
	Signature    string
	Name         string
	Input        json.RawMessage
	Durable      bool
	State        []StateWrite
	// The end. Full says that the context has come near the model's window.
	StopReason string
	Usage      conversation.Usage
	Facts      conversation.CallFacts
	Full       bool
	// Reminder is what a subagent's model is told, once, if its work ends without the output
	// that it was asked for; "" if it was asked for none.
	Reminder string
	// A failure: Err may be shown to clients. Retry says that the same call may
	// succeed later, RetryAfter how long the vendor asks to wait; Overflow that the
	// context is too long for the model; Fallback that there is another model to ask,
	// which was not to be avoided.
	// Unasked, before all others, says that nothing was asked of the model yet, and
	// TooManyCalls that the reply was cut off because it has more than it may. Images are
	// those of a request that its vendor refused, of which the First, at least 1, are left
	// out before the others.
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

// Replaced is a model in whose place another one is asked. Why may be shown to clients.
type Replaced struct {
	Name string
	Why  *conversation.SettlementError
}

// StateWrite is a key of the author's persistent state and its new value; null
// removes it.
type StateWrite struct {
	Key   string
	Value json.RawMessage
}

// Fit is a signal held against the schema of a wait: the value that fits it, or why none does.
type Fit struct {
	Schema json.RawMessage
	Value  json.RawMessage
	Unfit  *conversation.Error
}

type (
	// Opened delivers the folded log and names the writer incarnation of this machine:
	// a new one, or, if Claimed, one that an earlier machine has put to rest, with the
	// log at the very batch that it ended at. Claims are in order of Seq, and Since is
	// how many batches were read after the checkpoint, if there is one. Bytes is about how
	// large the state is. Last is when the last of these batches that has records was built,
	// 0 if there is none.
	Opened struct {
		Writer  string
		Claimed bool
		State   *conversation.State
		Claims  []Claim
		Since   int
		Bytes   int
		Last    conversation.Time
	}
	// OpenFailed says that the log could not be read: not now, or Permanent, not
	// until somebody mends it.
	OpenFailed struct {
		Err       error
		Permanent bool
	}

	// Admit asks for an admission; with Precheck only for the decision.
	Admit struct {
		To        ReplyID
		Admission conversation.Admission
		Precheck  bool
		// Unfit is what is wrong with the initial data, if it creates a conversation.
		Unfit *conversation.Error
		// Fit is what has become of a signal for a wait of that schema, nil if nobody was
		// known to wait.
		Fit *Fit
		// Dead is the post that a signal asks to deliver again, nil if there is none.
		Dead *conversation.PostEnqueued

		came time.Duration // Env.Mono of the step that it came in
	}
	// Abort asks to abort whatever is owed a settlement, or, if Of is not nil, what belongs to that tree of dispatches.
	// Trees asks to close the trees that began here, too; [Aborted] answers.
	Abort struct {
		To    ReplyID
		Of    *conversation.TreeRef
		Trees bool
	}
	// Poke asks about an entry of a pending-work journal.
	Probe struct {
		To    ReplyID
		Nonce string
		Seq   conversation.Offset
	}

	// CheckTimer asks about a stored timer, of the batch at an offset that has parked a
	// submission; [TimerChecked] answers.
	CheckTimer struct {
		To ReplyID
		At conversation.Offset
	}
	// TimerStored says that a timer is stored.
	TimerStored struct{ Timer StoreTimer }

	// ReplySent says that who waited for the reply to a submission has it, or is over.
	ReplySent struct{ Submission conversation.SubmissionID }

	// Post asks to post for a call of the work gen: [PostKept], [PostFull] or
	// [StepTooMuch] answers. One of a durable tool records Step with it, whose result is Output.
	Post struct {
		To       ReplyID
		Gen      int
		Enqueued conversation.PostEnqueued // the submission and the time are the machine's
		Step     string
		Output   json.RawMessage
	}
	// PostTried says what has come of an attempt to deliver a post: it is Delivered, or, for a Reason
	// in words, not yet. Gone says that another attempt would not help, and RetryAfter how long the
	// receiver asks to wait.
	PostTried struct {
		Post       conversation.PostID
		Delivered  bool
		Gone       bool
		Reason     string
		RetryAfter time.Duration
		Took       time.Duration
	}
	// PostBuried says that the dead letter of a post is stored.
	PostBuried struct{ Post conversation.PostID }

	// Appended says that the batch in flight is durable and its claim verified.
	Appended struct{ Offset conversation.Offset }
	// AppendLost says that the batch in flight was fenced or its outcome cannot be
	// known. The writer may not be used again.
	AppendLost struct{ Err error }
	// Listed says that a landed journal, and any in flight, list this writer.
	Listed struct{}
	// Looked says at which offset the log ended some time after the [Look], or why
	// that cannot be known.
	Looked struct {
		Tail conversation.Offset
		Err  error
	}

	// Model delivers events of the call gen. Name is the model that is called, Passed one
	// that would have been, had it not failed of late elsewhere, nil if there is none, and
	// Facts are what is known of the call before its end.
	Model struct {
		Gen    int
		Name   string
		Passed *Replaced
		Facts  conversation.CallFacts
		Events []ModelEvent
	}
	// ToolDone delivers the outcome of a call of the work gen. Output is valid JSON
	// unless Failed; ErrorText is for the model and for clients. NotRun says that no
	// handler ran, so there is no duration. State is what the handler wrote. Stored is where
	// all of an output is of which Output is a part, nil for one that is whole.
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
	// ToolSuspended says that a call of the work gen has ended for now because it waits for
	// a time, or for a signal until then. What it has done until then is in its recorded steps.
	ToolSuspended struct {
		Gen   int
		Call  conversation.CallID
		Until conversation.Time
	}
	// WaitFor asks what a call of the work gen that waits for a signal has come to, and has
	// it wait if it does not yet; [WaitOver], [WaitOpen], [WaitOracle] or
	// [StepTooMuch] answers. Fit is what has become of the signal Kept, if WaitOracle has asked.
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
	// StepDone asks to record the result of a durable tool's step; [StepKept] or
	// [StepTooMuch] answers.
	StepDone struct {
		To     ReplyID
		Gen    int
		Call   conversation.CallID
		Name   string
		Output json.RawMessage
	}
	// TaskCalled says that a call of the work gen hands a task to a subagent.
	TaskCalled struct {
		Gen    int
		Call   conversation.CallID
		Agent  string
		Prompt string
	}

	// DeliveryStarted says that the author has seen the delivery of the work gen. Err
	// fails the submission.
	DeliveryStarted struct {
		Gen   int
		State []StateWrite
		Err   *conversation.SettlementError
	}
	// ResponseFinished says that the author has seen the response of the work gen.
	// Metadata is a JSON object to merge, or nil. Again, if not empty, is said to the
	// model, which goes on.
	ResponseFinished struct {
		Gen      int
		Metadata json.RawMessage
		Again    string
		Err      *conversation.SettlementError // the response is not what was asked for
		State    []StateWrite
	}

	// Compact asks for a compaction; [Compacted] answers.
	Compact struct {
		To           ReplyID
		Instructions string
	}
	// Summarized delivers the summary that gen asked for: of all before FirstKept, and
	// of its turns before FirstTurn. Before counts the exchanges before FirstKept.
	// Nothing says that there is nothing to leave out, Err that there is no summary.
	Summarized struct {
		Gen       int
		Summary   string
		FirstKept conversation.SubmissionID
		FirstTurn conversation.TurnID
		Before    int
		Model     string
		Usage     conversation.Usage
		Facts     conversation.CallFacts
		After     int // exchanges that are left as they are
		Nothing   bool
		Err       *conversation.Error
	}

	// Tick says that a timer set by [SetTimer] went off.
	Tick struct {
		Timer Timer
		Gen   int
	}
	// Drain asks to release the conversation at the next durable boundary.
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
func (PostBuried) input()       {}
func (ToolSuspended) input()    {}
func (Appended) input()         {}
func (AppendLost) input()       {}
func (Listed) input()           {}
func (Looked) input()           {}
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
