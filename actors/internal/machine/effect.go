package machine

import (
	"encoding/json"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// Timer names a timer of the activation. Setting one replaces an earlier setting
// of the same name.
type Timer int

// The timers.
const (
	TimerPace   Timer = iota // the next paced append may start
	TimerIdle                // passivation
	TimerBudget              // the submission's total time is used up
	TimerRetry               // the failed model call may be repeated
	TimerDue                 // the time has come that a call or submission waits for

	// Timers is how many there are.
	Timers
)

// Effect is something the shell is to do.
type Effect interface{ effect() }

// StopReason says why a machine stopped.
type StopReason string

// The reasons of [Stop].
const (
	StopPassivated StopReason = "passivated" // idle; its writer may go on in another machine
	StopDrained    StopReason = "drained"
	StopLost       StopReason = "lost"   // an append was fenced or is unknown
	StopUnread     StopReason = "unread" // the log could not be opened
)

type (
	// Append stores a batch. Its records are frozen.
	Append struct{ Batch conversation.Batch }
	// List makes the journal list this writer; [Listed] answers.
	List struct{ Seq conversation.Offset }
	// Look asks the bucket where the log ends, of which everything up to After is
	// known; [Looked] answers.
	Look struct{ After conversation.Offset }
	// Unlist lets the journal forget this writer, at its leisure.
	Unlist struct{}
	// Reply answers a caller.
	Reply struct {
		To    ReplyID
		Value Answer
	}
	// CallModel starts the model call gen for a submission, which may be a subagent's,
	// and ends what ran for it before. Avoid names the agent's models that have failed
	// already, and Without attachments that it is not shown, beside those of
	// [conversation.State.Refused]. The shell builds the request from [Machine.State]
	// before it returns to its mailbox.
	CallModel struct {
		Gen        int
		Submission conversation.SubmissionID
		Turn       conversation.TurnID
		Attempt    int
		Number     int
		Avoid      []string
		Without    []conversation.AttachmentID
	}
	// CallUnrecorded reports that the model call gen has ended without a word, and that no
	// record reports it: it is made again if Repeated is set, and else its work ended first.
	// Reason is the kind of failure.
	CallUnrecorded struct {
		Gen        int
		Repeated   bool
		Reason     string
		DurationMs int64
		Retries    int
	}
	// RunTool runs one call of the work gen; [ToolDone] answers, [TaskCalled] if it hands
	// a task to a subagent, or [ToolSuspended] if it waits for a time. Recorded are the steps of a durable tool that an
	// earlier try of the call has finished, Ended the waits of the call that are over. Room is how many bytes of output are recorded: of
	// a longer one a part is, and all of it is stored; 0 if nothing may be stored. Resumed is set for a durable call
	// that may have run before.
	RunTool struct {
		Gen        int
		Submission conversation.SubmissionID
		Turn       conversation.TurnID
		Call       conversation.CallID
		Name       string
		Input      json.RawMessage
		Recorded   []conversation.StepRecorded
		Ended      []*conversation.Wait
		Room       int
		Resumed    bool
	}
	// StoreOutput stores the output of a call for which there is no room any more, and has
	// [ToolDone] come again with a part of it, which Room is for.
	StoreOutput struct {
		Done       ToolDone
		Submission conversation.SubmissionID
		Room       int
	}
	// StoreTimer stores the timer of what the durable batch at an offset has put off: a parked
	// submission, or posts; [TimerStored] answers.
	StoreTimer struct {
		At    conversation.Offset
		Until conversation.Time
	}
	// SendReply tells who waits for a reply of it, again and again until it is taken, or nobody
	// waits any more; [ReplySent] answers.
	SendReply struct {
		To    conversation.ReplyTo
		Reply *conversation.SentReply
	}
	// SendPost makes an attempt to deliver a post; [PostTried] answers.
	SendPost struct{ Post *conversation.Post }
	// BuryPost stores the dead letter of a post that is given up, again and again until it is stored;
	// [PostBuried] answers.
	BuryPost struct {
		Post     *conversation.Post
		Attempts int
		Reason   string
	}
	// StartDelivery shows the author a delivery before the first model call for it;
	// [DeliveryStarted] answers.
	StartDelivery struct {
		Gen        int
		Submission conversation.SubmissionID
		Attempt    int
	}
	// ShowSettlement tells the author of a settlement, which is durable. Nobody answers.
	// The submission may have been cut out of the state already.
	ShowSettlement struct {
		Submission *conversation.Submission
		Outcome    conversation.Outcome
		Err        *conversation.SettlementError
		Spent      conversation.Spent // by its model calls and those of its subagents
	}
	// Summarize asks for a summary of what the model sees while it works on a
	// submission, "" for what it would see next; [Summarized] answers.
	Summarize struct {
		Gen          int
		Submission   conversation.SubmissionID
		Reason       conversation.CompactionReason
		Instructions string
	}
	// FinishResponse shows the author the response of a submission, which is durable
	// and complete; [ResponseFinished] answers.
	FinishResponse struct {
		Gen        int
		Submission conversation.SubmissionID
		Turn       conversation.TurnID
		Attempt    int
		Number     int
	}
	// Checkpoint stores, at the shell's leisure, what the log folds to at an offset.
	// Closed was cut out of the state for good: the shell keeps it, after
	// what was cut before, for the model and for the next checkpoint.
	Checkpoint struct {
		At     conversation.Offset
		Of     conversation.Address
		Claims []Claim
		Closed []*conversation.HistoryPage
		State  []byte
	}
	// Cancel ends whatever runs under gen; its results are ignored.
	Cancel struct{ Gen int }
	// SetTimer asks for a [Tick] after a while. Gen is set for TimerRetry, of which
	// each gen has its own.
	SetTimer struct {
		Timer Timer
		Gen   int
		After time.Duration
	}
	// Stop ends the activation.
	Stop struct {
		Reason StopReason
		Err    error
	}
)

func (Append) effect()         {}
func (List) effect()           {}
func (Look) effect()           {}
func (Unlist) effect()         {}
func (Reply) effect()          {}
func (CallModel) effect()      {}
func (CallUnrecorded) effect() {}
func (RunTool) effect()        {}
func (StoreOutput) effect()    {}
func (StoreTimer) effect()     {}
func (SendReply) effect()      {}
func (SendPost) effect()       {}
func (BuryPost) effect()       {}
func (StartDelivery) effect()  {}
func (ShowSettlement) effect() {}
func (Summarize) effect()      {}
func (FinishResponse) effect() {}
func (Checkpoint) effect()     {}
func (Cancel) effect()         {}
func (SetTimer) effect()       {}
func (Stop) effect()           {}

// Answer is what a caller is told.
type Answer interface{ answer() }

type (
	// Admitted is the receipt of a new or known admission.
	Admitted struct{ Receipt conversation.Receipt }
	// Refused is a decision against a request.
	Refused struct{ Err *conversation.Error }
	// Clear answers a precheck that found nothing against the admission.
	Clear struct{}
	// Aborted answers an abort: whether there was anything. Trees are those that began here, which are closed, and
	// PartOf those that began elsewhere and that what was aborted belongs to, if the abort was of trees.
	Aborted struct {
		Any    bool
		Trees  []conversation.SubmissionID
		PartOf []conversation.TreeRef
	}
	// Compacted answers a [Compact]: whether there was anything to compact.
	Compacted struct{ Any bool }
	// StepKept says that a [StepDone] is durable.
	StepKept struct{}
	// StepTooMuch says that there is no room to record a [StepDone].
	StepTooMuch struct{}
	// PostKept says that a [Post] is durable.
	PostKept struct{}
	// PostFull answers a [Post]: as many are not delivered as the conversation takes.
	PostFull struct{}
	// WaitOver answers a [WaitFor]: the wait has ended with Value, or by its time.
	WaitOver struct {
		Value    json.RawMessage
		TimedOut bool
	}
	// WaitOpen answers a [WaitFor]: the call waits, durably, no longer than Until.
	WaitOpen struct{ Until conversation.Time }
	// WaitOracle answers a [WaitFor]: a signal is kept for the name. Whether it fits is to be
	// said in another.
	WaitOracle struct {
		Kept conversation.SubmissionID
		Body string
	}
	// Moved says that the caller has to repeat under its key. Unless the machine is sure
	// that it did nothing for it, the outcome is unknown.
	Moved struct{ Untouched bool }
	// Poked answers a poke after its writer is fenced: Held if work remains, which
	// this writer does, settled otherwise. Unknown answers nothing.
	Probed struct {
		Held    bool
		Unknown bool
	}
	// TimerChecked answers a [CheckTimer]: the timer is needed no more, unless it is Early. Unknown
	// answers nothing.
	TimerChecked struct {
		Early   bool
		Unknown bool
	}
)

func (Admitted) answer()     {}
func (Refused) answer()      {}
func (Clear) answer()        {}
func (Aborted) answer()      {}
func (Compacted) answer()    {}
func (StepKept) answer()     {}
func (StepTooMuch) answer()  {}
func (PostKept) answer()     {}
func (PostFull) answer()     {}
func (WaitOver) answer()     {}
func (WaitOpen) answer()     {}
func (WaitOracle) answer()   {}
func (Moved) answer()        {}
func (Probed) answer()       {}
func (TimerChecked) answer() {}
