package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agenttest"
	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
)

const (
	leadModel   = "openai/lead"
	secondModel = "anthropic/second"
	criticModel = "anthropic/critic"
)

// start runs the team with these models and returns a conversation.
func start(t *testing.T, models map[string]*agenttest.Model) *agenttest.Conversation {
	t.Helper()
	team := newTeam(leadModel, secondModel, criticModel, newLibrary())
	return agenttest.New(t, []*agent.Agent{team}, &agenttest.Options{Models: models}).Conversation("research", "tea")
}

// tasks returns an answer with a task for each subagent.
func tasks(names ...string) agenttest.Answer {
	var a agenttest.Answer
	for _, name := range names {
		a.Calls = append(a.Calls, agenttest.ToolCall{Name: agent.TaskTool, Arguments: map[string]string{"agent": name, "prompt": "What of tea?"}})
	}
	return a
}

// lead returns the model of the lead and the reader. It detects the reader by its tool.
func lead(read func(agenttest.Request) agenttest.Answer, names ...string) *agenttest.Model {
	return agenttest.ModelFunc(func(r agenttest.Request) agenttest.Answer {
		switch {
		case slices.ContainsFunc(r.Tools, func(t providers.Tool) bool { return t.Name == "look_up" }):
			return read(r)
		case r.Last() == "Does tea work?":
			return tasks(names...)
		default:
			return agenttest.Say("They say: " + r.Last())
		}
	})
}

// looksUp answers as a reader that looks two things up, which takes half a minute.
func looksUp(r agenttest.Request) agenttest.Answer {
	if r.Last() != "What of tea?" {
		return agenttest.Answer{Reasoning: "I see.", Text: "Tea works."}
	}
	a := agenttest.Answer{Delay: 30 * time.Second, Text: "Let me see."}
	for _, topic := range []string{"tea", "none"} {
		a.Calls = append(a.Calls, agenttest.ToolCall{Name: "look_up", Arguments: lookUpInput{topic}})
	}
	return a
}

// TestTasksRunConcurrently verifies that two subagents work at the same time, that the answer has the
// results of both, and that their work is not visible.
func TestTasksRunConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model, critic := lead(looksUp, "reader", "critic"), agenttest.NewModel(agenttest.Answer{Delay: 30 * time.Second, Text: "Says who?"})
		c := start(t, map[string]*agenttest.Model{leadModel: model, criticModel: critic})
		began := time.Now()
		reply := c.Ask("Does tea work?")
		if took := time.Since(began); took < 30*time.Second || took > 45*time.Second {
			t.Errorf("two tasks of half a minute: got duration %v", took)
		}
		if !strings.Contains(reply.Text, "Tea works.") || !strings.Contains(reply.Text, "Says who?") {
			t.Errorf("got reply %q, want the results of both", reply.Text)
		}
		if diff := cmp.Diff([]string{"dynamic-tool task", "dynamic-tool task", "text "}, parts(reply.Message)); diff != "" {
			t.Errorf("parts of the answer (-want +got):\n%s", diff)
		}
		if tools := critic.Requests()[0].Tools; len(tools) > 0 {
			t.Errorf("critic: got tools %+v, want none", tools)
		}
		// Intermediate texts and calls of the reader are not visible.
		snapshot, updates := everything(t, c)
		for _, hidden := range []string{"Let me see", "I see", `"toolName":"look_up"`, "no note about", "four hours"} {
			if strings.Contains(snapshot, hidden) || strings.Contains(updates, hidden) {
				t.Errorf("%q is visible:\n%s\n%s", hidden, snapshot, updates)
			}
		}
		if !strings.Contains(snapshot, "Tea works.") || !strings.Contains(updates, "Tea works.") {
			t.Errorf("no result is visible:\n%s\n%s", snapshot, updates)
		}
	})
}

// TestAbortEndsTheTasks verifies that an abort cancels the tasks of the lead.
func TestAbortEndsTheTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := lead(func(agenttest.Request) agenttest.Answer { return agenttest.Stall() }, "reader", "critic")
		critic := agenttest.NewModel(agenttest.Stall())
		c := start(t, map[string]*agenttest.Model{leadModel: model, criticModel: critic})
		receipt, err := c.Send(t.Context(), client.Message{Body: "Does tea work?"})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if len(critic.Requests()) != 1 || len(model.Requests()) != 2 {
			t.Fatalf("got %d calls for lead and reader, %d for the critic", len(model.Requests()), len(critic.Requests()))
		}
		if aborted, err := c.Abort(t.Context()); err != nil || !aborted {
			t.Fatalf("abort: got %v, %v", aborted, err)
		}
		reply, err := c.Wait(t.Context(), receipt)
		if !errors.Is(err, client.ErrAborted) {
			t.Errorf("got settlement error %v, want aborted", err)
		}
		if diff := cmp.Diff([]string{"dynamic-tool task", "dynamic-tool task"}, parts(reply.Message)); diff != "" {
			t.Errorf("parts of the answer (-want +got):\n%s", diff)
		}
		for _, p := range reply.Message.Parts {
			if p.State != "output-error" {
				t.Errorf("got task state %s, want an error", p.State)
			}
		}
		// The conversation continues.
		if next := c.Ask("Are you there?"); next.Text != "They say: Are you there?" {
			t.Errorf("after the abort: got reply %q", next.Text)
		}
	})
}

// TestLeadFallsBack verifies that the second vendor answers if the first fails, for the lead and its
// reader.
func TestLeadFallsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := agenttest.ModelFunc(func(agenttest.Request) agenttest.Answer {
			return agenttest.Fail(&providers.Error{Kind: providers.KindAuth, Status: 401})
		})
		second := lead(looksUp, "reader")
		reply := start(t, map[string]*agenttest.Model{leadModel: down, secondModel: second}).Ask("Does tea work?")
		if !strings.Contains(reply.Text, "Tea works.") {
			t.Errorf("got reply %q", reply.Text)
		}
		// The lead stays with the working model. Subagents with the lead's models do not call the
		// failed one again.
		if first, then := len(down.Requests()), len(second.Requests()); first != 1 || then != 4 {
			t.Errorf("got %d calls of the first model and %d of the second, want 1 and 4", first, then)
		}
	})
}

func parts(m *conversation.Message) []string {
	var out []string
	for _, p := range m.Parts {
		out = append(out, p.Type+" "+p.ToolName)
	}
	return out
}

// everything returns the conversation as a snapshot and as all chunks.
func everything(t *testing.T, c *agenttest.Conversation) (snapshot, updates string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h, err := c.History(ctx)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var chunks []conversation.Chunk
	for u, err := range c.Observe(ctx, conversation.Start, nil) {
		if err != nil {
			t.Fatal(err)
		}
		if chunks = append(chunks, u.Chunks...); u.UpToDate {
			break
		}
	}
	all, err := json.Marshal(chunks)
	if err != nil {
		t.Fatal(err)
	}
	return string(b), string(all)
}
