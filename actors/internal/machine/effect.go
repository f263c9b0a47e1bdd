package machine

import (
	"encoding/json"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// Timer identifies a timer of the activation. Setting one replaces an earlier setting of the same
// timer.
type Timer int

// The timers.
const (
	TimerPace   Timer = iota // the next paced append may start
	TimerIdle                // passivation
	TimerBudget              // the total time of the submission is used up
	TimerRetry               // the failed model call may be repeated
	TimerDue                 // a call or submission may continue

	// Timers is the number of timers.
	Timers
)

// Effect is an action for the activation to perform.
type Effect interface{ effect() }

// StopReason is the reason why a machine stopped.
type StopReason string

// The reasons of [Stop].
const (
	StopPassivated StopReason = "passivated" // idle; another machine may continue as its writer
	StopDrained    StopReason = "drained"
	StopLost       StopReason = "lost"   // an append was fenced or its outcome is unknown
	StopUnread     StopReason = "unread" // the log could not be opened
)

type (
	// Append stores a batch. Its records are frozen.
	Append struct{ Batch conversation.Batch }
	// List makes the journal list this writer; [Listed] answers.
	List struct{ Seq conversation.Offset }
	// ReadTail reads the tail of the log from the bucket. Everything up to After is known; [TailRead]
	// answers.
	ReadTail struct{ After conversation.Offset }
	// Unlist allows the journal to drop this writer at any later time.
	Unlist struct{}
	// Reply answers a caller.
	Reply struct {
		To    ReplyID
		Value Answer
	}
	// CallModel starts the model call gen for a submission, which may be a subagent's, and cancels the
	// effects of its previous gen. Avoid names models of the agent that have failed. Without lists
	// attachments to omit, in addition to [conversation.State.Refused]. The activation builds the
	// request from [Machine.State] before it returns to its mailbox.
	CallModel struct {
		Gen        int
		Submission conversation.SubmissionID
		Turn       conversation.TurnID
		Attempt    int
		Number     int
		Avoid      []string
		Without    []conversation.AttachmentID
	}
	// CallUnrecorded reports the end of a model call that has no record, because no event arrived.
	// With Repeated the call is made again; otherwise its work ended first. Reason is the kind of
	// failure.
	CallUnrecorded struct {
		Gen        int
		Repeated   bool
		Reason     string
		DurationMs int64
		Retries    int
	}
	// RunTool runs one call of the work gen. [ToolDone] answers, [TaskCalled] if the call starts a
	// subagent, or [ToolSuspended] if it waits for a time. Recorded are the steps that earlier runs of
	// a durable call finished, Ended its ended waits. Room is how many bytes of output are recorded;
	// of a longer output a part is recorded and the whole is stored. Room 0 forbids storing. Resumed
	// is set for a durable call that may have run before.
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
	// StoreOutput stores the output of a call whose room was used up. [ToolDone] then comes again with
	// a part of it that fits Room.
	StoreOutput struct {
		Done       ToolDone
		Submission conversation.SubmissionID
		Room       int
	}
	// StoreTimer stores the timer of a suspended submission, or of deferred posts, in the durable
	// batch at an offset; [TimerStored] answers.
	StoreTimer struct {
		At    conversation.Offset
		Until conversation.Time
	}
	// SendReply delivers a reply to its sender. It is repeated until the reply is accepted or no
	// longer wanted; [ReplySent] answers.
	SendReply struct {
		To    conversation.ReplyTo
		Reply *conversation.SentReply
	}
	// SendPost makes an attempt to deliver a post; [PostTried] answers.
	SendPost struct{ Post *conversation.Post }
	// StoreDeadLetter stores the dead letter of an undeliverable post. It is repeated until it succeeds;
	// [DeadLetterStored] answers.
	StoreDeadLetter struct {
		Post     *conversation.Post
		Attempts int
		Reason   string
	}
	// StartDelivery calls the author's delivery hook before the first model call; [DeliveryStarted]
	// answers.
	StartDelivery struct {
		Gen        int
		Submission conversation.SubmissionID
		Attempt    int
	}
	// ShowSettlement calls the author's hook for a durable settlement. No input answers. The state may
	// no longer hold the submission.
	ShowSettlement struct {
		Submission *conversation.Submission
		Outcome    conversation.Outcome
		Err        *conversation.SettlementError
		Spent      conversation.Spent // including its subagents
	}
	// Summarize requests a summary of the model's view during the work on a submission; "" is the view
	// of the next one. [Summarized] answers.
	Summarize struct {
		Gen          int
		Submission   conversation.SubmissionID
		Reason       conversation.CompactionReason
		Instructions string
	}
	// FinishResponse calls the author's hook for a durable and complete response; [ResponseFinished]
	// answers.
	FinishResponse struct {
		Gen        int
		Submission conversation.SubmissionID
		Turn       conversation.TurnID
		Attempt    int
		Number     int
	}
	// Checkpoint stores the state folded up to an offset, at any later time. Closed was permanently
	// cut out of the state: the activation keeps these pages after the earlier ones, for the model and
	// for the next checkpoint.
	Checkpoint struct {
		At     conversation.Offset
		Of     conversation.Address
		Claims []Claim
		Closed []*conversation.HistoryPage
		State  []byte
	}
	// Cancel ends all effects of gen; their results are ignored.
	Cancel struct{ Gen int }
	// SetTimer requests a [Tick] after a duration. TimerRetry has one timer for each Gen.
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

func (Append) effect()          {}
func (List) effect()            {}
func (ReadTail) effect()        {}
func (Unlist) effect()          {}
func (Reply) effect()           {}
func (CallModel) effect()       {}
func (CallUnrecorded) effect()  {}
func (RunTool) effect()         {}
func (StoreOutput) effect()     {}
func (StoreTimer) effect()      {}
func (SendReply) effect()       {}
func (SendPost) effect()        {}
func (StoreDeadLetter) effect() {}
func (StartDelivery) effect()   {}
func (ShowSettlement) effect()  {}
func (Summarize) effect()       {}
func (FinishResponse) effect()  {}
func (Checkpoint) effect()      {}
func (Cancel) effect()          {}
func (SetTimer) effect()        {}
func (Stop) effect()            {}

// Answer is the reply to a caller.
type Answer interface{ answer() }

type (
	// Admitted is the receipt of a new or known admission.
	Admitted struct{ Receipt conversation.Receipt }
	// Refused is a decision against a request.
	Refused struct{ Err *conversation.Error }
	// Clear answers a precheck without a refusal.
	Clear struct{}
	// Aborted answers an abort. Any reports whether it ended or closed anything. Trees are the
	// dispatch trees rooted here, all closed. PartOf are the trees rooted elsewhere that contain
	// aborted submissions, if the abort covered trees.
	Aborted struct {
		Any    bool
		Trees  []conversation.SubmissionID
		PartOf []conversation.TreeRef
	}
	// Compacted answers a [Compact]. Any is false if there was nothing to compact.
	Compacted struct{ Any bool }
	// StepKept reports that a [StepDone] is durable.
	StepKept struct{}
	// StepTooMuch reports that the response has no room to record a [StepDone].
	StepTooMuch struct{}
	// PostKept reports that a [Post] is durable.
	PostKept struct{}
	// PostFull answers a [Post] if the outbox of the conversation is full.
	PostFull struct{}
	// WaitOver answers a [WaitFor]: the wait ended with Value or timed out.
	WaitOver struct {
		Value    json.RawMessage
		TimedOut bool
	}
	// WaitOpen answers a [WaitFor]: the wait is durable and lasts no longer than Until.
	WaitOpen struct{ Until conversation.Time }
	// WaitValidate answers a [WaitFor]: a signal is kept for the name. The caller validates Body and
	// sends another WaitFor with the [Fit].
	WaitValidate struct {
		Kept conversation.SubmissionID
		Body string
	}
	// Moved asks the caller to repeat the request under its key. The outcome is unknown unless
	// Untouched is set.
	Moved struct{ Untouched bool }
	// Probed answers a [Probe] once the probed writer is fenced. Held reports that work remains and
	// this writer does it; otherwise all is settled. Unknown gives no answer.
	Probed struct {
		Held    bool
		Unknown bool
	}
	// TimerChecked answers a [CheckTimer]: the timer is obsolete unless it is Early. Unknown gives no
	// answer.
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
func (WaitValidate) answer() {}
func (Moved) answer()        {}
func (Probed) answer()       {}
func (TimerChecked) answer() {}
