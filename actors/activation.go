package actors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/parleyrun/parley/actors/internal/events"
	"github.com/parleyrun/parley/actors/internal/grain"
	"github.com/parleyrun/parley/actors/internal/history"
	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/actors/internal/pending"
	"github.com/parleyrun/parley/actors/internal/wire"
	"github.com/parleyrun/parley/actors/internal/work"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/storage"
)

const (
	// maxPendingBytes bounds the streamed text that waits for an append. Beyond it the model's stream
	// is held back.
	maxPendingBytes = 4 << 20
	// checkpointBytes is the log growth that triggers a checkpoint; see docs/architecture.md.
	checkpointBytes = 256 << 10
)

// Effect results that the activation handles itself; the machine never sees them.
type (
	appendDone struct {
		batch  conversation.Batch
		stored storage.Batch
		err    error
	}
	modelReady struct{ gen int }
	workRuns   func()
	workAsks   struct {
		question machine.Question
		done     func(machine.Answer)
	}
)

// activation is one conversation in memory: the machine and the performer of its effects. All fields
// belong to the actor's goroutine.
type activation struct {
	rt      *Runtime
	key     conversation.Key
	log     *slog.Logger
	self    *self
	machine *machine.Machine
	clock   pending.Clock // clock of the waits; set once
	random  io.Reader
	writer  *logWriter
	archive *history.Archive // nil until the log is open
	work    *work.Runner     // nil until the log is open
	tap     *events.Tap
	callers callers
	timers  timers
	opening opening
	share   share
}

var _ grain.Grain = (*activation)(nil)

func newActivation(r *Runtime) *activation { return &activation{rt: r} }

// self is the part of the activation that other goroutines may use.
type self struct {
	*grain.Self
	ctx      context.Context // ends with the activation
	end      context.CancelFunc
	stopping bool // the activation ends after the current message; belongs to its goroutine
}

// Start implements grain.Grain. It registers the activation, which opens its log with the first
// message.
func (a *activation) Start(of *grain.Self) {
	a.self, a.key = &self{Self: of}, conversation.Key(of.ID())
	a.self.ctx, a.self.end = context.WithCancel(a.rt.tasks.ctx)
	a.random, a.tap, a.machine = a.rt.world.entropy(a.key), a.rt.events.Tap(a.key), machine.New(&a.rt.active.machines)
	var waited bool
	if a.clock, waited = a.rt.sweeper.Timers.Clock(a.key); !waited {
		a.clock = pending.NewClock(a.rt.world.wall())
	}
	a.timers.fire = func(m timerFired) { of.Send(m) }
	a.writer = newLogWriter(a.rt.active.writerCache.take(a.key))
	if a.writer.passivated != nil {
		a.assume(a.writer.passivated.name())
	} else {
		a.assume(newNonce(a.random))
	}
	a.opening.begin(func() { of.Send(noMessage{}) })
}

// assume sets the writer's nonce and registers the activation under it.
func (a *activation) assume(nonce storage.Nonce) {
	a.log = a.rt.opts.Logger.With("conversation", string(a.key), "nonce", string(nonce))
	a.rt.active.enter(a.key, running{nonce: nonce, send: a.self.Send, tip: a.writer.assume(nonce)})
}

// Receive implements grain.Grain. It never blocks.
func (a *activation) Receive(message any, from grain.Sender) (passivate bool) {
	a.beginFor(message)
	switch m := message.(type) {
	case *ownAdmission:
		a.decide(from, readAdmission{admission: m.admission, precheck: m.GetPrecheck(), asker: m.asker})
	case *wire.AdmitRequest:
		a.admit(from, m)
	case *wire.AbortRequest:
		a.step(abortInput(m, a.callers.add(answers(from))))
	case *wire.TreeRequest:
		a.answerTree(m, from)
	case *wire.CompactRequest:
		a.step(machine.Compact{To: a.callers.add(answers(from)), Instructions: m.GetInstructions()})
	case *wire.ProbeRequest:
		if m.GetNonce() == "" {
			a.checkLog()
			from.Answer(answerMessage(machine.Probed{Unknown: true}))
			break
		}
		a.step(machine.Probe{To: a.callers.add(answers(from)), Nonce: m.GetNonce(), Seq: conversation.Offset(m.GetSeq())})
	case *wire.ResumeRequest:
		a.step(machine.CheckTimer{To: a.callers.add(answers(from)), At: conversation.Offset(m.GetSeq())})
	case openedLog:
		a.opened(m)
	case appendDone:
		a.appended(m)
	case checkLog:
		a.checkLog()
	case checkedLog:
		a.checkedLog(m)
	case modelReady:
		a.drainFeed(m.gen)
	case workRuns:
		m()
	case workAsks:
		a.step(m.question.For(a.callers.add(m.done)))
	case machine.Input:
		a.step(m)
	case grain.HandOver:
		a.rt.active.handedOver.Add(1)
		a.step(machine.Drain{})
	case readAdmission:
		a.decide(from, m)
	case checkedAdmission:
		a.take(from, m)
	case timerFired:
		if in, ok := a.timers.fired(m); ok {
			a.step(in)
		}
	}
	return a.self.stopping
}

// Stop implements grain.Grain. It cancels the work of the activation; later results are dropped.
func (a *activation) Stop() {
	a.self.end()
	a.opening.timeout.Stop()
	a.timers.stop()
	a.callers.answerAll(machine.Moved{}) // callers still waiting after a stop that the machine did not decide
	if !a.self.stopping {
		a.rt.sweeper.SweepSoon()
	}
	a.share.end(a.rt)
	if a.machine.Open() {
		if waits, head := a.machine.Waits(); len(waits) == 0 {
			a.rt.sweeper.Timers.Drop(a.key, int64(head))
		}
	}
	if a.writer.passivated != nil { // The log was never opened.
		a.rt.active.writerCache.putBack(a.key, *a.writer.passivated)
	}
	a.rt.active.leave(a.key, a.writer.nonce)
	a.tap.Closed()
	if a.writer.handedOver {
		a.rt.sweeper.ProbeSoon()
	}
}

// step feeds the machine an input and performs the resulting effects.
func (a *activation) step(in machine.Input) {
	env := a.rt.world.env(a.clock)
	if _, err := io.ReadFull(a.random, env.Seed[:]); err != nil {
		panic(fmt.Sprintf("actors: read randomness: %v", err))
	}
	for _, e := range a.machine.Step(env, in) {
		a.perform(e)
	}
	held := int64(perConversation + a.machine.Bytes())
	if a.archive != nil {
		held += a.archive.Weight()
	}
	unsettled, _ := a.machine.Unsettled()
	a.share.hold(a.rt, held, int64(unsettled), a.machine.Idle())
	if a.work != nil && !a.machine.Full() {
		for _, gen := range a.work.Starved() {
			a.drainFeed(gen)
		}
	}
}

func (a *activation) perform(e machine.Effect) {
	switch e := e.(type) {
	case machine.Append:
		a.append(e.Batch)
	case machine.List:
		a.rt.sweeper.Journal.List(a.entry(), int64(e.Seq), func() { a.self.Send(machine.Listed{}) })
	case machine.ReadTail:
		a.findTail(e)
	case machine.Unlist:
		a.rt.sweeper.Journal.Unlist(a.entry())
	case machine.Reply:
		a.reply(e)
	case machine.StoreTimer:
		a.storeTimer(e)
	case machine.SendReply:
		a.sendReply(e)
	case machine.SendPost:
		a.sendPost(e)
	case machine.StoreDeadLetter:
		a.storeDeadLetter(e)
	case machine.Checkpoint:
		a.archive.Checkpoint(a.writer.checkpoint(e, a.tap.Exported()))
	case machine.SetTimer:
		a.setTimer(e)
	case machine.Stop:
		a.stop(e)
	default:
		if a.work != nil { // Before the log is open there is nothing to cancel.
			a.work.Do(e, a.machine.State())
		}
	}
}

// entry returns the id of this writer's pending-work entry.
func (a *activation) entry() pending.ID { return pending.ID{Conv: a.key, Nonce: a.writer.nonce} }

// drainFeed passes the output of model call gen to the machine if it has room. Otherwise the next
// landed append retries.
func (a *activation) drainFeed(gen int) {
	if in, ok := a.work.Take(gen, a.machine.Full()); ok {
		a.step(in)
	}
}

// append stores a batch in the background; its outcome arrives as appendDone.
func (a *activation) append(b conversation.Batch) {
	at, w := conversation.TimeOf(time.Now()), a.writer.log
	a.rt.tasks.spawn(func() {
		lines, err := a.rt.encode(b)
		if err != nil {
			a.self.Send(appendDone{batch: b, err: err})
			return
		}
		held := int64(len(lines))
		a.rt.accounts.writes.Add(held)
		defer a.rt.accounts.writes.Add(-held)
		ctx, cancel := context.WithTimeout(a.self.ctx, a.rt.opts.AppendTimeout)
		defer cancel()
		_, err = w.Append(withPending(ctx, lines), lines, at)
		a.self.Send(appendDone{batch: b, stored: w.Stored(), err: err})
	})
}

// encode encodes records. Large batches wait for their turn.
func (r *Runtime) encode(b conversation.Batch) ([]byte, error) {
	defer r.accounts.conversations.Turn(machine.Weight(b.Records))()
	return conversation.EncodeRecords(nil, b.Records)
}

// appended offers a durable batch to the readers of this node before it notifies the machine. So an
// offset in a reply is never ahead of what a reader can read.
func (a *activation) appended(m appendDone) {
	if m.err != nil {
		a.step(machine.AppendLost{Err: m.err})
		return
	}
	before := a.writer.landed(m.stored.Position())
	a.rt.nodes.publish(a.key, m.stored) // Remote followers come first: their path is longer, and local readers compete for the CPU.
	a.rt.followers.Offer(a.key, m.stored.Position(), before.Hash, m.batch.Records, len(m.stored.Lines))
	a.tap.Landed(m.batch)
	a.archive.Wrote(m.stored)
	if at, ok := a.machine.Address(); ok {
		a.archive.Active(storage.IndexEntry{Address: at, Day: storage.DayOf(m.stored.At)})
	}
	a.step(machine.Appended{Offset: m.batch.Offset})
	a.work.Landed(a.machine, m.batch.Offset)
}

func (a *activation) reply(e machine.Reply) {
	if p, ok := e.Value.(machine.Probed); ok && !p.Held && !a.tap.MayEvict() {
		e.Value = machine.Probed{Unknown: true} // The next sweep retries.
	}
	a.callers.answer(e.To, e.Value)
}

// setTimer sets a timer. The timer of an idle activation may fire early, if it is evicted.
func (a *activation) setTimer(e machine.SetTimer) {
	fired := a.timers.set(e)
	if e.Timer == machine.TimerIdle {
		a.share.shelve(a.rt, func() { a.self.Send(fired) })
	}
}

// stop ends the activation after the current message.
func (a *activation) stop(e machine.Stop) {
	a.self.stopping = true
	switch e.Reason {
	case machine.StopPassivated:
		if a.writer.claimed {
			a.rt.active.writerCache.put(a.key, a.writer.nonce, a.writer.tail, a.archive.DayIndexed(), a.tap.Shipped())
		}
	case machine.StopDrained:
		a.writer.handedOver = true
	case machine.StopLost:
		fenced := errors.Is(e.Err, storage.ErrFenced)
		if fenced {
			a.rt.active.fences.Add(1)
		}
		a.log.Warn("conversation stepped down", "fenced", fenced, "err", e.Err)
		_, first := a.machine.Unsettled()
		a.tap.Recovery(first, &observability.SubmissionRecovery{
			Operation: observability.RecoveryProcess, Outcome: observability.OutcomeDeferred, Fenced: fenced,
		})
		a.rt.sweeper.SweepSoon()
	case machine.StopUnread:
		if conversation.CodeOf(e.Err) == conversation.CodeQuarantined {
			break // It was logged when the conversation was quarantined.
		}
		if a.rt.sweeper.IsNewCause(a.key, e.Err) {
			a.log.Error("conversation cannot be opened", "err", e.Err)
			a.tap.Recovery("", &observability.SubmissionRecovery{
				Operation: observability.RecoveryReconcile, Outcome: observability.OutcomeDeferred,
			})
		}
	}
}
