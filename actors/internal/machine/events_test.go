package machine_test

import (
	"fmt"
	"strings"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
)

// printEvents prints the durable events from batch from on, indented by nesting, and returns the
// number of batches.
func printEvents(w *strings.Builder, log []entry, from int) int {
	var src observability.Source
	var open []string
	for n, e := range log {
		list := observability.Project(src, e.batch, nil)
		src = src.After(e.batch)
		for _, ev := range list {
			depth := 0
			if ev.Operation != "" {
				open = nest(open, ev)
				depth = len(open)
				open = opened(open, ev)
			}
			if n < from {
				continue
			}
			fmt.Fprintf(w, "%d/%d %s%s", ev.Seq, ev.Index, strings.Repeat("  ", depth), eventText(ev))
		}
	}
	return len(log)
}

// nest returns the events that stay open after ev.
func nest(open []string, ev observability.Event) []string {
	ends := map[observability.Type]string{
		observability.TypeOperation: "operation", observability.TypeAgentEnd: "agent", observability.TypeTask: "task",
		observability.TypeCompaction: "compaction",
	}
	if kind, ok := ends[ev.Type]; ok {
		for i := len(open) - 1; i >= 0; i-- {
			if open[i] == kind+string(key(ev)) {
				return append(open[:i:i], open[i+1:]...)
			}
		}
	}
	return open
}

func opened(open []string, ev observability.Event) []string {
	begins := map[observability.Type]string{
		observability.TypeOperationStart: "operation", observability.TypeAgentStart: "agent", observability.TypeTaskStart: "task",
		observability.TypeCompactionStart: "compaction",
	}
	if kind, ok := begins[ev.Type]; ok {
		return append(open, kind+string(key(ev)))
	}
	return open
}

// key distinguishes concurrent events of one kind.
func key(ev observability.Event) conversation.ConversationID { return ev.Conversation }

// eventText formats an event without the fields common to a script.
func eventText(ev observability.Event) string {
	payload, err := observability.AppendPayload(nil, ev.Payload)
	if err != nil {
		return err.Error()
	}
	s := fmt.Sprintf("%s %s", ev.At.String()[14:23], ev.Type)
	for _, v := range []struct{ name, value string }{
		{"", string(ev.Submission)}, {"", ev.Operation}, {"", string(ev.Turn)}, {"", string(ev.Conversation)}, {"session=", ev.Session}, {"parent=", ev.ParentSession}, {"", ev.Task},
	} {
		if v.value != "" && v.value != observability.SessionDefault {
			s += " " + v.name + v.value
		}
	}
	return s + " " + string(payload) + "\n"
}

// verifyEvents checks that the events of a settled log are complete: each start has its end within its
// parent, and ids are unique.
func (w *world) verifyEvents() {
	c := eventCheck{ids: map[string]bool{}, open: map[string]int{}, turns: map[conversation.TurnID]int{}, calls: map[conversation.CallID]int{}}
	var src observability.Source
	for _, e := range w.log {
		for _, ev := range observability.Project(src, e.batch, nil) {
			c.event(ev)
		}
		src = src.After(e.batch)
	}
	for name, n := range c.open {
		if n != 0 {
			violate("%d events have no end: %s", n, name)
		}
	}
	for id, n := range c.turns {
		if n != 0 {
			violate("turn %s has %d surplus starts", id, n)
		}
	}
	for id, n := range c.calls {
		if n != 0 {
			violate("call %s has no outcome", id)
		}
	}
}

type eventCheck struct {
	ids   map[string]bool
	open  map[string]int
	turns map[conversation.TurnID]int
	calls map[conversation.CallID]int
}

func (c *eventCheck) event(ev observability.Event) {
	if c.ids[ev.ID] {
		violate("duplicate event id %s", ev.ID)
	}
	c.ids[ev.ID] = true
	if ev.Agent == "" || ev.At == 0 || ev.Submission == "" && ev.Operation == "" {
		violate("event %s names no owner: %+v", ev.ID, ev.Envelope)
	}
	switch p := ev.Payload.(type) {
	case *observability.SubmissionQueued:
		c.begin("submission " + string(ev.Submission))
	case *observability.SubmissionSettled:
		c.end("submission " + string(ev.Submission))
	case *observability.OperationStart:
		c.begin("operation " + ev.Operation)
	case *observability.Operation:
		c.end("operation " + ev.Operation)
	case *observability.AgentStart:
		c.within(ev)
		c.begin("agent " + ev.Operation)
	case *observability.AgentEnd:
		c.end("agent " + ev.Operation)
	case *observability.TaskStart:
		c.begin("task " + ev.Task)
	case *observability.Task:
		c.end("task " + ev.Task)
	case *observability.TurnStart:
		c.within(ev)
		c.turns[ev.Turn]++
	case *observability.Turn:
		if p.Purpose == observability.PurposeAgent {
			c.within(ev)
			c.turns[ev.Turn]--
		}
	case *observability.ToolStart:
		c.within(ev)
		c.calls[p.ToolCallID]++
	case *observability.WaitStart:
		c.within(ev)
		c.begin("wait " + string(p.ToolCallID) + " " + p.Name)
		c.tooled(ev, p.ToolName)
	case *observability.Wait:
		c.end("wait " + string(p.ToolCallID) + " " + p.Name)
		c.tooled(ev, p.ToolName)
		if (p.Signal != "") != (p.Reason == observability.WaitSignal) {
			violate("wait %s ends by %q with signal %q", p.Name, p.Reason, p.Signal)
		}
	case *observability.Tool:
		delete(c.calls, p.ToolCallID) // also for a call that never started
	}
}

func (c *eventCheck) tooled(ev observability.Event, tool string) {
	if tool == "" || ev.Turn == "" {
		violate("%s %s names no tool or no turn", ev.Type, ev.ID)
	}
}

func (c *eventCheck) within(ev observability.Event) {
	if c.open["operation "+ev.Operation] != 1 {
		violate("%s %s is outside its operation", ev.Type, ev.ID)
	}
}

func (c *eventCheck) begin(name string) {
	if c.open[name]++; c.open[name] != 1 {
		violate("%s starts twice", name)
	}
}

func (c *eventCheck) end(name string) {
	if c.open[name]--; c.open[name] != 0 {
		violate("%s ends without a start", name)
	}
}
