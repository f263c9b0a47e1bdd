package actors_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
)

// researcher is a subagent with a model of its own, "test/child".
func researcher(tools ...agent.Tool) *agent.Agent {
	return &agent.Agent{Name: "researcher", Description: "Finds things out.", Model: "test/child", Instructions: "Research.", Tools: tools}
}

func withSubagents(a *agent.Agent, subs ...*agent.Agent) *agent.Agent {
	a.Subagents = subs
	return a
}

// TestTask delegates a task: the child gets only its task, the parent gets its result, and clients see
// neither.
func TestTask(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		strange := agent.NewDataWriter[string]("strange", nil)
		var wrote error
		look := agent.NewTool("look", "Looks.", func(ctx context.Context, _ struct{}) (string, error) {
			call, _ := agent.CallFrom(ctx)
			wrote = strange.Write(ctx, "child data")
			return "childish fog of " + call.Address.ID, nil
		}, nil)
		a := withSubagents(chatAgent(), researcher(look))
		a.Data = []agent.Data{strange}
		c := &vendor{models: map[string]script{
			"model": inTurn(replies("Hello."), toolCalls(task("researcher", "childish task")), replies("It is foggy.")),
			"child": inTurn(toolCalls("look"), replies("childish result")),
		}}
		n := l.run(part{opts: agents(a), vendor: c})
		n.admit(chat("c"), "1", "hello")
		l.completes(chat("c"), 1)
		n.admit(chat("c"), "2", "research")
		l.completes(chat("c"), 2)

		if tools := c.requests("model")[1].req.Tools; len(tools) != 1 || tools[0].Name != agent.TaskTool ||
			!strings.Contains(tools[0].Description, "researcher: Finds things out.") || !strings.Contains(string(tools[0].InputSchema), `"enum":["researcher"]`) {
			t.Errorf("got tools of the parent %+v", tools)
		}
		child := c.requests("child")
		if diff := cmp.Diff([]string{"user: childish task"}, child[0].seen()); diff != "" || child[0].req.System != "Research." {
			t.Errorf("child: instructions %q, prompt (-want +got):\n%s", child[0].req.System, diff)
		}
		if diff := cmp.Diff([]string{"user: childish task", "assistant: look{}", "tool: p1=childish fog of c"}, child[1].seen()); diff != "" {
			t.Errorf("second prompt of the child (-want +got):\n%s", diff)
		}
		if tools := child[0].req.Tools; len(tools) != 1 || tools[0].Name != "look" {
			t.Errorf("got tools of the child %+v", tools)
		}
		seen := c.last(t, "model")
		if got, want := seen[len(seen)-1], "tool: p1=childish result"; got != want {
			t.Errorf("parent: got prompt %q, want %q", got, want)
		}
		if wrote == nil {
			t.Error("got data of a subagent")
		}
		checkChildHidden(t, l, n)
	})
}

// checkChildHidden fails if clients see more of a child than the call that started it.
func checkChildHidden(t *testing.T, l *loop, n *actorNode) {
	t.Helper()
	started, settled := only[*conversation.ChildStarted](l.records(chat("c"))), only[*conversation.ChildSettled](l.records(chat("c")))
	if len(started) != 1 || len(settled) != 1 || settled[0].Outcome != conversation.OutcomeCompleted || settled[0].Usage.Total != 27 {
		t.Fatalf("got %+v and %+v in the log", started, settled)
	}
	public := n.public(chat("c"))
	lacks(t, "the public view", public, string(started[0].Child), string(started[0].Submission), "childish fog", `"toolName":"look"`, "child data")
	for _, r := range l.records(chat("c")) {
		if r, ok := r.(*conversation.ResponseStarted); ok && r.Child != "" {
			lacks(t, "the public view", public, string(r.Turn), string(r.Message))
		}
	}
	parts := toolParts(n.snapshot(chat("c")))
	if len(parts) != 1 || parts[0].ToolName != agent.TaskTool || string(parts[0].Output) != `"childish result"` {
		t.Errorf("got public calls %+v", parts)
	}
}

// TestConcurrentTasks runs two tasks of one reply concurrently.
func TestConcurrentTasks(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		both := make(chan string, 2)
		release := map[string]chan struct{}{"user: one": make(chan struct{}), "user: two": make(chan struct{})}
		c := &vendor{models: map[string]script{
			"model": inTurn(toolCalls(task("researcher", "one"), task("researcher", "two")), replies("done")),
			"child": func(ctx context.Context, req providers.Request, a *providers.Assembler) error {
				prompt := shown(req)[0]
				both <- prompt
				<-release[prompt]
				return replies("result of "+strings.TrimPrefix(prompt, "user: "))(ctx, req, a)
			},
		}}
		n := l.run(part{opts: agents(withSubagents(chatAgent(), researcher())), vendor: c})
		n.admit(chat("c"), "1", "go")
		<-both
		<-both
		close(release["user: two"])
		l.until("the second result", func() bool { return len(only[*conversation.ToolSettled](l.records(chat("c")))) == 1 })
		close(release["user: one"])
		l.completes(chat("c"), 1)
		seen := c.last(t, "model")
		if got, want := seen[len(seen)-1], "tool: p1=result of one|p2=result of two"; got != want {
			t.Errorf("parent: got prompt %q, want %q", got, want)
		}
	})
}

// TestModelOfASubagent is its parent's model at that call, unless the subagent has its own.
func TestModelOfASubagent(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		successor := &agent.Agent{Name: "heir", Description: "Inherits."}
		a := withSubagents(chatAgent(), successor, researcher())
		a.Prepare = func(_ context.Context, _ *agent.Turn, s *agent.Setup) error {
			s.Model, s.Fallbacks = "test/chosen", []string{"test/spare"}
			return nil
		}
		c := &vendor{models: map[string]script{
			"chosen": inTurn(toolCalls(task("heir", "one"), task("researcher", "two")), fails(&providers.Error{Kind: providers.KindProtocol}), replies("done")),
			"spare":  replies("spare result"), "child": replies("own result"),
		}}
		n := l.run(part{opts: agents(a), vendor: c})
		n.admit(chat("c"), "1", "go")
		l.completes(chat("c"), 1)
		seen := c.last(t, "chosen")
		if got, want := seen[len(seen)-1], "tool: p1=spare result|p2=own result"; got != want {
			t.Errorf("parent: got prompt %q, want %q", got, want)
		}
		for model, want := range map[string]string{"spare": "user: one", "child": "user: two"} {
			if got := c.last(t, model); len(got) != 1 || got[0] != want {
				t.Errorf("%s: got prompt %q, want %q", model, got, want)
			}
		}
	})
}

// TestInvalidTasks: the model gets an error for each invalid task and may continue.
func TestInvalidTasks(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		c := &vendor{models: map[string]script{
			"model": inTurn(toolCalls(task("nobody", "x"), `task {"agent":"researcher"}`, `task {"agent":"researcher","prompt":"  "}`, `task [1]`, `task {"agent":`, task("researcher", "fail")), replies("done")),
			"child": fails(errNoCredit),
		}}
		n := l.run(part{opts: agents(withSubagents(chatAgent(), researcher())), vendor: c})
		n.admit(chat("c"), "1", "go")
		l.completes(chat("c"), 1)
		seen := c.last(t, "model")
		results := strings.Split(strings.TrimPrefix(seen[len(seen)-1], "tool: "), "|")
		if len(results) != 6 {
			t.Fatalf("got results %q", results)
		}
		wants(t, "the result for an unknown agent", results[0], `p1!There is no agent named "nobody". The agents are: researcher.`)
		for i, r := range results[1:5] {
			wants(t, "the result of bad input", r, fmt.Sprintf("p%d!", i+2), "needs an agent and a prompt, both strings")
		}
		if want := "p6!The subagent could not complete the task."; results[5] != want {
			t.Errorf("failed task: got result %q, want %q", results[5], want)
		}
		lacks(t, "the log", l.lines(chat("c")), "words of the vendor")
	})
}

// TestTaskDepth: the fourth level cannot delegate, even if it tries.
func TestTaskDepth(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		level := func(i int) *agent.Agent {
			return &agent.Agent{Name: fmt.Sprint("level", i), Description: "A level.", Model: fmt.Sprint("test/level", i)}
		}
		deepest := level(4)
		deepest.Prepare = func(_ context.Context, _ *agent.Turn, s *agent.Setup) error {
			s.Subagents = []*agent.Agent{level(5)}
			return nil
		}
		chain := deepest
		models := map[string]script{
			"level4": inTurn(toolCalls(task("level5", "deeper")), func(ctx context.Context, req providers.Request, a *providers.Assembler) error {
				seen := shown(req)
				return replies(seen[len(seen)-1])(ctx, req, a)
			}),
			"level5": replies("too deep"),
			"model":  inTurn(toolCalls(task("level1", "go down")), replies("done")),
		}
		for i := 3; i >= 1; i-- {
			chain = withSubagents(level(i), chain)
			models[fmt.Sprint("level", i)] = inTurn(toolCalls(task(fmt.Sprint("level", i+1), fmt.Sprint("down from ", i))), func(ctx context.Context, req providers.Request, a *providers.Assembler) error {
				seen := shown(req)
				return replies(strings.TrimPrefix(seen[len(seen)-1], "tool: p1="))(ctx, req, a)
			})
		}
		c := &vendor{models: models}
		n := l.run(part{opts: agents(withSubagents(chatAgent(), chain)), vendor: c})
		n.admit(chat("c"), "1", "go")
		l.completes(chat("c"), 1)
		if tools := c.requests("level4")[0].req.Tools; len(tools) != 0 {
			t.Errorf("got tools of the deepest level %+v", tools)
		}
		if got := len(c.requests("level5")); got != 0 {
			t.Errorf("got %d calls of a fifth level, want 0", got)
		}
		seen := c.last(t, "model")
		wants(t, "the result", seen[len(seen)-1], "p1=tool: p1!This task was not delegated: subagents may be nested at most 4 deep.")
	})
}

// TestAbortEndsSubagents aborts a conversation whose subagents stream and run tools.
func TestAbortEndsSubagents(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		streaming, running, ended := make(chan struct{}), make(chan struct{}), make(chan struct{}, 2)
		stuck := agent.NewTool("stuck", "Hangs.", func(ctx context.Context, _ struct{}) (string, error) {
			close(running)
			<-ctx.Done()
			ended <- struct{}{}
			return "", ctx.Err()
		}, nil)
		inner := &agent.Agent{Name: "inner", Description: "Streams.", Model: "test/inner"}
		c := &vendor{models: map[string]script{
			"model": inTurn(toolCalls(task("researcher", "one"), task("researcher", "two")), replies("done")),
			"child": func(ctx context.Context, req providers.Request, a *providers.Assembler) error {
				if shown(req)[0] == "user: one" {
					return toolCalls("stuck")(ctx, req, a)
				}
				return toolCalls(task("inner", "stream"))(ctx, req, a)
			},
			"inner": func(ctx context.Context, req providers.Request, a *providers.Assembler) error {
				err := hangs("half", streaming)(ctx, req, a)
				ended <- struct{}{}
				return err
			},
		}}
		n := l.run(part{opts: agents(withSubagents(chatAgent(), withSubagents(researcher(stuck), inner))), vendor: c})
		n.admit(chat("c"), "1", "go")
		await(t, streaming, "the stream")
		await(t, running, "the tool")
		time.Sleep(time.Second) // the emitted text is recorded
		if any, err := n.rt.Abort(t.Context(), chat("c")); !any || err != nil {
			t.Fatalf("abort: %v, %v", any, err)
		}
		s := l.settles(chat("c"), 1)[0]
		if s.Outcome != conversation.OutcomeAborted {
			t.Errorf("got outcome %s", s.Outcome)
		}
		<-ended
		<-ended
		records := l.records(chat("c"))
		var outcomes []conversation.Outcome
		for _, r := range only[*conversation.ChildSettled](records) {
			outcomes = append(outcomes, r.Outcome)
		}
		if diff := cmp.Diff([]conversation.Outcome{conversation.OutcomeAborted, conversation.OutcomeAborted, conversation.OutcomeAborted}, outcomes); diff != "" {
			t.Errorf("ends of the subagents (-want +got):\n%s", diff)
		}
		if called, settled := len(only[*conversation.ToolCalled](records)), len(only[*conversation.ToolSettled](records)); called != 4 || settled != 4 {
			t.Errorf("got %d calls with %d outcomes, want 4", called, settled)
		}
		for _, p := range toolParts(n.snapshot(chat("c"))) {
			if p.State != conversation.StateOutputError {
				t.Errorf("got public part %+v", p)
			}
		}
		n.admit(chat("c"), "2", "again")
		l.completes(chat("c"), 2)
	})
}

// TestSubagentAfterACrash kills a node while a child streams: the child continues, calls with an
// outcome do not run again, and its parent's model is not called again.
func TestSubagentAfterACrash(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		k, streaming := &work{}, make(chan struct{})
		look := agent.NewTool("look", "Looks.", func(context.Context, struct{}) (string, error) {
			k.did("look")
			return "fog", nil
		}, nil)
		parallel := agent.NewTool("beside", "Ends.", func(context.Context, struct{}) (string, error) {
			k.did("beside")
			return "at once", nil
		}, nil)
		c := &vendor{models: map[string]script{
			"model": inTurn(toolCalls(task("researcher", "childish task"), "beside"), replies("done")),
			"child": inTurn(toolCalls("look"), hangs("The childish first half", streaming), replies(" and the second.")),
		}}
		opts := agents(withSubagents(chatAgent(parallel), researcher(look)))
		n := l.run(part{opts: opts, vendor: c})
		n.admit(chat("c"), "1", "go")
		await(t, streaming, "the child")
		l.until("its text, and the outcome", func() bool {
			lines := l.lines(chat("c"))
			return strings.Contains(lines, "The childish first half") && strings.Contains(lines, "at once")
		})
		n.crash()
		n = l.run(part{opts: opts, vendor: c})
		l.completes(chat("c"), 1)

		if diff := cmp.Diff(map[string]int{"look": 1, "beside": 1}, k.counts()); diff != "" {
			t.Errorf("runs (-want +got):\n%s", diff)
		}
		if got := len(c.requests("model")); got != 2 {
			t.Errorf("got %d calls of the parent's model, want 2", got)
		}
		seen := c.last(t, "child")
		if len(seen) != 5 || !slices.Equal(seen[:4], []string{"user: childish task", "assistant: look{}", "tool: p1=fog", "assistant: The childish first half"}) ||
			!strings.Contains(seen[4], "continue exactly where it stops") {
			t.Errorf("child: got prompt %q", seen)
		}
		parent := c.last(t, "model")
		wants(t, "the parent's prompt", parent[len(parent)-1], "p1=The childish first half and the second.|p2=at once")
		lacks(t, "the public view", n.public(chat("c")), "continue exactly", `"toolName":"look"`)
	})
}

// TestSubagentIsCompacted: its prompt is shortened when it does not fit, and no client gets a reset.
func TestSubagentIsCompacted(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		child := researcher(returning("look", words("fog")))
		child.Compaction = agent.Compaction{Model: "test/sum", KeepRecentTokens: 10}
		c := &vendor{models: map[string]script{
			"model": inTurn(toolCalls(task("researcher", "childish task")), replies("done")),
			"child": inTurn(toolCalls("look"), toolCalls("look"), fails(tooLong), replies("childish result")),
			"sum":   replies("It looked."),
		}}
		n := l.run(part{opts: agents(withSubagents(chatAgent(), child)), vendor: c})
		n.admit(chat("c"), "1", "go")
		l.completes(chat("c"), 1)
		want := []string{summaryOf("It looked."), "user: childish task", "assistant: look{}", "tool: p1=" + words("fog")}
		if diff := cmp.Diff(want, c.last(t, "child")); diff != "" {
			t.Errorf("prompt of the child (-want +got):\n%s", diff)
		}
		chunks, _ := n.updates(chat("c"), 0)
		for _, c := range chunks {
			if c.Type == conversation.ChunkReset {
				t.Errorf("got a reset for clients: %+v", c)
			}
		}
		lacks(t, "the public view", n.public(chat("c")), "It looked.")
		seen := c.last(t, "model")
		if got := seen[len(seen)-1]; got != "tool: p1=childish result" {
			t.Errorf("parent: got prompt %q", got)
		}
	})
}
