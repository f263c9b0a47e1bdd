package machine_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/conversation"
)

// world surrounds a rig with callers, a journal, a model and tools that answer at random times, other
// writers and crashes. Its bucket may lose an append. A broken invariant panics with a violation.
type world struct {
	*rig
	r           *rand.Rand
	script      []string // the schedule in readable form
	activations int
	booted      bool
	read        bool // the activation is open
	calm        bool // no further faults or callers
	skewed      bool // some activation had a skewed clock

	durable *conversation.State // the log
	ahead   *conversation.State // the log and the batch in flight; nil once that is lost

	listing      bool
	listed       bool
	readingTail  bool
	tailReads    int                     // tail reads started
	lastTailRead int                     // newest answered tail read
	shown        conversation.Offset     // its tail
	asked        map[machine.ReplyID]int // tailReads at the time of the request
	journal      []listing               // entries in the bucket and in flight

	trees        trees
	receivers    receivers
	sending      []conversation.SubmissionID               // replies being sent
	received     map[conversation.SubmissionID]bool        // replies received
	storing      []machine.StoreTimer                      // timers being stored
	storedTimers map[conversation.Offset]conversation.Time // the timers in the bucket

	calls        []*modelCall
	tools        []*runningTool
	ending       *machine.FinishResponse // the response hook runs
	start        *machine.StartDelivery
	jobs         []machine.Summarize
	ran          map[conversation.CallID]bool
	shownSettled map[conversation.SubmissionID]bool // settlements shown to the author
	stale        []machine.Input                    // results of cancelled effects
	timers       map[machine.Tick]time.Duration

	caller  machine.ReplyID
	serial  int
	callers map[machine.ReplyID]machine.Input
	aborts  map[machine.ReplyID][]conversation.SubmissionID // unsettled submissions at the time of the abort
	sent    []conversation.Admission
	acked   map[conversation.SubmissionID]bool
	short   bool                              // model output is cut off
	big     bool                              // tool outputs are cut off
	turned  map[conversation.SubmissionID]int // ended model calls of unsettled submissions
	emitted map[conversation.TurnID]*output
	logged  map[conversation.TurnID]*output
	turns   map[conversation.MessageID]conversation.TurnID // newest turn of each response in the log

	results     map[string]json.RawMessage // results of waits, by call and name
	again       []func()                   // follow-ups of answers
	lateSignals map[machine.ReplyID]bool   // signals that came too late

	lastStart time.Duration
	appends   int // number of appends of this activation
	seen      map[string]int
}

type listing struct {
	writer  string
	seq     conversation.Offset
	landed  bool
	leaving bool
}

type modelCall struct {
	machine.CallModel
	called int // tools
}

type runningTool struct {
	machine.RunTool
	durable bool
	steps   map[string]bool // recorded steps
	asks    machine.ReplyID // request for a step being recorded; 0 if none
	asked   string
	waits   *machine.WaitOpen // it ends no later than that
	storing *machine.ToolDone // its output is being stored
}

// output is the text of a turn by kind.
type output struct{ text, reasoning string }

func (s *output) add(kind conversation.PartKind, text string) {
	if kind == conversation.PartReasoning {
		s.reasoning += text
		return
	}
	s.text += text
}

type violation string

func violate(format string, args ...any) { panic(violation(fmt.Sprintf(format, args...))) }

func newWorld(seed uint64, seen map[string]int) *world {
	w := &world{
		rig: newRig(), r: rand.New(rand.NewPCG(seed, 15)), seen: seen,
		timers: map[machine.Tick]time.Duration{}, callers: map[machine.ReplyID]machine.Input{},
		aborts: map[machine.ReplyID][]conversation.SubmissionID{}, asked: map[machine.ReplyID]int{},
		storedTimers: map[conversation.Offset]conversation.Time{},
		acked:        map[conversation.SubmissionID]bool{}, ran: map[conversation.CallID]bool{}, shownSettled: map[conversation.SubmissionID]bool{},
		emitted: map[conversation.TurnID]*output{}, logged: map[conversation.TurnID]*output{},
		trees: trees{open: map[string]bool{}, closed: map[conversation.SubmissionID]bool{}, late: map[machine.ReplyID]bool{}},
		turns: map[conversation.MessageID]conversation.TurnID{}, results: map[string]json.RawMessage{}, lateSignals: map[machine.ReplyID]bool{},
	}
	w.limits.MaxAttempts, w.limits.Timeout = 4, 8*time.Second
	w.cfg.IdleAfter, w.cfg.MaxWaiting, w.cfg.MaxWaitingBytes, w.cfg.MaxPendingBytes = 20*time.Second, 6, 30, 40
	if w.chance(30) {
		w.cfg.IdleAfter = time.Second
	}
	if w.chance(40) {
		w.cfg.CheckpointBatches, w.cfg.CheckpointBytes = 1+w.r.IntN(12), 1+w.r.IntN(4000)
	}
	if w.chance(40) {
		w.cfg.MaxBatchBytes = 300 + w.r.IntN(2000)
	}
	if w.chance(20) {
		w.short = true
		w.limits.MaxCallBytes = 1500 + w.r.IntN(3000)
		w.limits.MaxResponse, w.limits.MaxCalls = 1500+w.r.IntN(3000), 1+w.r.IntN(3)
	} else if w.chance(20) {
		w.short = true
		w.limits.MaxTree, w.limits.MaxTreeDollars = w.r.IntN(5), float64(w.r.IntN(3)*5)
		w.limits.MaxTurns, w.limits.MaxToolCalls = 1+w.r.IntN(6), 1+w.r.IntN(6)
	} else if w.chance(60) {
		w.short, w.big, w.cfg.MaxBatchBytes = true, true, 1<<20
		w.limits.MaxCallBytes = 60_000 + w.r.IntN(60_000)
	}
	w.limits.ToolConcurrency, w.limits.ResponseFinishedHook = 1+w.r.IntN(3), w.chance(50)
	if w.big { // only concurrent calls use each other's room
		w.limits.ToolConcurrency = max(w.limits.ToolConcurrency, 2)
	}
	w.limits.DeliveryStartedHook, w.limits.SettledHook, w.limits.AnswerInOrder = w.chance(30), w.chance(50), w.chance(15)
	w.durable, w.ahead = conversation.NewState(), conversation.NewState()
	w.cfg.Replies = func(target string) bool { return target == shop }
	w.receivers.got, w.receivers.deadLetters = map[conversation.PostID]bool{}, map[conversation.PostID]bool{}
	if w.chance(30) {
		w.limits.Notify = []string{"ledger", shop}
	}
	w.receivers.shop = seed%8 == 3
	if w.chance(15) {
		w.limits.Function, w.limits.ResponseFinishedHook, w.limits.DeliveryStartedHook = workflow, false, false
	}
	w.turned, w.received = map[conversation.SubmissionID]int{}, map[conversation.SubmissionID]bool{}
	return w
}

func (w *world) note(format string, args ...any) {
	w.script = append(w.script, fmt.Sprintf(format, args...))
}

func (w *world) chance(percent int) bool { return w.r.IntN(100) < percent }

func (w *world) begin() {
	w.activations++
	fresh := fmt.Sprintf("w%d", w.activations)
	w.boot(fresh)
	w.note("new writer=%s", fresh)
	w.booted, w.read, w.appends = true, false, 0
	w.listing, w.listed, w.readingTail = false, false, false
	w.skew = 0
	if w.chance(30) { // clocks differ
		w.skew, w.skewed = conversation.Time(w.r.IntN(20_000)-10_000), true
	}
}

// gone drops the state of the process: callers get no answer and undurable text is lost.
func (w *world) gone() {
	if w.inflight != nil {
		w.drop()
	}
	w.booted, w.calls, w.tools, w.ending, w.stale = false, nil, nil, nil, nil
	w.start, w.jobs, w.storing, w.sending = nil, nil, nil, nil
	w.receivers.sending, w.receivers.burying, w.trees.asking = nil, nil, nil
	clear(w.timers)
	clear(w.callers)
	if w.ahead == nil {
		var err error
		if w.ahead, err = fold(w.log); err != nil {
			violate("fold log: %v", err)
		}
	}
	for turn, emitted := range w.emitted {
		have := w.logged[turn]
		if have == nil {
			have = &output{}
		}
		if !strings.HasPrefix(emitted.text, have.text) || !strings.HasPrefix(emitted.reasoning, have.reasoning) {
			violate("turn %s: got %+v in the log, want %+v", turn, *have, *emitted)
		}
		*emitted = *have
	}
}

func (w *world) drop() { w.inflight, w.ahead = nil, nil }

// do feeds an input to the machine and performs the effects.
func (w *world) do(in machine.Input) {
	flying := w.inflight != nil
	for _, e := range w.step(in) {
		if _, ok := e.(machine.Append); ok {
			if flying {
				violate("two appends in flight")
			}
			flying = true
		}
		w.effect(e)
	}
	for len(w.again) > 0 {
		next := w.again[0]
		w.again = w.again[1:]
		next()
	}
	if s := w.m.State(); s != nil && w.inflight != nil && s.Head() > w.inflight.Offset+1 {
		w.seen["split"]++
	}
	if _, ok := w.timers[machine.Tick{Timer: machine.TimerBudget}]; !ok && w.working() {
		violate("runs without a time limit")
	}
}

func (w *world) effect(e machine.Effect) {
	if !w.booted {
		violate("%T after the stop", e)
	}
	switch e := e.(type) {
	case machine.Append:
		w.append(e.Batch)
	case machine.List:
		w.list(e)
	case machine.ReadTail:
		w.beginTailRead(e)
	case machine.Unlist:
		w.unlist()
	case machine.Reply:
		w.reply(e)
	case machine.CallModel:
		w.callModel(e)
	case machine.RunTool:
		w.runTool(e)
	case machine.AskTree:
		w.askTree(e)
	case machine.StoreOutput:
		w.storeOutput(e)
	case machine.StoreTimer:
		w.storeTimer(e)
	case machine.SendReply:
		w.sendReply(e)
	case machine.SendPost:
		w.sendPost(e)
	case machine.StoreDeadLetter:
		w.receivers.burying = append(w.receivers.burying, e)
	case machine.FinishResponse:
		w.finishResponse(e)
	case machine.StartDelivery:
		w.startDelivery(e)
	case machine.ShowSettlement:
		w.showSettlement(e)
	case machine.Summarize:
		w.summarize(e)
	case machine.Checkpoint:
		w.checkpoint(e)
	case machine.Cancel:
		w.cancel(e.Gen)
	case machine.SetTimer:
		w.timers[machine.Tick{Timer: e.Timer, Gen: e.Gen}] = w.mono + e.After
	case machine.Stop:
		w.stop(e)
	}
}

func (w *world) append(b conversation.Batch) {
	if b.Offset != conversation.Offset(len(w.log)) {
		violate("append at %d, tail is %d", int64(b.Offset), len(w.log)-1)
	}
	w.checkResumed(w.decoded)
	if err := w.ahead.Apply(w.decoded); err != nil {
		violate("append %s: %v", w.frozen, err)
	}
	w.checkWaits(w.decoded)
	w.checkReplies(w.decoded)
	w.checkPosts(w.decoded)
	paced := len(b.Records) > 0 && w.m.State().Head() == b.Offset // no urgent batch follows
	for _, r := range b.Records {
		switch r.(type) {
		case *conversation.Delta, *conversation.PartDone, *conversation.PartSigned, *conversation.DataWritten:
		default:
			paced = false
		}
	}
	if paced && w.appends > 0 && w.mono < w.lastStart+w.cfg.Pace {
		violate("text is appended %s after the previous append", w.mono-w.lastStart)
	}
	w.lastStart = w.mono
	w.appends++
}

func (w *world) landed() conversation.Offset {
	b := w.decoded
	at, err := w.land()
	if err != nil {
		violate("%v", err)
	}
	if err := w.durable.Apply(b); err != nil {
		violate("%v", err)
	}
	for _, r := range b.Records {
		switch r := r.(type) {
		case *conversation.SubmissionSettled:
			w.seen["settled "+string(r.Outcome)]++
			delete(w.turned, r.Submission)
			if r.Error != nil {
				w.seen[string(r.Error.Type)]++
			}
		case *conversation.StepCompleted:
			w.seen[string(r.Type())]++
			if w.turned[r.Root]++; w.turned[r.Root] > w.limits.MaxTurns {
				violate("submission has %d turns, limit is %d", w.turned[r.Root], w.limits.MaxTurns)
			}
		case *conversation.ResponseStarted:
			w.turns[r.Message] = r.Turn
			w.seen[string(r.Type())]++
		case *conversation.StepRecorded:
			w.seen[string(r.Type())]++
			w.recorded(r)
		case *conversation.OutputStored:
			w.seen[string(r.Type())]++
			w.checkStored(r, b)
		case *conversation.Delta:
			turn := w.turns[r.Message]
			if w.logged[turn] == nil {
				w.logged[turn] = &output{}
			}
			w.logged[turn].add(r.Kind, r.Text)
		case *conversation.Advisory:
			w.seen[string(r.Type())]++
			w.askedAgain(r)
		default:
			w.seen[string(r.Type())]++
		}
	}
	return at
}

// askedAgain checks that a model is called at most once more after an empty reply.
func (w *world) askedAgain(r *conversation.Advisory) {
	if r.Attributes["reason"] == "empty" {
		w.seen["no answer"]++
	}
	sub := w.durable.Submission(r.Submission)
	if sub == nil || !strings.HasPrefix(r.Text, "Your reply was empty") {
		return
	}
	w.seen["called again"]++
	asked := false
	for _, t := range sub.Turns() {
		switch {
		case t.HasCalls():
			asked = false
		case t.Note == r.Text && asked:
			violate("the model of %s is called again twice", sub.ID)
		case t.Note == r.Text:
			asked = true
		}
	}
}

func (w *world) list(e machine.List) {
	if w.listing || w.listed {
		violate("listed twice")
	}
	if int(e.Seq) != len(w.log)-1 {
		violate("list at %d, tail is %d", int64(e.Seq), len(w.log)-1)
	}
	w.listing = true
	w.journal = append(w.journal, listing{writer: w.writer, seq: e.Seq})
}

func (w *world) beginTailRead(e machine.ReadTail) {
	if w.readingTail || int(e.After) != len(w.log)-1 {
		violate("tail read after %d, tail is %d, another under way: %v", int64(e.After), len(w.log)-1, w.readingTail)
	}
	w.readingTail = true
	w.tailReads++
}

// confirmed checks that an answer about missing records follows a tail read that began after the
// request, and that the tail is known.
func (w *world) confirmed(to machine.ReplyID) {
	if w.lastTailRead <= w.asked[to] || int(w.shown) >= len(w.log) {
		violate("answer without a tail read: %d had begun at the request, read %d found %d, tail is %d",
			w.asked[to], w.lastTailRead, int64(w.shown), len(w.log)-1)
	}
}

func (w *world) unlist() {
	if !w.found() || w.inflight != nil || !w.listed {
		violate("unlist with %d unsettled, in flight: %v", len(w.durable.Unsettled()), w.inflight)
	}
	w.listed = false
	for i := range w.journal {
		if w.journal[i].writer == w.writer {
			w.journal[i].leaving = true
		}
	}
	w.tidy(false)
}

// tidy removes unlisted entries, some later than others.
func (w *world) tidy(all bool) {
	kept := w.journal[:0]
	for _, e := range w.journal {
		if !e.leaving || !all && w.chance(50) {
			kept = append(kept, e)
		}
	}
	w.journal = kept
}

func (w *world) checkpoint(e machine.Checkpoint) {
	w.seen["checkpoint"]++
	if e.Closed != nil {
		w.seen["page"]++
	}
	if bytes.Contains(e.State, []byte(`"left":{`)) {
		w.seen["left to the log"]++
	}
	state, err := conversation.DecodeState(e.State)
	if err == nil {
		err = state.Attach(w.pages)
	}
	switch {
	case err != nil:
		violate("checkpoint at %d: %v", int64(e.At), err)
	case e.At != w.durable.Head() || state.Head() != e.At:
		violate("checkpoint at %d, durable head is %d", int64(e.At), int64(w.durable.Head()))
	}
	got, want := w.encoded(state.Snapshot()), w.encoded(w.durable.Snapshot())
	if got != want {
		violate("checkpoint at %d: got\n%s\nwant\n%s", int64(e.At), got, want)
	}
}

// encoded returns the JSON of a snapshot, with deliveries that were left to the log.
func (w *world) encoded(s *conversation.Snapshot) string {
	pieces, err := s.Pieces()
	if err != nil {
		violate("encode snapshot: %v", err)
	}
	var out strings.Builder
	for _, p := range pieces {
		b := p.Bytes
		if p.Left != nil {
			adm := p.Left.Of(w.log[p.Left.At].batch.Records)
			if adm == nil {
				violate("batch %d does not admit %s", int64(p.Left.At), p.Left.Submission)
			}
			if b, err = adm.EncodeMessage(); err != nil {
				violate("encode message: %v", err)
			}
		}
		out.Write(b)
	}
	return out.String()
}

func (w *world) stop(e machine.Stop) {
	w.seen["stop "+string(e.Reason)]++
	w.note("  stopped: %s", e.Reason)
	if len(w.callers) > 0 {
		violate("stopped with callers waiting: %v", w.callers)
	}
	switch e.Reason {
	case machine.StopPassivated:
		if !w.found() || w.inflight != nil || w.listed || w.listing {
			violate("passivated with pending work")
		}
	case machine.StopDrained:
		if w.inflight != nil || w.listing {
			violate("drained with an append or a listing in flight")
		}
		if sub := w.durable.UnderWay(); w.m.State() != nil && sub != nil && sub.Running {
			violate("drained without releasing %s", sub.ID)
		}
	}
	w.gone()
}

// shows reports whether a batch of another writer stands above an offset.
func (w *world) shows(writer string, seq conversation.Offset) bool {
	for _, e := range w.log[max(0, min(int(seq)+1, len(w.log))):] {
		if e.writer != writer {
			return true
		}
	}
	return false
}

func (w *world) reply(e machine.Reply) {
	asked, ok := w.callers[e.To]
	if !ok {
		violate("reply %d to an unknown caller", e.To)
	}
	delete(w.callers, e.To)
	w.note("  reply %d: %s", e.To, answerText(e.Value))
	w.seen[strings.Join(strings.Fields(answerText(e.Value))[:1], "")]++
	switch v := e.Value.(type) {
	case machine.Admitted:
		w.receipt(asked.(machine.Admit), v.Receipt)
	case machine.Aborted:
		w.aborted(e.To, v)
		w.treesAborted(asked.(machine.Abort), v)
	case machine.TreeStatus:
		w.treeAnswer(asked.(machine.Tree), v)
	case machine.Refused:
		w.seen[string(v.Err.Code)]++
		if a, ok := asked.(machine.Admit); ok {
			w.refusal(e.To, a, v.Err)
			if v.Err.Code != conversation.CodeSubmissionConflict && v.Err.Code != conversation.CodeUnavailable {
				w.confirmed(e.To)
			}
		}
	case machine.Clear:
		if !asked.(machine.Admit).Precheck {
			violate("an admission is answered as a precheck")
		}
	case machine.Probed:
		w.probed(asked.(machine.Probe), v)
	case machine.TimerChecked:
		w.timerChecked(asked.(machine.CheckTimer), v)
	case machine.StepKept:
		w.kept(e.To, asked.(machine.StepDone))
	case machine.WaitOver, machine.WaitOpen, machine.WaitValidate:
		w.answered(asked.(machine.WaitFor), v)
	case machine.PostKept, machine.PostFull:
		w.posted(asked.(machine.Post), v)
	case machine.Moved, machine.StepTooMuch:
		w.stepped(e.To, false)
	}
}

func isSignal(in machine.Admit) bool {
	_, ok := in.Admission.Delivery.Awaited()
	return ok
}

func (w *world) receipt(asked machine.Admit, r conversation.Receipt) {
	sub := w.durable.Submission(r.SubmissionID)
	switch {
	case sub == nil:
		violate("receipt for %s, which is not durable", r.SubmissionID)
	case sub.Offset != r.Offset || sub.Key != asked.Admission.Key || w.durable.Created().UID != r.UID:
		violate("receipt %+v for %+v", r, sub)
	case isSignal(asked):
		if !w.listed && w.endsWait(r) && !w.found() || !w.claimed() && !r.Deduplicated {
			violate("receipt for signal %s: claimed %v, listed %v", r.SubmissionID, w.claimed(), w.listed)
		}
	case (!r.Deduplicated || !sub.Settled || w.durable.ReplyIsPending(sub.ID) != nil || w.hasPosts(sub.ID)) && !(w.listed && w.claimed()):
		violate("receipt for %s: claimed %v, listed %v", r.SubmissionID, w.claimed(), w.listed)
	case asked.Precheck && !r.Deduplicated:
		violate("a precheck is admitted")
	}
	w.acked[r.SubmissionID] = true
}

func (w *world) refusal(e machine.ReplyID, asked machine.Admit, err *conversation.Error) {
	known := w.durable.Lookup(asked.Admission.Key)
	switch err.Code {
	case conversation.CodeSubmissionConflict:
		if known == nil || known.Delivery.Body == asked.Admission.Delivery.Body {
			violate("conflict without a durable submission")
		}
	case conversation.CodeAlreadyDecided:
		if !w.lateSignals[e] && !w.isLate(w.durable, asked.Admission) {
			violate("signal %s is refused as late but is not", asked.Admission.Key)
		}
	case conversation.CodeInstanceExists:
		if !w.durable.Exists() {
			violate("refused for a conversation that is not durable")
		}
	}
}

// aborted checks that the covered submissions are durably settled before the answer.
func (w *world) aborted(to machine.ReplyID, v machine.Aborted) {
	if v.Any != (len(w.aborts[to]) > 0) {
		violate("abort of %v: got any %v", w.aborts[to], v.Any)
	}
	if !v.Any && len(v.Trees) == 0 { // The batch that closes a tree confirms the tail.
		w.confirmed(to)
	}
	for _, id := range w.aborts[to] {
		w.seen["aborted"]++
		if sub := w.durable.Submission(id); sub == nil || !sub.Settled || sub.Outcome != conversation.OutcomeAborted {
			violate("abort is answered before %s is settled", id)
		}
	}
}

func (w *world) probed(asked machine.Probe, v machine.Probed) {
	switch {
	case v.Unknown:
		return
	case !w.shows(asked.Nonce, asked.Seq):
		violate("probe of %s at %d is answered without a fence", asked.Nonce, int64(asked.Seq))
	case v.Held && !(w.listed && w.claimed()):
		violate("held without claim or journal")
	case !v.Held && !w.found():
		violate("settled with pending work")
	}
	kept := w.journal[:0]
	for _, l := range w.journal {
		if l.writer != asked.Nonce || l.seq != asked.Seq {
			kept = append(kept, l)
		}
	}
	w.journal = kept
}
