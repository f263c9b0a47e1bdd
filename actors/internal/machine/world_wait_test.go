package machine_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/conversation"
)

var anything = json.RawMessage(`true`)

func (w *world) signal() conversation.Admission {
	a := admission(fmt.Sprintf("k%d", len(w.sent)), fmt.Sprint(len(w.sent)))
	a.Delivery.Kind, a.Delivery.Type = conversation.KindSignal, conversation.SignalWait
	name := w.waitName()
	if names := w.awaited(); len(names) > 0 && w.chance(80) {
		name = names[w.r.IntN(len(names))]
	}
	a.Delivery.Attributes = map[string]string{"name": name}
	return a
}

var waitNames = []string{"a", "b", "c"}

func (w *world) waitName() string { return waitNames[w.r.IntN(len(waitNames))] }

func (w *world) awaited() []string {
	return slices.DeleteFunc(slices.Clone(waitNames), func(name string) bool { return w.m.State().Awaiting(name) == nil })
}

// held returns the validation of a signal at its arrival, against the schema of the open wait, if the
// log is read.
func (w *world) held(a conversation.Admission) *machine.Fit {
	name, ok := a.Delivery.Awaited()
	if !ok || !w.read || w.m.State() == nil || w.m.State().Awaiting(name) == nil && w.chance(80) {
		return nil
	}
	return w.fit(a.Delivery.Body)
}

func (w *world) fit(body string) *machine.Fit {
	if w.chance(15) {
		return &machine.Fit{Schema: anything, Unfit: conversation.Errorf(conversation.CodeInvalidRequest, "unfit")}
	}
	value, err := json.Marshal(body)
	if err != nil {
		violate("%v", err)
	}
	return &machine.Fit{Schema: anything, Value: value}
}

func (w *world) waitFor(c *runningTool, in machine.WaitFor) {
	w.caller++
	in.To, in.Gen, in.Call, in.Schema, in.Until = w.caller, c.Gen, c.Call, anything, w.clock()+conversation.Time(w.r.IntN(40_000))
	w.callers[in.To] = in
	c.asks, c.asked = in.To, in.Name
	w.note("wait for %s of %s", in.Name, c.Call)
	w.do(in)
}

func (w *world) answered(asked machine.WaitFor, v machine.Answer) {
	i := slices.IndexFunc(w.tools, func(c *runningTool) bool { return c.asks == asked.To })
	if i < 0 {
		return
	}
	c := w.tools[i]
	c.asks = 0
	switch v := v.(type) {
	case machine.WaitOver:
		w.checkWaitResult(c.Call, asked.Name, v.Value)
		c.steps["wait "+asked.Name] = true
	case machine.WaitOpen:
		if have := w.durable.WaitOf(c.Call, asked.Name); have == nil || have.Until != v.Until {
			violate("%s is answered to wait for %q, the log has %+v", c.Call, asked.Name, have)
		}
		c.waits = &v
	case machine.WaitValidate:
		w.seen["validated"]++
		asked.Kept, asked.Fit = v.Kept, w.fit(v.Body)
		w.again = append(w.again, func() { w.waitFor(c, asked) })
	}
}

// checkWaitResult checks that every run of a call gets the same result of a wait, equal to the log.
func (w *world) checkWaitResult(call conversation.CallID, name string, value json.RawMessage) {
	key := string(call) + name
	if old, ok := w.results[key]; ok && !bytes.Equal(old, value) {
		violate("%s got %s for %q, earlier %s", call, value, name, old)
	}
	have := w.durable.WaitOf(call, name)
	if have == nil || have.Ended == "" || !bytes.Equal(have.Value, value) {
		violate("%s got %s for %q, the log has %+v", call, value, name, have)
	}
	w.results[key] = value
}

func (w *world) suspendWaiting(i int) {
	c := w.tools[i]
	w.tools = slices.Delete(w.tools, i, i+1)
	in := machine.ToolSuspended{Gen: c.Gen, Call: c.Call, Until: c.waits.Until}
	w.note("suspended %s until %s or a signal", c.Call, in.Until)
	w.seen["waits for a signal"]++
	w.do(in)
}

func (w *world) checkWaits(b conversation.Batch) {
	for _, r := range b.Records {
		switch r := r.(type) {
		case *conversation.WaitEnded:
			w.seen["wait ended by "+string(r.Reason)]++
			if r.Reason == conversation.EndedBySignal && !settles(b, r.Signal) {
				w.seen["kept signal taken"]++
			}
		case *conversation.SignalKept:
			if !settles(b, r.Submission) {
				violate("signal_kept of %s is not in the batch of its admission", r.Submission)
			}
		}
	}
	for _, sub := range w.ahead.Unsettled() {
		if sub.Due && w.ahead.UnderWay() == nil {
			violate("batch %d resumes %s but does not continue it", int64(b.Offset), sub.ID)
		}
	}
}

// isLate reports whether no wait can need a signal any more.
func (w *world) isLate(s *conversation.State, a conversation.Admission) bool {
	name, _ := a.Delivery.Awaited()
	_, decided := s.Decided(name, w.wall)
	run := s.Run()
	over := run != nil && run.Outcome != ""
	return (decided || over || s.Kept(name, w.wall) != nil) && s.Awaiting(name) == nil
}

// endsWait reports whether the batch of a signal ended a wait.
func (w *world) endsWait(r conversation.Receipt) bool {
	return slices.ContainsFunc(w.log[r.Offset].batch.Records, func(other conversation.Record) bool {
		ended, ok := other.(*conversation.WaitEnded)
		return ok && ended.Signal == r.SubmissionID
	})
}
