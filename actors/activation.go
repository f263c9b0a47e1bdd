package actors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"github.com/oklog/ulid/v2"
	"google.golang.org/protobuf/proto"

	"github.com/parleyrun/parley/actors/internal/busy"
	"github.com/parleyrun/parley/actors/internal/events"
	"github.com/parleyrun/parley/actors/internal/grain"
	"github.com/parleyrun/parley/actors/internal/history"
	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/actors/internal/wire"
	"github.com/parleyrun/parley/actors/internal/work"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/memory"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/storage"
)

const (
	// maxPendingBytes is the streamed text that may wait for an append before the
	// model's stream is held back.
	maxPendingBytes = 4 << 20
	// checkpointBytes is what docs/architecture.md has.
	checkpointBytes = 256 << 10
	// maxViewBytes bounds what a model is shown of a conversation, in bytes of text: several
	// times what the largest context windows hold. Beyond it nobody is asked.
	maxViewBytes = 16 << 20
)

// Results of effects, sent to the activation's own PID.
type (
	appendDone struct {
		batch  conversation.Batch
		stored storage.Batch
		err    error
	}
	modelReady  struct{ gen int }
	stepRequest struct {
		in   machine.StepDone
		done func(machine.Answer)
	}
	timerFired struct {
		timer machine.Timer
		n     int
	}
)

// activation is one conversation in memory: the machine and what performs its
// effects. All fields belong to the actor's goroutine.
type activation struct {
	rt      *Runtime
	log     *slog.Logger
	key     conversation.Key
	nonce   storage.Nonce
	resting *restingWriter // the one to go on as, if the log has not moved on; nil once it is open
	random  io.Reader
	root    *actor.RootContext
	self    *actor.PID
	ctx     context.Context // ends with the activation
	cancel  context.CancelFunc

	clock   busy.Clock // that its waits go by; set once
	machine *machine.Machine
	writer  *storage.Writer
	claimed bool // the writer has a durable batch
	tail    storage.Position
	tip     *atomic.Int64 // for other goroutines: the tail's number once the claim is verified, else -1
	owed    int64         // submissions, as counted in the runtime
	writers int64         // how many there are, this one included once it has a batch
	archive *history.Archive

	callers    map[machine.ReplyID]func(machine.Answer)
	nextCaller machine.ReplyID
	timers     [machine.Timers]activationTimer
	retries    map[int]*time.Timer // of failed model calls, by gen
	work       *work.Runner        // nil until the log is open
	tap        *events.Tap
	unasked    *time.Timer
	begun      bool          // to open the log
	asked      bool          // by a client, for something
	isOpen     chan struct{} // closed when the machine has the log, or never will
	checking   bool          // whether the log could be opened once more
	stopping   bool
	handedOver bool         // and what it owes is another node's now
	charged    int64        // bytes, see accounts
	kept       *memory.Kept // while it has nothing to do
}

type activationTimer struct {
	t *time.Timer
	n int
}

func newActivation(r *Runtime) *activation {
	return &activation{rt: r, callers: map[machine.ReplyID]func(machine.Answer){}}
}

// Receive implements actor.Actor. It never blocks.
func (a *activation) Receive(ctx actor.Context) {
	a.beginFor(ctx.Message())
	switch m := ctx.Message().(type) {
	case *actor.Started:
		a.root, a.self = ctx.ActorSystem().Root, ctx.Self()
	case *cluster.ClusterInit:
		a.start(conversation.Key(m.Identity.GetIdentity()))
	case *actor.Stopping:
		a.end()
	case *wire.AdmitRequest:
		a.admit(ctx.Sender(), m)
	case *wire.AbortRequest:
		a.step(machine.Abort{To: a.caller(a.answers(ctx.Sender()))})
	case *wire.CompactRequest:
		a.step(machine.Compact{To: a.caller(a.answers(ctx.Sender())), Instructions: m.GetInstructions()})
	case *wire.PokeRequest:
		if m.GetNonce() == "" {
			a.checkLog()
			a.root.Send(ctx.Sender(), answerMessage(machine.Poked{Unknown: true}))
			break
		}
		a.step(machine.Poke{To: a.caller(a.answers(ctx.Sender())), Nonce: m.GetNonce(), Seq: conversation.Offset(m.GetSeq())})
	case *wire.WakeRequest:
		a.step(machine.Wake{To: a.caller(a.answers(ctx.Sender())), At: conversation.Offset(m.GetSeq())})
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
	case stepRequest:
		m.in.To = a.caller(m.done)
		a.step(m.in)
	case machine.Input:
		a.step(m)
	case grain.HandOver:
		a.rt.counts.handedOver.Add(1)
		a.step(machine.Drain{})
	case readAdmission:
		a.decide(ctx.Sender(), m)
	case checkedAdmission:
		a.take(ctx.Sender(), m)
	case timerFired:
		a.tick(m)
	}
	if a.stopping {
		grain.Passivate(ctx)
	}
}

// start begins the life of the activation: it registers and opens its log.
func (a *activation) start(key conversation.Key) {
	a.key, a.random = key, a.rt.entropy(key)
	a.tap = a.rt.events.Tap(key)
	a.ctx, a.cancel = context.WithCancel(a.rt.life)
	a.machine = machine.New(&a.rt.machines)
	var waited bool
	if a.clock, waited = a.rt.busy.Timers.Clock(key); !waited {
		a.clock = busy.NewClock(a.rt.wall())
	}
	a.resting = a.rt.resting.take(key)
	if a.resting != nil {
		a.assume(a.resting.name())
	} else {
		a.assume(a.newNonce())
	}
	a.isOpen = make(chan struct{})
	a.unasked = time.AfterFunc(firstMessage, func() { a.tell(unasked{}) })
}

func (a *activation) newNonce() storage.Nonce {
	return storage.Nonce(ulid.MustNew(ulid.Now(), a.random).String())
}

// assume gives the activation the name that it writes under.
func (a *activation) assume(nonce storage.Nonce) {
	a.nonce = nonce
	a.log = a.rt.log.With("conversation", string(a.key), "nonce", string(nonce))
	a.tip = new(atomic.Int64)
	a.tip.Store(-1)
	a.rt.enter(a.key, running{nonce: nonce, tell: a.tell, tip: a.tip})
}

// tell sends a message to the activation from any goroutine.
func (a *activation) tell(m any) { a.root.Send(a.self, m) }

// end cancels what runs for the activation. Results that come later reach nobody.
func (a *activation) end() {
	if a.cancel == nil {
		return
	}
	a.cancel()
	a.unasked.Stop()
	for i := range a.timers {
		if a.timers[i].t != nil {
			a.timers[i].t.Stop()
		}
	}
	for _, t := range a.retries {
		t.Stop()
	}
	for _, answer := range a.callers { // those of an end that the machine did not decide
		answer(machine.Moved{})
	}
	if !a.stopping {
		a.rt.busy.SweepSoon()
	}
	a.rt.counts.owed.Add(-a.owed)
	a.owed = 0
	a.kept.Take()
	a.discharge()
	a.forgetWait()
	if a.resting != nil { // It was not opened.
		a.rt.resting.putBack(a.key, *a.resting)
	}
	a.rt.leave(a.key, a.nonce)
	a.tap.Closed()
	if a.handedOver {
		a.rt.busy.PokeSoon()
	}
}

// firstOwed is the submission that is owed its settlement first, "" if none is.
func (a *activation) firstOwed() conversation.SubmissionID {
	if s := a.machine.State(); s != nil && len(s.Unsettled()) > 0 {
		return s.Unsettled()[0].ID
	}
	return ""
}

// caller remembers who waits for a reply.
func (a *activation) caller(answer func(machine.Answer)) machine.ReplyID {
	a.nextCaller++
	a.callers[a.nextCaller] = answer
	return a.nextCaller
}

// answers brings answers to who has sent a request.
func (a *activation) answers(sender *actor.PID) func(machine.Answer) {
	return func(v machine.Answer) {
		if sender != nil {
			a.root.Send(sender, answerMessage(v))
		}
	}
}

// step feeds the machine and performs what it asks for.
func (a *activation) step(in machine.Input) {
	wall := a.rt.wall()
	env := machine.Env{Wall: conversation.TimeOf(wall), Ahead: a.clock.Ahead(wall), Mono: time.Since(a.rt.began)}
	if _, err := io.ReadFull(a.random, env.Seed[:]); err != nil {
		panic(fmt.Sprintf("actors: read randomness: %v", err))
	}
	for _, e := range a.machine.Step(env, in) {
		a.perform(e)
	}
	a.countOwed()
	if !a.machine.Idle() {
		a.kept.Take()
	}
	a.charge()
	a.rt.accounts.idle.Trim()
	if a.work != nil && !a.machine.Full() {
		for _, gen := range a.work.Starved() {
			a.drainFeed(gen)
		}
	}
}

// countOwed keeps the node's count of submissions that wait or run.
func (a *activation) countOwed() {
	owed := int64(0)
	if s := a.machine.State(); s != nil && !a.machine.Stopped() {
		owed = int64(len(s.Unsettled()))
	}
	a.rt.counts.owed.Add(owed - a.owed)
	a.owed = owed
}

func (a *activation) perform(e machine.Effect) {
	switch e := e.(type) {
	case machine.Append:
		a.append(e.Batch)
	case machine.List:
		a.rt.busy.Journal.List(busy.ID{Conv: a.key, Nonce: a.nonce}, int64(e.Seq), func() { a.tell(machine.Listed{}) })
	case machine.Look:
		a.look(e)
	case machine.Unlist:
		a.rt.busy.Journal.Unlist(busy.ID{Conv: a.key, Nonce: a.nonce})
	case machine.Reply:
		a.reply(e)
	case machine.StoreTimer:
		a.storeTimer(e)
	case machine.Checkpoint:
		a.archive.Checkpoint(a.checkpoint(e))
	case machine.SetTimer:
		a.setTimer(e)
	case machine.Stop:
		a.stop(e)
	default:
		if a.work != nil { // Before it is open there is nothing to cancel.
			a.work.Do(e, a.machine.State())
		}
	}
}

// drainFeed gives the machine what the model call gen has produced, unless it has no room:
// then the next landed append asks again.
func (a *activation) drainFeed(gen int) {
	if in, ok := a.work.Take(gen, a.machine.Full()); ok {
		a.step(in)
	}
}

// append stores a batch in the background; appendDone brings the outcome.
func (a *activation) append(b conversation.Batch) {
	at := conversation.TimeOf(time.Now())
	a.rt.spawn(func() {
		lines, err := a.encode(b)
		if err != nil {
			a.tell(appendDone{batch: b, err: err})
			return
		}
		ctx, cancel := context.WithTimeout(a.ctx, a.rt.opts.AppendTimeout)
		defer cancel()
		_, err = a.writer.Append(withPending(ctx, lines), lines, at)
		a.tell(appendDone{batch: b, stored: a.writer.Stored(), err: err})
	})
}

// encode encodes records, at their turn if they are long.
func (a *activation) encode(b conversation.Batch) ([]byte, error) {
	defer a.rt.accounts.conversations.Turn(machine.Weight(b.Records))()
	return conversation.EncodeRecords(nil, b.Records)
}

// appended shows a durable batch to the readers of this node before it tells the
// machine, so that an offset in a reply is never ahead of what can be read.
func (a *activation) appended(m appendDone) {
	if m.err != nil {
		a.step(machine.AppendLost{Err: m.err})
		return
	}
	at := m.stored.Position()
	a.tip.Store(at.Seq)
	if a.rt.relay != nil { // First: it has the longer way, and readers here take the processors.
		a.rt.relay.Publish(a.key, m.stored)
	}
	a.rt.followers.Offer(a.key, at, a.tail.Hash, m.batch.Records, len(m.stored.Lines))
	a.tap.Landed(m.batch)
	a.wrote(m.stored)
	a.tail, a.claimed = at, true
	a.step(machine.Appended{Offset: m.batch.Offset})
}

func (a *activation) reply(e machine.Reply) {
	if p, ok := e.Value.(machine.Poked); ok && !p.Held && !a.tap.MayForget() {
		e.Value = machine.Poked{Unknown: true} // The next sweep asks again.
	}
	answer := a.callers[e.To]
	delete(a.callers, e.To)
	if answer != nil {
		answer(e.Value)
	}
}

func answerMessage(v machine.Answer) proto.Message {
	switch v := v.(type) {
	case machine.Admitted:
		return &wire.OwnerReply{Result: &wire.OwnerReply_Receipt{Receipt: &wire.Receipt{
			SubmissionId: string(v.Receipt.SubmissionID), Uid: string(v.Receipt.UID),
			Offset: int64(v.Receipt.Offset), Deduplicated: v.Receipt.Deduplicated,
		}}}
	case machine.Refused:
		return &wire.OwnerReply{Result: &wire.OwnerReply_Failure{Failure: failureOf(v.Err)}}
	case machine.Aborted:
		return &wire.OwnerReply{Result: &wire.OwnerReply_Aborted{Aborted: v.Any}}
	case machine.Compacted:
		return &wire.OwnerReply{Result: &wire.OwnerReply_Compacted{Compacted: v.Any}}
	case machine.Clear:
		return &wire.OwnerReply{Result: &wire.OwnerReply_Clear{Clear: true}}
	case machine.Woken:
		return wakeReply(v)
	case machine.Poked:
		switch {
		case v.Unknown:
			return &wire.PokeReply{Answer: wire.PokeReply_UNKNOWN}
		case v.Held:
			return &wire.PokeReply{Answer: wire.PokeReply_HELD}
		}
		return &wire.PokeReply{Answer: wire.PokeReply_SETTLED}
	}
	moved, ok := v.(machine.Moved)
	return &wire.OwnerReply{Result: &wire.OwnerReply_Moved{Moved: true}, Untouched: ok && moved.Untouched}
}

// setTimer sets a timer.
func (a *activation) setTimer(e machine.SetTimer) {
	if e.Timer == machine.TimerRetry {
		if a.retries == nil {
			a.retries = map[int]*time.Timer{}
		}
		fired := timerFired{timer: e.Timer, n: e.Gen}
		a.retries[e.Gen] = time.AfterFunc(e.After, func() { a.tell(fired) })
		return
	}
	slot := &a.timers[e.Timer]
	if slot.t != nil {
		slot.t.Stop()
	}
	slot.n++
	fired := timerFired{e.Timer, slot.n}
	if e.Timer == machine.TimerIdle {
		a.rest(fired)
	}
	slot.t = time.AfterFunc(e.After, func() { a.tell(fired) })
}

// tick hands a timer that went off to the machine, unless it was set anew.
func (a *activation) tick(m timerFired) {
	if m.timer == machine.TimerRetry {
		delete(a.retries, m.n)
		a.step(machine.Tick{Timer: m.timer, Gen: m.n})
		return
	}
	if a.timers[m.timer].n == m.n {
		a.step(machine.Tick{Timer: m.timer})
	}
}

// stop ends the activation once the message at hand is done.
func (a *activation) stop(e machine.Stop) {
	a.stopping = true
	switch e.Reason {
	case machine.StopPassivated:
		if a.claimed {
			a.rt.resting.put(a.key, a.nonce, a.tail, a.archive.DayIndexed(), a.tap.Shipped())
		}
	case machine.StopDrained:
		a.handedOver = true
	case machine.StopLost:
		fenced := errors.Is(e.Err, storage.ErrFenced)
		if fenced {
			a.rt.counts.fences.Add(1)
		}
		a.log.Warn("conversation stepped down", "fenced", fenced, "err", e.Err)
		a.tap.Recovery(a.firstOwed(), &observability.SubmissionRecovery{
			Operation: observability.RecoveryProcess, Outcome: observability.OutcomeDeferred, Fenced: fenced,
		})
		a.rt.busy.SweepSoon()
	case machine.StopUnread:
		if conversation.CodeOf(e.Err) == conversation.CodeSetAside {
			break // It was told when it was.
		}
		if a.rt.busy.IsNews(a.key, e.Err) {
			a.log.Error("conversation cannot be opened", "err", e.Err)
			a.tap.Recovery("", &observability.SubmissionRecovery{
				Operation: observability.RecoveryReconcile, Outcome: observability.OutcomeDeferred,
			})
		}
	}
}

// checkpoint is one of the log as the activation knows it.
func (a *activation) checkpoint(e machine.Checkpoint) *history.Due {
	writers := a.writers
	if !a.claimed {
		writers-- // this one
	}
	due := &history.Due{
		Checkpoint: storage.Checkpoint{At: a.tail, Writers: writers, Exported: a.tap.Exported(), State: e.State},
		Address:    a.machine.State().Created().Address(), Day: storage.DayOf(conversation.TimeOf(time.Now())), Closed: e.Closed,
	}
	for _, c := range e.Claims {
		due.Claims = append(due.Claims, storage.Claim{Seq: int64(c.Seq), Nonce: storage.Nonce(c.Nonce)})
	}
	return due
}

// wrote takes note of a batch of this writer that is durable and verified.
func (a *activation) wrote(b storage.Batch) {
	a.archive.Wrote(b)
	if created := a.machine.State().Created(); created != nil {
		a.archive.Active(storage.IndexEntry{Address: created.Address(), Day: storage.DayOf(b.At)})
	}
}
