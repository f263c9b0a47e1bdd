package machine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// Limits are the rules of an agent that the machine enforces.
type Limits struct {
	MaxAttempts int
	// Patience bounds the total wait for vendor retry hints of one reply.
	Patience time.Duration
	// Timeout bounds the monotonic time of all attempts at one submission; for a run, since its last
	// suspension.
	Timeout time.Duration
	// ToolConcurrency bounds the calls of a turn that run at once, at least 1.
	ToolConcurrency int
	// MaxResponse bounds the model output of a response, or of a subagent's work, in bytes as
	// [conversation.Submission.OutputBytes] counts them. MaxCalls bounds the calls of one reply.
	MaxResponse, MaxCalls int
	// MaxCallBytes bounds the outcomes of the calls of a response and its subagents, in bytes as
	// [conversation.State.CallBytes] counts them.
	MaxCallBytes int
	// MaxTurns, MaxToolCalls, MaxTokens and MaxDollars bound a submission as [conversation.Spent]
	// counts it. MaxTokens and MaxDollars 0 mean no limit.
	MaxTurns, MaxToolCalls int
	MaxTokens              int64
	MaxDollars             float64
	// MaxTree and MaxTreeDollars bound the dispatch trees rooted here, as [conversation.Tree] counts
	// them; 0 means no limit.
	MaxTree        int
	MaxTreeDollars float64
	// These enable the author's hooks: before the first model call for a delivery, before a response
	// settles, and after a settlement.
	DeliveryStartedHook, ResponseFinishedHook, SettledHook bool
	// AnswerInOrder makes later submissions wait for a suspended one.
	AnswerInOrder bool
	// Function is the tool that handles deliveries of a workflow in place of a model; "" for an agent.
	Function string
	// Notify lists the targets that are notified of each settlement.
	Notify []string
}

// replies reports whether an outbox target is an [outbox.ReplyTarget], which serves conversations of
// one channel only.
func (m *Machine) replies(target string) bool { return m.cfg.Replies != nil && m.cfg.Replies(target) }

// Config configures machines. All fields but Replies are required.
type Config struct {
	// Limits returns the rules of a registered agent.
	Limits func(agent string) (Limits, bool)
	// Replies reports whether a target of the outbox is an [outbox.ReplyTarget]; nil for none.
	Replies func(target string) bool
	// Pace is the minimum time between the starts of two appends of streamed text.
	Pace time.Duration
	// RetryPause is the pause before the first repetition of a failed model call. It doubles with each
	// repetition.
	RetryPause time.Duration
	// IdleAfter is how long an activation is idle before it passivates.
	IdleAfter time.Duration
	// MaxWaiting bounds the callers waiting for a reply, and the queued submissions. Above it callers
	// get CodeUnavailable.
	MaxWaiting int
	// MaxWaitingBytes bounds the queued deliveries in bytes. Above it callers get CodeUnavailable. A
	// delivery is always accepted if the queue is empty.
	MaxWaitingBytes int
	// CheckpointBatches and CheckpointBytes are the log growth after which a checkpoint is due. An
	// activation that ends writes one after an eighth of the batches; below that, reading the batches
	// costs little more than reading a checkpoint.
	CheckpointBatches, CheckpointBytes int
	// RestBatches replaces CheckpointBatches while no submission is under way, so that its batches can
	// be compacted. 0 keeps CheckpointBatches.
	RestBatches int
	// MaxPendingBytes bounds the data queued for an append. Above it streamed text is held back, see
	// [Machine.Full]; above twice as much admissions are refused.
	MaxPendingBytes int
	// MaxBatchBytes is the size above which a batch takes no more groups, and the limit for the
	// records of one call outcome. It must be far below the log's limit.
	MaxBatchBytes int
}

// Machine is the state of one activation.
//
// Invariant: state is folded through every record enqueued, durable or not.
// Invariant: inflight.Offset == durable+1 while an append is in flight.
type Machine struct {
	cfg          *Config
	writer       string // the nonce of this writer
	state        *conversation.State
	claims       []Claim
	lastBuilt    conversation.Time // build time of the last batch before this activation, see [Opened].Last
	backlog      []Input           // inputs before Opened
	backlogBytes int               // bytes of its admissions
	stopped      bool
	openErr      *conversation.Error // read error of the log, or nil

	durable       conversation.Offset
	claimed       bool // a batch of this writer is durable
	inflight      *conversation.Batch
	inflightBytes int // bytes of the batch in flight
	pending       pending
	lastStart     time.Duration
	started       bool // lastStart is set
	paceSet       bool

	waits     []wait
	signals   []Admit                                // for suspended calls, until a journal lists this writer
	receipts  map[conversation.SubmissionID]*receipt // receipts of unsettled submissions that this activation admitted
	sending   map[conversation.SubmissionID]bool     // replies being delivered
	posting   map[string]*posting                    // by target
	tailReads tailReads
	listing   bool
	listed    bool
	timers    map[StoreTimer]bool // timers of suspended submissions and deferred posts; true once stored
	dueAt     conversation.Time   // expiry of TimerDue, 0 if it is not set

	work     *work   // the attempt under way
	tasks    []*work // its subagents, oldest first
	jobs     []*compaction
	settled  []settlement // not durable yet
	gen      int          // newest generation of effects
	draining bool
	idling   bool

	grown grown
	size  int // size of the state at the last checkpoint or at opening

	env Env
	ids minter
	out []Effect
}

// pending holds the batches being composed. New records go to the last one.
//
// The records of one input, or of one event of a model call, form a group. A group stands in one
// batch, so that no crash separates its records.
type pending struct {
	batches []composed
	grouped bool // the current group has its batch: the last
	split   bool // the next group starts a new batch
	bytes   int  // bytes of all records
}

func (p *pending) empty() bool { return len(p.batches) == 0 }

func (p *pending) urgent() bool {
	return slices.ContainsFunc(p.batches, func(c composed) bool { return c.urgent })
}

type composed struct {
	records []conversation.Record // none in a claim
	text    []byte                // appended text of the last record, a delta
	urgent  bool
	bytes   int
	size    int // estimated size in the log
}

// wait is a caller that waits for durability.
type wait struct {
	to       ReplyID
	value    Answer
	offset   conversation.Offset
	listed   bool        // also waits until the journal lists this writer
	tailRead int         // also waits for the tail read of this number, 0 for none
	probe    *Probe      // set for a probe, whose answer is computed at the end; value is unused
	timer    *CheckTimer // set for a timer check, whose answer is computed at the end
	over     bool        // the timer was seen to be obsolete, at offset
}

// receipt measures an admission for the record of its settlement.
type receipt struct {
	came   time.Duration // Env.Mono of the admission
	waited int64         // milliseconds until the receipt was sent, 0 before
}

// New returns a machine that waits for [Opened]. Machines may share a configuration, which must not
// change.
func New(cfg *Config) *Machine {
	return &Machine{cfg: cfg, receipts: map[conversation.SubmissionID]*receipt{}, timers: map[StoreTimer]bool{}, sending: map[conversation.SubmissionID]bool{}, posting: map[string]*posting{}}
}

// State returns the folded state, nil before [Opened]. It is read-only and valid until the next Step.
func (m *Machine) State() *conversation.State { return m.state }

// Open reports whether the log was read.
func (m *Machine) Open() bool { return m.state != nil }

// Address returns the address of the conversation. ok is false before [Opened] and until the
// conversation exists.
func (m *Machine) Address() (at conversation.Address, ok bool) {
	if m.state == nil || !m.state.Exists() {
		return at, false
	}
	return m.state.Created().Address(), true
}

// Unsettled returns the number of unsettled submissions of this machine, and the one under way or else the
// first. A stopped machine returns 0 and the same submission.
func (m *Machine) Unsettled() (n int, first conversation.SubmissionID) {
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

// Waits returns the timers of suspended submissions and deferred posts as of head. The machine must be
// open.
func (m *Machine) Waits() (waits []StoreTimer, head conversation.Offset) {
	return m.wantedTimers(), m.state.Head()
}

// Stopped reports whether the machine has emitted [Stop]. It then answers every caller with [Moved],
// or with [Refused] if the log could not be read, and does nothing else.
func (m *Machine) Stopped() bool { return m.stopped }

// Idle reports whether the machine is idle. It has then set [TimerIdle] and passivates on its [Tick],
// which may come early.
func (m *Machine) Idle() bool { return m.idling && !m.stopped }

// Full reports whether to hold back streamed text until an append lands.
func (m *Machine) Full() bool { return m.pending.bytes >= m.cfg.MaxPendingBytes }

// Bytes returns the approximate memory of the machine: its state and queued data.
func (m *Machine) Bytes() int {
	waiting := 0
	for _, in := range m.signals {
		waiting += admissionWeight(in.Admission)
	}
	return waiting + m.size + m.grown.bytes + m.pending.bytes + m.backlogBytes + m.inflightBytes
}

// Step handles one input and returns the effects in order. The slice is valid until the next Step.
func (m *Machine) Step(env Env, in Input) []Effect {
	m.env, m.ids, m.out = env, minter{at: env.Wall, seed: env.Seed}, m.out[:0]
	if a, ok := in.(Admit); ok {
		a.came = env.Mono
		in = a
	}
	switch {
	case m.stopped:
		m.rejectStopped(in)
	case m.state == nil:
		m.beforeOpen(in)
	default:
		m.take(in)
		m.advance()
	}
	return m.out
}

func (m *Machine) emit(e Effect) { m.out = append(m.out, e) }

// rejectStopped answers callers of a stopped machine. A machine that never opened did nothing for them.
func (m *Machine) rejectStopped(in Input) {
	var why Answer = Moved{Untouched: true}
	if m.openErr != nil {
		why = Refused{m.openErr}
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
		m.openErr = openError(in)
		m.stopUnread(Stop{StopUnread, in.Err})
	case Admit:
		w := admissionWeight(in.Admission)
		if len(m.backlog) >= m.cfg.MaxWaiting || m.backlogBytes > 0 && m.backlogBytes+w > 2*m.cfg.MaxPendingBytes {
			m.emit(Reply{in.To, Refused{overloaded(textOverloaded)}})
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
		m.queueUntilOpen(in.To, in)
	case Tree:
		m.queueUntilOpen(in.To, in)
	case Compact:
		m.queueUntilOpen(in.To, in)
	case Drain: // No work has begun, so the next owner need not wait until the log is read.
		m.stopUnread(Stop{Reason: StopDrained})
	}
}

func (m *Machine) stopUnread(why Stop) {
	m.stopped = true
	for _, b := range m.backlog {
		m.rejectStopped(b)
	}
	m.backlog, m.backlogBytes = nil, 0
	m.emit(why)
}

func (m *Machine) queueUntilOpen(to ReplyID, in Input) {
	if len(m.backlog) >= m.cfg.MaxWaiting {
		m.emit(Reply{to, Refused{overloaded(textOverloaded)}})
		return
	}
	m.backlog = append(m.backlog, in)
}

// overloaded returns a retryable refusal because of load.
func overloaded(format string, args ...any) *conversation.Error {
	err := conversation.Unavailable(time.Second, nil)
	err.Details = fmt.Sprintf(format, args...)
	return err
}

// openError returns the error for callers when the log could not be read.
func openError(in OpenFailed) *conversation.Error {
	var quarantined *conversation.Error
	if errors.As(in.Err, &quarantined) && quarantined.Code == conversation.CodeQuarantined {
		return quarantined
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
	m.tailReads.tail, m.lastBuilt = m.durable, in.Last
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
	case DeadLetterStored:
		m.postDeadLettered(in)
	case Appended:
		m.appended(in)
	case AppendLost:
		m.stepDown(in.Err)
	case Listed:
		m.listing, m.listed = false, true
		m.decideSignals()
	case TailRead:
		m.tailRead(in)
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
		m.resumeSuspended()
	case TimerIdle:
		if m.idle() || !staysAtWork() {
			m.stop(StopPassivated, nil)
		}
	}
}

// advance performs the work that the step has made possible. The order is significant:
//
//   - Callers come first. Some are answered only while all of the state is durable, and a settlement below reports how long
//     its sender waited.
//   - Settlement hooks follow, before a checkpoint cuts their submissions out of the state and before the next attempt starts.
//   - Waiting tool calls take free room before continued work adds more of them.
//   - A checkpoint needs a fully durable state. Continued work enqueues records, so this is the one moment between two batches.
//   - Work continues. Only then is it known whether everything waits for a time, and for which, so the timer is set once.
//   - The append follows everything that enqueues, so that one step fills one batch.
//   - The idle check comes last, because only then is it known that no work has started.
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
	m.setTimers()
	m.driveAppend()
	m.checkIdle()
}

// idle reports that nothing is under way. A pending listing counts, because nothing would cancel it
// after the activation. So does a timer being stored: until then only the journal and this machine
// know of the suspended submission.
func (m *Machine) idle() bool {
	return m.work == nil && m.timersStored() && (m.draining || !m.hasDueWork()) && len(m.jobs) == 0 && m.inflight == nil && m.pending.empty() && len(m.waits) == 0 && !m.listing
}

// checkIdle unlists the writer if no work is pending, and sets the idle timer or stops.
func (m *Machine) checkIdle() {
	idle := m.idle()
	if (idle || !unlistsWhenDurable()) && m.listed && !m.needsJournal() {
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
	m.rejectSignals()
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
	m.rejectSignals()
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
