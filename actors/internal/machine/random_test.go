package machine_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/sample"
)

var schedules = flag.Uint64("schedules", sample.Of[uint64](2000, 50), "run so many random schedules")

// TestRandomSchedules runs random schedules with faults, then stops the faults and checks the final
// state. The world checks the invariants of each step.
// covers: channels/94
func TestRandomSchedules(t *testing.T) {
	seen := map[string]int{}
	for seed := range *schedules {
		if err := play(seed, seen); err != nil {
			t.Fatal(err)
		}
	}
	// An event that never occurs proves nothing.
	for _, want := range []string{
		"settled completed", "settled failed", "model_failed", "submission_retry_exhausted", "submission_timeout",
		"attempt_released", "tool_settled", "part_signed", "images_refused", "output_stored", "output stored late", "advisory", "stop passivated", "stop drained", "stop lost",
		"stop unread", "held", "unknown", "moved", "clear", "admitted", "submission_conflict", "agent_instance_exists",
		"agent_instance_not_found", "runtime_unavailable", "crash", "crash landed", "lost landed", "stale", "full",
		"swept", "claim", "aborted", "step_dropped", "data_written", "metadata_merged",
		"checkpoint", "page", "left to the log", "resumed", "continued", "overtaken", "tail read", "tail read failed", "tail behind an append", "tail overtaken",
		"rerun", "step_recorded", "kept", "child_started", "child_settled", "hook_done", "state_written", "shown", "compacted",
		"summarize threshold", "summarize overflow", "summarize manual",
		"split", "called again", "no answer", "omitted", "model_output_too_long", "too many calls",
		"parked", "timer stored", "timer there", "timer-over", "early", "timer-unknown", "resumed by timer", "timer due", "listed by a timer alone",
		"wait_started", "wait ended by signal", "wait ended by timeout", "kept signal taken", "signal_kept", "resumed by signal", "waits for a signal", "overtook unfinished", "continued behind", "reply_pending", "reply_sent", "key_kept", "notice_asked", "post_enqueued", "post_deferred", "post delivered", "reply by channel", "reply_addressed", "post dead", "dead letter", "validated", "already_decided",
		"retry_scheduled", "called later", "submission_limit_reached",
		"timeline lost", "timeline lost turn", "timeline aborted turn", "timeline aborted tool", "timeline aborted operation", "timeline after", "timeline loss known", "timeline tool over attempts",
		"timeline exact completed", "timeline exact aborted", "timeline exact lost",
		"run_started", "run completed", "run failed", "run aborted", "run_failed", "run_not_found",
		"tree_counted", "tree open", "tree closed", "tree aborted", "joined", "join refused", "cost reported",
	} {
		if seen[want] < int(*schedules/200) {
			t.Errorf("%q happened %d times", want, seen[want])
		}
	}
}

// play runs one schedule. Its error includes the script.
func play(seed uint64, seen map[string]int) (err error) {
	w := newWorld(seed, seen)
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("seed %d: %v\n%s", seed, v, strings.Join(w.script, "\n"))
		}
	}()
	for range 40 + w.r.IntN(160) {
		w.disturb()
	}
	w.settleDown()
	w.verify()
	return nil
}

func (w *world) disturb() {
	switch {
	case !w.booted:
		switch {
		case w.m != nil && w.chance(30):
			w.askStopped()
			return
		case w.idleWriter != nil && w.chance(15):
			w.overtake()
			return
		}
		w.begin()
		return
	case w.chance(2):
		w.crash()
		return
	case !w.read && w.chance(60):
		w.open()
		return
	case w.read && w.passes() && w.chance(4):
		w.resumeOvertaken()
		return
	case w.chance(14):
		w.admit()
		return
	case w.chance(4):
		w.probe()
		return
	case w.chance(4):
		w.askTimer()
		return
	case w.read && w.chance(2):
		w.abort()
		return
	case w.chance(1):
		w.compact()
		return
	case w.read && w.m.State().Exists() && w.chance(2):
		w.join()
		return
	case w.chance(1):
		w.note("drain")
		w.do(machine.Drain{})
		return
	case len(w.stale) > 0 && w.chance(20):
		w.seen["stale"]++
		w.do(w.stale[w.r.IntN(len(w.stale))])
		return
	case w.inflight != nil && w.chance(4):
		w.lose()
		return
	case w.chance(15):
		w.pass()
		return
	}
	w.progress(w.r.IntN(9))
}

// progress completes one operation under way, preferring the given one, and reports whether there was
// any.
func (w *world) progress(first int) bool {
	for i := range 9 {
		switch (first + i) % 9 {
		case 8:
			if len(w.storing) > 0 && (w.calm || w.chance(8)) {
				w.stored()
				return true
			}
			if len(w.sending) > 0 && (w.calm || w.chance(20)) {
				w.replyArrives()
				return true
			}
			if len(w.receivers.burying) > 0 && (w.calm || w.chance(40)) {
				w.deadLetterStored()
				return true
			}
			if len(w.receivers.sending) > 0 && (w.calm || w.chance(40)) {
				w.postArrives()
				return true
			}
		case 0:
			if w.inflight != nil {
				w.note("appended %d", int64(w.inflight.Offset))
				if len(w.inflight.Records) == 0 {
					w.seen["claim"]++
				}
				w.do(machine.Appended{Offset: w.landed()})
				return true
			}
		case 1:
			if w.listing {
				w.landJournal()
				return true
			}
		case 2:
			if len(w.calls) > 0 {
				w.speak(w.calls[w.r.IntN(len(w.calls))])
				return true
			}
		case 3:
			if slices.ContainsFunc(w.tools, func(c *runningTool) bool { return c.asks == 0 }) {
				w.write(w.tools[0].Gen)
				w.useTool()
				return true
			}
		case 4:
			if w.ending != nil {
				w.write(w.ending.Gen)
				w.finishHook()
				return true
			}
		case 5:
			if w.readingTail {
				w.reportTail()
				return true
			}
		case 6:
			if len(w.trees.asking) > 0 {
				w.answerTree()
				return true
			}
			if w.start != nil {
				w.deliveryStarted()
				return true
			}
		case 7:
			if len(w.jobs) > 0 {
				w.summarized()
				return true
			}
		}
	}
	return false
}

// reportTail reports a tail to the machine: its own newest batch, the batch in flight, landed or not, or one
// of another writer.
func (w *world) reportTail() {
	in := machine.TailRead{Tail: conversation.Offset(len(w.log) - 1)}
	fault, overtaken := w.r.IntN(100), false
	switch {
	case w.calm:
	case fault < 10:
		w.seen["tail read failed"]++
		in = machine.TailRead{Err: errors.New("bucket unavailable")}
	case fault < 40 && w.inflight != nil:
		w.seen["tail behind an append"]++
		in.Tail = w.inflight.Offset
	case fault < 60 && w.inflight == nil:
		w.overtake()
		w.seen["tail overtaken"]++
		overtaken = true
		in.Tail++
	}
	w.note("tail %d %v", int64(in.Tail), in.Err)
	w.readingTail = false
	if in.Err == nil {
		w.seen["tail read"]++
		w.lastTailRead, w.shown = w.tailReads, in.Tail
	}
	w.do(in)
	if overtaken && w.booted {
		violate("continues above a batch of another writer")
	}
}

func (w *world) landJournal() {
	w.note("listed")
	for i := range w.journal {
		w.journal[i].landed = true
	}
	w.listing, w.listed = false, true
	w.do(machine.Listed{})
}

func (w *world) open() {
	w.read = true
	if !w.calm && w.chance(3) {
		w.note("open-failed")
		w.do(machine.OpenFailed{Err: errors.New("bucket unavailable")})
		return
	}
	read := w.opened
	if w.saved != nil && w.chance(70) {
		w.seen["resumed"]++
		read = w.resumed
	}
	in, err := read()
	if err != nil {
		violate("open: %v", err)
	}
	w.note("open as %s", in.Writer)
	if in.Claimed {
		w.seen["continued"]++
	}
	w.do(in)
}

func (w *world) askStopped() {
	if !w.m.Stopped() {
		return
	}
	for _, e := range w.step(machine.Admit{To: 1, Admission: admission("late", "x")}) {
		r, _ := e.(machine.Reply)
		if _, refused := r.Value.(machine.Refused); r.Value != (machine.Moved{Untouched: true}) && (!refused || w.m.State() != nil) {
			violate("a stopped machine emits %#v", e)
		}
	}
	for _, in := range []machine.Input{machine.Listed{}, machine.Drain{}, machine.Tick{Timer: machine.TimerIdle}} {
		if out := w.step(in); len(out) > 0 {
			violate("a stopped machine emits %#v", out)
		}
	}
}

// overtake lets another writer append to an idle log.
func (w *world) overtake() {
	w.seen["overtaken"]++
	w.note("overtaken")
	w.intrude(fmt.Sprintf("foreign%d", len(w.log)))
	for _, s := range []*conversation.State{w.durable, w.ahead} {
		if err := s.Apply(w.log[len(w.log)-1].batch); err != nil {
			violate("%v", err)
		}
	}
}

// crash ends the process. The batch in flight and the journal entry may land or not.
func (w *world) crash() {
	w.seen["crash"]++
	w.note("crash")
	if w.inflight != nil && w.chance(50) {
		w.seen["crash landed"]++
		w.note("  batch %d landed", int64(w.inflight.Offset))
		w.landed()
	}
	kept := w.journal[:0]
	for _, e := range w.journal {
		if e.landed || w.chance(50) {
			e.landed = true
			kept = append(kept, e)
		}
	}
	w.journal = kept
	for _, e := range w.storing {
		if w.chance(50) {
			continue
		}
		w.storedTimers[e.At] = e.Until
	}
	w.idleWriter = nil
	w.gone()
}

// lose ends the append in flight: it landed unseen, lost to another writer, or never arrives.
func (w *world) lose() {
	switch w.r.IntN(3) {
	case 0:
		w.seen["lost landed"]++
		w.note("lost, but landed")
		w.landed()
	case 1:
		w.note("lost to another writer")
		w.drop()
		w.intrude(fmt.Sprintf("foreign%d", len(w.log)))
		if err := w.durable.Apply(w.log[len(w.log)-1].batch); err != nil {
			violate("%v", err)
		}
	default:
		w.note("lost")
		w.drop()
	}
	w.do(machine.AppendLost{Err: errFenced})
	if w.booted {
		violate("continues after a lost append")
	}
}

func (w *world) admit() {
	a := admission(fmt.Sprintf("k%d", len(w.sent)), fmt.Sprintf("body %d", len(w.sent)))
	if w.m.State() != nil && (w.chance(20) || len(w.awaited()) > 0 && w.chance(70)) {
		a = w.signal()
	} else if len(w.sent) > 0 && w.chance(40) {
		a = w.sent[w.r.IntN(len(w.sent))]
		if w.chance(20) {
			a.Delivery.Body += "?"
		}
	} else if w.chance(20) {
		a.Condition = conversation.Condition{Absent: true}
	} else if w.chance(15) {
		a.Condition = conversation.Condition{Set: true, UID: "inst_other"}
		if w.durable.Exists() && w.chance(60) {
			a.Condition.UID = w.durable.Created().UID
		}
	}
	if _, signal := a.Delivery.Awaited(); !signal && w.chance(15) {
		a.ReplyTo = &asker
	}
	if w.chance(20) {
		a.KeepKey = 8 * 24 * time.Hour
	}
	if _, signal := a.Delivery.Awaited(); !signal && w.chance(15) {
		a.Notify = "desk"
	} else if !signal && w.receivers.shop && w.chance(25) {
		a.Notify, a.Channel = shop, []string{"", shop}[w.r.IntN(2)]
		a.ReplyAddress = addressOf(a.Key) // ignored without a channel
	}
	if _, signal := a.Delivery.Awaited(); !signal && w.chance(20) {
		a.Tree = &treeRoot
	}
	if w.limits.Function != "" {
		a = w.ofRun(a)
	}
	in := machine.Admit{Admission: a, Precheck: w.chance(15), Fit: w.held(a)}
	if !in.Precheck {
		w.sent = append(w.sent, a)
	}
	w.caller++
	in.To = w.caller
	w.callers[in.To], w.asked[in.To] = in, w.tailReads
	if s := w.m.State(); s != nil && isSignal(in) && w.isLate(s, a) {
		w.lateSignals[in.To] = true
	}
	w.note("admit %d key=%s body=%q %+v precheck=%v", in.To, a.Key, a.Delivery.Body, a.Condition, in.Precheck)
	w.do(in)
}

func (w *world) probe() {
	in := machine.Probe{Nonce: fmt.Sprintf("w%d", 1+w.r.IntN(w.activations)), Seq: conversation.Offset(w.r.IntN(len(w.log)+3) - 1)}
	if len(w.journal) > 0 && w.chance(70) {
		e := w.journal[w.r.IntN(len(w.journal))]
		in.Nonce, in.Seq = e.writer, e.seq
	}
	w.ask(in)
}

func (w *world) abort() {
	w.caller++
	in := machine.Abort{To: w.caller, Trees: w.chance(50)}
	w.callers[in.To], w.asked[in.To] = in, w.tailReads
	w.aborts[in.To] = nil
	for _, sub := range w.m.State().Unsettled() {
		w.aborts[in.To] = append(w.aborts[in.To], sub.ID)
	}
	w.note("abort %d of %v trees=%t", in.To, w.aborts[in.To], in.Trees)
	w.do(in)
}

func (w *world) ask(in machine.Probe) {
	w.caller++
	in.To = w.caller
	w.callers[in.To] = in
	w.note("probe %d nonce=%s seq=%d", in.To, in.Nonce, int64(in.Seq))
	w.do(in)
}

func (w *world) pass() {
	by := time.Duration(w.r.IntN(300)) * time.Millisecond
	if w.chance(6) {
		by = time.Duration(w.r.IntN(20_000)) * time.Millisecond
	}
	if w.booted && w.chance(5) { // an early timer
		delete(w.timers, machine.Tick{Timer: machine.TimerBudget})
		w.note("tick budget, early")
		w.do(machine.Tick{Timer: machine.TimerBudget})
	}
	w.elapse(by)
}

func (w *world) elapse(by time.Duration) {
	w.note("advance %s", by)
	w.mono += by
	w.wall += conversation.Time(by.Milliseconds())
	for _, timer := range []machine.Timer{machine.TimerPace, machine.TimerRetry, machine.TimerBudget, machine.TimerDue, machine.TimerIdle} {
		for _, tick := range w.set(timer) {
			if at, ok := w.timers[tick]; ok && at <= w.mono && w.booted {
				delete(w.timers, tick)
				w.note("tick %s %d", timerNames[timer], tick.Gen)
				w.do(tick)
			}
		}
	}
}

// set returns the set timers of one kind in the order of their gens.
func (w *world) set(timer machine.Timer) []machine.Tick {
	var out []machine.Tick
	for tick := range w.timers {
		if tick.Timer == timer {
			out = append(out, tick)
		}
	}
	slices.SortFunc(out, func(a, b machine.Tick) int { return a.Gen - b.Gen })
	return out
}

func (w *world) speak(c *modelCall) {
	if w.m.Full() { // the stream is held back until an append lands
		w.seen["full"]++
		if _, ok := w.timers[machine.Tick{Timer: machine.TimerPace}]; !ok && w.inflight == nil {
			violate("full without a pending append")
		}
		w.pass()
		return
	}
	in := machine.Model{Gen: c.Gen, Name: "demo/one"}
	for range 1 + w.r.IntN(3) {
		in.Events = append(in.Events, w.event(c))
		k := in.Events[len(in.Events)-1].Kind
		if k == machine.ModelCall {
			c.called++
		}
		if k == machine.ModelDone || k == machine.ModelFailed || c.called > w.limits.MaxCalls {
			w.calls = slices.DeleteFunc(w.calls, func(other *modelCall) bool { return other == c })
			in.Events = append(in.Events, machine.ModelEvent{Kind: machine.ModelText, Text: "after the end"})
			break
		}
	}
	w.note("model gen=%d %s", c.Gen, eventsText(in.Events))
	w.do(in)
}

func (w *world) event(c *modelCall) machine.ModelEvent {
	text := fmt.Sprintf("%d ", w.r.IntN(10_000))
	switch n := w.r.IntN(100); {
	case n < 45:
		w.emitted[c.Turn].add(conversation.PartText, text)
		return machine.ModelEvent{Kind: machine.ModelText, Text: text}
	case n < 60:
		w.emitted[c.Turn].add(conversation.PartReasoning, text)
		return machine.ModelEvent{Kind: machine.ModelReasoning, Text: text}
	case n < 68:
		e := machine.ModelEvent{Kind: machine.ModelSignature, Text: "sig" + text, Part: conversation.PartReasoning}
		if w.chance(30) {
			e.Part = conversation.PartText
		}
		return e
	case n < 78:
		e := machine.ModelEvent{Kind: machine.ModelCall, Name: "t", Signature: "sig" + text, ProviderCall: "p" + text, Input: json.RawMessage(`{"n":1}`)}
		switch {
		case w.chance(50):
			e.Durable = true
		case w.chance(30):
			e.Name = conversation.TaskTool
		}
		return e
	case n < 80:
		return machine.ModelEvent{Kind: machine.ModelText}
	case n < 82:
		e := machine.ModelEvent{Kind: machine.ModelFailed, Retry: true, Unasked: n == 80, Fallback: w.chance(30), Err: &conversation.SettlementError{
			Type: conversation.CodeModelFailed, Message: "no model now",
		}}
		if w.chance(60) { // possibly beyond Patience
			e.RetryAfter = time.Duration(w.r.IntN(90)) * time.Second
		}
		return e
	case n < 84:
		e := machine.ModelEvent{Kind: machine.ModelFailed, Overflow: w.chance(30), Fallback: w.chance(30), Err: &conversation.SettlementError{
			Type: conversation.CodeModelFailed, Message: "no model",
		}}
		if w.chance(60) {
			e.Images, e.First = w.refusable(c)
		}
		return e
	case n < 86:
		return machine.ModelEvent{Kind: machine.ModelDone, StopReason: "length"}
	}
	done := machine.ModelEvent{Kind: machine.ModelDone, StopReason: "stop", Full: w.chance(15)}
	if w.chance(40) {
		done.Facts.Price = &conversation.Price{Total: 0.5}
	}
	if c.Gen%2 == 0 { // ignored except for subagents
		done.Reminder = "give your output"
	}
	return done
}

// refusable returns images that the call may have shown, without those it had to omit, and how many go
// first.
func (w *world) refusable(c *modelCall) (list []conversation.AttachmentID, first int) {
	for i := range 4 {
		id := conversation.AttachmentID(fmt.Sprintf("att_%s_%d", c.Submission, i))
		if !slices.Contains(c.Without, id) && !slices.Contains(w.m.State().Refused(), id) {
			list = append(list, id)
		}
	}
	if len(list) > 0 {
		first = 1 + w.r.IntN(len(list))
	}
	return list, first
}

func (w *world) write(gen int) {
	if w.m.Full() || w.chance(60) {
		return
	}
	w.note("data gen=%d", gen)
	w.do(machine.Model{Gen: gen, Name: "demo/one", Events: []machine.ModelEvent{
		{Kind: machine.ModelData, Name: "progress", Input: json.RawMessage(`{"done":1}`)},
		{Kind: machine.ModelText, Text: "after the end"},
	}})
}

func (w *world) finishHook() {
	in := machine.ResponseFinished{Gen: w.ending.Gen}
	switch {
	case w.chance(20):
		in.Again = "More."
	case w.chance(70):
		in.Metadata = json.RawMessage(`{"seen":{"by":"author"}}`)
	}
	in.State = w.writes()
	w.ending = nil
	w.stale = append(w.stale, in)
	w.note("finished gen=%d %s", in.Gen, in.Metadata)
	w.do(in)
}

// settleDown stops faults and callers. After it only operations under way, timers and scans make
// progress.
func (w *world) settleDown() {
	w.note("settle down")
	w.calm = true
	timers := []machine.Timer{machine.TimerPace, machine.TimerRetry, machine.TimerBudget}
	if w.chance(50) {
		timers = append(timers, machine.TimerDue)
	}
	for range 5000 {
		switch {
		case w.booted && !w.read:
			w.open()
		case w.booted && w.progress(0):
		case w.booted && w.due(timers...):
		case w.sweep():
		case w.booted && w.due(machine.TimerIdle):
		case w.dueTimer():
		default:
			return
		}
	}
	violate("never becomes idle")
}

// due advances to the first of the timers and reports whether one was set.
func (w *world) due(timers ...machine.Timer) bool {
	for _, timer := range timers {
		if timer == machine.TimerBudget && !w.working() {
			continue // its work is over
		}
		for _, tick := range w.set(timer) {
			w.elapse(max(0, w.timers[tick]-w.mono))
			return true
		}
	}
	return false
}

// sweep probes an entry of a crashed writer and reports whether there was one.
func (w *world) sweep() bool {
	w.tidy(true)
	for _, e := range w.journal {
		if w.booted && e.writer == w.writer {
			continue
		}
		w.seen["swept"]++
		if !w.booted {
			w.begin()
		}
		w.ask(machine.Probe{Nonce: e.writer, Seq: e.seq})
		return true
	}
	return false
}

func (w *world) verify() {
	switch {
	case w.booted:
		violate("an activation is left")
	case len(w.journal) > 0:
		violate("the journal still lists %+v", w.journal)
	case len(w.storedTimers) > 0:
		violate("timers are left: %v", w.storedTimers)
	}
	for _, o := range w.durable.PendingReplies() {
		if w.acked[o.Submission] { // callers without a receipt retry
			violate("the reply to %s is still pending", o.Submission)
		}
	}
	w.verifyPosts()
	for id := range w.acked {
		if sub := w.durable.Submission(id); sub == nil || !sub.Settled {
			violate("%s was acknowledged but not settled", id)
		}
	}
	w.verifyOrder()
	w.verifyRun()
	if len(w.durable.Unsettled()) == 0 { // unacknowledged work may wait for the next message
		w.verifyEvents()
	}
	w.verifyTimelines()
	for turn, emitted := range w.emitted {
		have := w.logged[turn]
		if have == nil {
			have = &output{}
		}
		if *have != *emitted && !(w.short && strings.HasPrefix(emitted.text, have.text) && strings.HasPrefix(emitted.reasoning, have.reasoning)) {
			violate("turn %s: got %+v in the log, want %+v", turn, *have, *emitted)
		}
	}
	for _, k := range []int{-1, w.r.IntN(len(w.log) + 1)} {
		if err := checkChunks(w.log, k); err != nil {
			violate("%v", err)
		}
	}
}

// verifyOrder checks that each submission settles at most once and within its attempts, and starts
// only after earlier ones settled or were suspended.
func (w *world) verifyOrder() {
	state := conversation.NewState()
	for _, e := range w.log {
		for _, r := range append([]conversation.Record{nil}, e.batch.Records...) {
			switch r := r.(type) {
			case nil: // of a batch with only a claim
				_ = state.Extend(e.batch.Offset)
				continue
			case *conversation.AbortRequested:
				for _, id := range r.Submissions {
					if !settles(e.batch, id) {
						violate("the abort of %s is not in the batch of its settlement", id)
					}
				}
			case *conversation.ToolSettled:
				if strings.HasPrefix(r.ErrorText, "The tool ran, but its outcome was omitted") {
					w.seen["omitted"]++
				}
			case *conversation.Advisory:
				if strings.HasPrefix(r.Text, "Your reply had more than") {
					w.seen["too many calls"]++
				}
			case *conversation.SubmissionSettled:
				if open := state.Submission(r.Submission).OpenCalls(); len(open) > 0 {
					violate("%s is settled with open calls %+v", r.Submission, open)
				}
			case *conversation.AttemptStarted:
				w.verifyAttempt(state, e.batch, r)
			}
			if err := state.Extend(e.batch.Offset, r); err != nil {
				violate("%v", err)
			}
		}
	}
}

func (w *world) verifyAttempt(s *conversation.State, b conversation.Batch, r *conversation.AttemptStarted) {
	if r.Attempt > w.limits.MaxAttempts {
		violate("unexpected attempt %d of %s", r.Attempt, r.Submission)
	}
	sub := s.Submission(r.Submission)
	begun := sub.Began
	if sub.Suspended != nil && slices.ContainsFunc(b.Records, func(r conversation.Record) bool {
		settled, ok := r.(*conversation.SubmissionSettled)
		return ok && s.Submission(settled.Submission).Began
	}) {
		w.seen["continued behind"]++
	}
	for _, before := range s.Unsettled() {
		switch {
		case before.ID == r.Submission:
			return
		case before.Suspended == nil || before.Due && !begun:
			violate("%s starts before %s, which may continue", r.Submission, before.ID)
		}
		w.seen["overtook unfinished"]++
	}
}

func settles(b conversation.Batch, id conversation.SubmissionID) bool {
	return slices.ContainsFunc(b.Records, func(r conversation.Record) bool {
		s, ok := r.(*conversation.SubmissionSettled)
		return ok && s.Submission == id
	})
}

func eventsText(events []machine.ModelEvent) string {
	names := map[machine.ModelEventKind]string{
		machine.ModelText: "text", machine.ModelReasoning: "reasoning", machine.ModelSignature: "signature",
		machine.ModelCall: "call", machine.ModelDone: "done", machine.ModelFailed: "failed",
	}
	var w strings.Builder
	for _, e := range events {
		fmt.Fprintf(&w, "%s %q ", names[e.Kind], e.Text)
	}
	return w.String()
}
