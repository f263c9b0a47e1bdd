package machine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// Limits are an agent's rules as far as the machine needs them.
type Limits struct {
	// MaxAttempts bounds the attempts at one submission.
	MaxAttempts int
	// Patience bounds the waits for vendors that say when to come back, for one reply.
	Patience time.Duration
	// Timeout bounds the monotonic time of all attempts at one submission, of a run those since its last suspension.
	Timeout time.Duration
	// ToolConcurrency bounds the calls of a turn that run at once, at least 1.
	ToolConcurrency int
	// MaxResponse bounds what models say in a response, or in a subagent's work, in
	// bytes as [conversation.Submission.Said] counts them, and MaxCalls the calls of one
	// reply.
	MaxResponse, MaxCalls int
	// MaxBrought bounds what the calls of a response bring, those of its subagents
	// included, in bytes as [conversation.State.Brought] counts them.
	MaxBrought int
	// MaxTurns and MaxToolCalls bound what a submission takes as [conversation.Spent] counts
	// it, and MaxTokens and MaxDollars too, unless they are 0.
	MaxTurns, MaxToolCalls int
	MaxTokens              int64
	MaxDollars             float64
	// MaxTree and MaxTreeDollars bound the trees of dispatches that begin here, as [conversation.Tree] counts them, unless
	// they are 0.
	MaxTree        int
	MaxTreeDollars float64
	// DeliveryStartedHook says that a delivery is shown to its author before the first model
	// call for it, ResponseFinishedHook a response before it settles, SettledHook a settlement.
	DeliveryStartedHook, ResponseFinishedHook, SettledHook bool
	// AnswerInOrder says that what comes while a submission is parked waits for it.
	AnswerInOrder bool
	// Function is the tool that works on deliveries in place of a model, "" of an agent.
	Function string
	// Notify are the targets that are told of each settlement.
	Notify []string
}

// replies reports whether a target of the outbox serves conversations of a channel alone.
func (m *Machine) replies(target string) bool { return m.cfg.Replies != nil && m.cfg.Replies(target) }

// Config is what a machine is made with. All fields but Replies are required.
type Config struct {
	// Limits returns the rules of a registered agent.
	Limits func(agent string) (Limits, bool)
	// Replies reports whether a target of the outbox is an [outbox.ReplyTarget]; nil for none.
	Replies func(target string) bool
	// Pace is the least time between the starts of two appends of streamed text.
	Pace time.Duration
	// RetryPause is the pause before the first repetition of a failed model call; it
	// doubles with each.
	RetryPause time.Duration
	// IdleAfter is the time until an idle activation passivates.
	IdleAfter time.Duration
	// MaxWaiting bounds the callers waiting for a reply, and the submissions
	// waiting for their turn; above it callers are refused with CodeUnavailable.
	MaxWaiting int
	// MaxWaitingBytes bounds the deliveries waiting for their turn, likewise. One that
	// nothing waits beside is always taken.
	MaxWaitingBytes int
	// CheckpointBatches and CheckpointBytes are how much a log grows until a checkpoint
	// is due. An activation that ends writes one after an eighth of the batches; below
	// that, reading them costs little more than reading a checkpoint.
	CheckpointBatches, CheckpointBytes int
	// RestBatches is how much a log grows until a checkpoint is due when no submission is
	// at work, so that its batches can be compacted; 0 is as CheckpointBatches.
	RestBatches int
	// MaxPendingBytes bounds what waits for an append: streamed text is held back
	// above it, see [Machine.Full], and admissions are refused above twice as much.
	MaxPendingBytes int
	// MaxBatchBytes is the size from which on a batch takes no more records, unless they
	// belong to its last ones, and the most that a call may have recorded of it. It is far
	// below what the log takes.
	MaxBatchBytes int
}

// Machine is the state of one activation.
//
// Invariant: state is folded through every record enqueued, durable or not.
// Invariant: inflight.Offset == durable+1 while an append is in flight.
type Machine struct {
	cfg          *Config
	writer       string // the nonce of this writer incarnation
	state        *conversation.State
	claims       []Claim
	found        conversation.Time // when the last batch before this activation was built, see [Opened].Last
	backlog      []Input           // before Opened
	backlogBytes int               // of its admissions
	stopped      bool
	unread       *conversation.Error // why the log could not be read, nil if it was

	durable       conversation.Offset
	claimed       bool // a batch of this writer is durable
	inflight      *conversation.Batch
	inflightBytes int // of it
	pending       pending
	lastStart     time.Duration
	started       bool // an append was started, so lastStart means something
	paceSet       bool

	waits    []wait
	signals  []Admit                                // of parked calls, until a journal lists this writer
	receipts map[conversation.SubmissionID]*receipt // of the unsettled that it admitted
	sending  map[conversation.SubmissionID]bool     // replies that are on their way
	posting  map[string]*posting                    // by the targets
	looks    looks
	listing  bool
	listed   bool
	timers   map[StoreTimer]bool // of what waits for a time: asked for, true if stored
	dueAt    conversation.Time   // TimerDue is set for it, 0 if it is not set

	work     *work   // of a submission of the conversation
	tasks    []*work // of subagents that work for it, oldest first
	jobs     []*compaction
	settled  []settlement // not durable yet
	gen      int          // counts whatever runs outside
	draining bool
	idling   bool

	grown grown
	size  int // of the state at the last checkpoint, or when it was opened

	env Env
	ids minter
	out []Effect
}

// pending is what waits for an append: batches being composed, the last of which takes
// what comes next.
//
// What is enqueued for one input, or one event of a model call, is a group: it stands in
// one batch, so that no crash comes between.
type pending struct {
	batches []composed
	grouped bool // the group under way has its batch: the last
	split   bool // the next group stands in a batch of its own
	bytes   int  // of all records
}

func (p *pending) empty() bool { return len(p.batches) == 0 }

func (p *pending) urgent() bool {
	return slices.ContainsFunc(p.batches, func(c composed) bool { return c.urgent })
}

// composed is a batch being composed.
type composed struct {
	records []conversation.Record // none in a claim
	text    []byte                // more of the last record, which is a delta
	urgent  bool
	bytes   int
	size    int // about what it takes in the log
}

// wait is a caller who waits for durability.
type wait struct {
	to     ReplyID
	value  Answer
	offset conversation.Offset
	listed bool        // waits for the journal too
	look   int         // waits for the look of this number too, 0 for none
	probe  *Probe      // answered by what is so then; value is unused
	timer  *CheckTimer // likewise
	over   bool        // what the timer is of was seen to be over, at offset
}

// receipt is what a settlement tells of its admission, which cannot tell itself.
type receipt struct {
	came   time.Duration // Env.Mono when the message came
	waited int64         // milliseconds until the receipt left, 0 if it has not
}

// New returns a machine that waits for [Opened]. Many may share a configuration,
// which must not be changed.
func New(cfg *Config) *Machine {
	return &Machine{cfg: cfg, receipts: map[conversation.SubmissionID]*receipt{}, timers: map[StoreTimer]bool{}, sending: map[conversation.SubmissionID]bool{}, posting: map[string]*posting{}}
}

// State returns the folded state, nil before [Opened]. It is read-only and valid
// until the next Step.
func (m *Machine) State() *conversation.State { return m.state }

// Open reports whether the machine has its log.
func (m *Machine) Open() bool { return m.state != nil }

// Address is that of the conversation; ok is false before [Opened], and until it is created.
func (m *Machine) Address() (at conversation.Address, ok bool) {
	if m.state == nil || !m.state.Exists() {
		return at, false
	}
	return m.state.Created().Address(), true
}

// Owed is how many submissions are owed their settlement by this machine, and which of them
// it works on, or the first. One that has stopped owes nothing any more, but names it.
func (m *Machine) Owed() (n int, first conversation.SubmissionID) {
	if m.state == nil {
		return 0, ""
	}
	queue := m.state.Unsettled()
	if len(queue) > 0 {
		first = queue[0].ID
	}
	if sub := m.state.UnderWay(); sub != nil {
		first = sub.ID
	}
	if m.stopped {
		return 0, first
	}
	return len(queue), first
}

// Waits returns what waits for a time, as far as this machine knows, which is up to head. It
// must be open.
func (m *Machine) Waits() (waits []StoreTimer, head conversation.Offset) {
	return m.alarms(), m.state.Head()
}

// Stopped reports whether the machine has asked for its end. It then answers
// every caller with [Moved], or with [Refused] if it never had its log, and does
// nothing else.
func (m *Machine) Stopped() bool { return m.stopped }

// Idle reports whether there is nothing to do: the machine has set [TimerIdle], and ends
// when it goes off, however soon.
func (m *Machine) Idle() bool { return m.idling && !m.stopped }

// Full reports whether streamed text is to be held back until an append lands.
func (m *Machine) Full() bool { return m.pending.bytes >= m.cfg.MaxPendingBytes }

// Bytes is about what the machine holds: its state, and what is on its way to the log.
func (m *Machine) Bytes() int {
	waiting := 0
	for _, in := range m.signals {
		waiting += admissionWeight(in.Admission)
	}
	return waiting + m.size + m.grown.bytes + m.pending.bytes + m.backlogBytes + m.inflightBytes
}

// Step takes one input and returns what is to be done, in order. The slice is
// valid until the next Step.
func (m *Machine) Step(env Env, in Input) []Effect {
	m.env, m.ids, m.out = env, minter{at: env.Wall, seed: env.Seed}, m.out[:0]
	if a, ok := in.(Admit); ok {
		a.came = env.Mono
		in = a
	}
	switch {
	case m.stopped:
		m.turnAway(in)
	case m.state == nil:
		m.beforeOpen(in)
	default:
		m.take(in)
		m.advance()
	}
	return m.out
}

func (m *Machine) emit(e Effect) { m.out = append(m.out, e) }

// turnAway answers callers of a stopped machine. One that never had its log knows that
// it did nothing for them.
func (m *Machine) turnAway(in Input) {
	var why Answer = Moved{Untouched: true}
	if m.unread != nil {
		why = Refused{m.unread}
	}
	switch in := in.(type) {
	case Admit:
		m.emit(Reply{in.To, why})
	case Abort:
		m.emit(Reply{in.To, why})
	case Tree:
		m.emit(Reply{in.To, why})
	case Probe:
		m.emit(Reply{in.To, Probed{Unknown: true}})
	case CheckTimer:
		m.emit(Reply{in.To, TimerChecked{Unknown: true}})
	case Compact:
		m.emit(Reply{in.To, why})
	case StepDone:
		m.emit(Reply{in.To, Moved{}})
	case WaitFor:
		m.emit(Reply{in.To, Moved{}})
	case Post:
		m.emit(Reply{in.To, Moved{}})
	}
}

func (m *Machine) beforeOpen(in Input) {
	switch in := in.(type) {
	case Opened:
		m.open(in)
		for _, later := range m.backlog {
			m.take(later)
		}
		m.backlog, m.backlogBytes = nil, 0
		m.advance()
	case OpenFailed:
		m.unread = unopened(in)
		m.leaveUnread(Stop{StopUnread, in.Err})
	case Admit:
		w := admissionWeight(in.Admission)
		if len(m.backlog) >= m.cfg.MaxWaiting || m.backlogBytes > 0 && m.backlogBytes+w > 2*m.cfg.MaxPendingBytes {
			m.emit(Reply{in.To, Refused{crowded(sayCrowded)}})
			return
		}
		m.backlogBytes += w
		m.backlog = append(m.backlog, in)
	case Probe:
		if len(m.backlog) >= m.cfg.MaxWaiting {
			m.emit(Reply{in.To, Probed{Unknown: true}})
			return
		}
		m.backlog = append(m.backlog, in)
	case CheckTimer:
		if len(m.backlog) >= m.cfg.MaxWaiting {
			m.emit(Reply{in.To, TimerChecked{Unknown: true}})
			return
		}
		m.backlog = append(m.backlog, in)
	case Abort:
		m.keep(in.To, in)
	case Tree:
		m.keep(in.To, in)
	case Compact:
		m.keep(in.To, in)
	case Drain: // Nothing has begun: whoever is next need not wait until the log is read.
		m.leaveUnread(Stop{Reason: StopDrained})
	}
}

// leaveUnread ends a machine that never had its log.
func (m *Machine) leaveUnread(why Stop) {
	m.stopped = true
	for _, b := range m.backlog {
		m.turnAway(b)
	}
	m.backlog, m.backlogBytes = nil, 0
	m.emit(why)
}

// keep keeps a request until the log is read.
func (m *Machine) keep(to ReplyID, in Input) {
	if len(m.backlog) >= m.cfg.MaxWaiting {
		m.emit(Reply{to, Refused{crowded(sayCrowded)}})
		return
	}
	m.backlog = append(m.backlog, in)
}

// crowded refuses a caller because of what waits before them.
func crowded(format string, args ...any) *conversation.Error {
	err := conversation.Unavailable(time.Second, nil)
	err.Details = fmt.Sprintf(format, args...)
	return err
}

// unopened is what callers are told of a log that could not be read.
func unopened(in OpenFailed) *conversation.Error {
	var aside *conversation.Error
	if errors.As(in.Err, &aside) && aside.Code == conversation.CodeQuarantined {
		return aside
	}
	if in.Permanent {
		return &conversation.Error{Code: conversation.CodeInternal, Details: textCorrupt, Err: in.Err}
	}
	return conversation.Unavailable(2*time.Second, in.Err)
}

func (m *Machine) open(in Opened) {
	m.writer, m.claimed = in.Writer, in.Claimed
	m.state, m.claims = in.State, in.Claims
	m.durable, m.grown.batches, m.size = in.State.Head(), in.Since, in.Bytes
	m.looks.tail, m.found = m.durable, in.Last
	m.resume()
}

func (m *Machine) take(in Input) {
	m.pending.grouped = false
	switch in := in.(type) {
	case Admit:
		m.admit(in)
	case Abort:
		m.abort(in)
	case Tree:
		m.tree(in)
	case TreeAnswered:
		m.treeAnswered(in)
	case Probe:
		m.probe(in)
	case CheckTimer:
		m.checkTimer(in)
	case TimerStored:
		m.timerStored(in)
	case ReplySent:
		m.replySent(in)
	case Post:
		m.post(in)
	case PostTried:
		m.postTried(in)
	case PostBuried:
		m.postBuried(in)
	case Appended:
		m.appended(in)
	case AppendLost:
		m.stepDown(in.Err)
	case Listed:
		m.listing, m.listed = false, true
		m.decideSignals()
	case Looked:
		m.looked(in)
	case Model:
		m.model(in)
	case ToolDone:
		m.toolDone(in)
	case ToolSuspended:
		m.toolSuspended(in)
	case StepDone:
		m.stepDone(in)
	case WaitFor:
		m.waitFor(in)
	case TaskCalled:
		m.taskCalled(in)
	case DeliveryStarted:
		m.deliveryStarted(in)
	case ResponseFinished:
		m.responseFinished(in)
	case Compact:
		m.compactNow(in)
	case Summarized:
		m.summarized(in)
	case Tick:
		m.tick(in)
	case Drain:
		m.drain()
	}
}

func (m *Machine) tick(in Tick) {
	switch in.Timer {
	case TimerPace:
		m.paceSet = false
	case TimerBudget:
		m.budgetSpent()
	case TimerRetry:
		if w := m.workOf(in.Gen); w != nil && w.phase == phaseRetry {
			m.startCall(w)
		}
	case TimerDue:
		m.dueAt = 0
		m.unpark()
	case TimerIdle:
		if m.idle() || !staysAtWork() {
			m.stop(StopPassivated, nil)
		}
	}
}

// advance does what the step has made possible. The order is part of what is decided:
//
//   - Callers first. Some are answered only while the state has nothing that is not durable,
//     and what is settled below tells how long its sender waited.
//   - Then the author, of settlements, before a checkpoint cuts what they are about out of
//     the state, and before the next attempt begins.
//   - Calls that waited for room take it before work that continues brings more of them.
//   - A checkpoint needs a state that is durable to its last record. What continues below
//     enqueues, so this is the one moment between two batches.
//   - Work continues, and may begin other; then it shows whether all that runs waits for a
//     time, and only then for which, so that its timer is set once.
//   - The append follows all that enqueue: what a step has made leaves in one batch.
//   - Rest comes last: idle is who has begun none of the above.
func (m *Machine) advance() {
	if m.stopped {
		return
	}
	m.flush()
	m.showSettled()
	m.sendReplies()
	m.sendPosts()
	m.startWaiting()
	m.checkpoint(m.cfg.CheckpointBatches)
	if m.work == nil && m.cfg.RestBatches > 0 {
		m.checkpoint(m.cfg.RestBatches)
	}
	m.continueWork()
	m.suspendWork()
	m.keepTimer()
	m.driveAppend()
	m.rest()
}

// idle reports that nothing is under way. A listing is waited for too: it would
// outlive the activation and nobody would take it back. So is a timer that is being
// stored: until then only the journal, and this machine, know of what is parked.
func (m *Machine) idle() bool {
	return m.work == nil && m.timed() && (m.draining || !m.ready()) && len(m.jobs) == 0 && m.inflight == nil && m.pending.empty() && len(m.waits) == 0 && !m.listing
}

// rest looks after a machine with nothing to do.
func (m *Machine) rest() {
	idle := m.idle()
	if (idle || !unlistsWhenDurable()) && m.listed && !m.owes() {
		m.listed = false
		m.emit(Unlist{})
	}
	if !idle {
		m.idling = false
		return
	}
	if m.draining {
		m.stop(StopDrained, nil)
		return
	}
	if !m.idling {
		m.idling = true
		m.emit(SetTimer{Timer: TimerIdle, After: m.cfg.IdleAfter})
	}
}

func (m *Machine) drain() {
	m.draining = true
	m.turnSignalsAway()
	var sub *conversation.Submission
	if m.work != nil {
		sub = m.sub(m.work)
	}
	elapsed := m.elapsed()
	m.cancel(conversation.ReasonHandover)
	if sub == nil {
		return
	}
	m.enqueue(true, &conversation.AttemptReleased{Submission: sub.ID, Attempt: sub.Attempts, Reason: "drain", ElapsedMs: elapsed, At: m.env.Wall})
}

// stepDown ends the machine after a lost append.
func (m *Machine) stepDown(err error) {
	for _, w := range m.waits {
		switch {
		case w.probe != nil:
			m.emit(Reply{w.to, Probed{Unknown: true}})
		case w.timer != nil:
			m.emit(Reply{w.to, TimerChecked{Unknown: true}})
		default:
			m.emit(Reply{w.to, Moved{}})
		}
	}
	m.waits = nil
	m.turnSignalsAway()
	if !staysListed() {
		m.emit(Unlist{})
	}
	m.stop(StopLost, err)
}

func (m *Machine) stop(reason StopReason, err error) {
	if reason == StopPassivated || reason == StopDrained {
		m.checkpoint(m.cfg.CheckpointBatches / 8)
	}
	m.cancel(conversation.ReasonInterrupted)
	m.stopped = true
	m.emit(Stop{reason, err})
}
