package actors_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/providers"
)

// The run of a scenario: the model calls a plain tool with an output too long for a record, and a durable
// tool. Then it hands a task to a subagent, which calls a tool and answers, and answers itself. The
// second step fills the window, so that the first is summarized while the subagent works.

// agent returns the agent of this process.
func (p *process) agent() *agent.Agent {
	if p.s.suspends {
		return chatAgent(p.waits())
	}
	look := p.plain("look", "fog")
	a := withSubagents(compacting(p.plain("plain", strings.Repeat("plainly ", 3_000)), p.deploy()), researcher(look))
	a.Limits.OutputBytes = 20_000
	a.Compaction.KeepRecentTokens = 5
	a.Hooks = agent.Hooks{
		DeliveryStarted: func(ctx context.Context, _ *agent.Turn) error { return p.whole(ctx, "delivery hook", "") },
		ResponseStarted: func(ctx context.Context, _ *agent.Turn) (map[string]any, error) {
			return map[string]any{"began": true}, p.whole(ctx, "response hook", "")
		},
		WouldStop: func(ctx context.Context, _ *agent.Response) (string, error) {
			return "", p.whole(ctx, "stop hook", "")
		},
		ResponseFinished: func(ctx context.Context, _ *agent.Response) (map[string]any, error) {
			return map[string]any{"ended": true}, p.whole(ctx, "finish hook", "")
		},
		Settled: func(ctx context.Context, _ *agent.Settlement) error { return p.whole(ctx, "settled hook", "") },
	}
	return a
}

// whole is a function call with a begin and an end boundary.
func (p *process) whole(ctx context.Context, event string, call conversation.CallID) error {
	if err := p.invoke(ctx, event, call); err != nil {
		return err
	}
	return p.at(ctx, event+" ends")
}

// plain is a tool that is not durable.
func (p *process) plain(name, result string) agent.Tool {
	return agent.NewTool(name, "Returns a text.", func(ctx context.Context, _ struct{}) (string, error) {
		call, _ := agent.CallFrom(ctx)
		return result, p.whole(ctx, "tool "+name, call.ID)
	}, nil)
}

// deploy is a durable tool of three steps.
func (p *process) deploy() agent.Tool {
	return agent.NewTool("deploy", "Deploys.", func(ctx context.Context, _ struct{}) (string, error) {
		call, _ := agent.CallFrom(ctx)
		if err := p.invoke(ctx, "tool deploy", call.ID); err != nil {
			return "", err
		}
		var out []string
		for _, name := range []string{"one", "two", "three"} {
			done, err := agent.Step(ctx, name, func(ctx context.Context) (string, error) {
				return name + " done", p.whole(ctx, "step "+name, call.ID)
			})
			if err != nil {
				return "", err
			}
			out = append(out, done)
		}
		return strings.Join(out, ", "), p.at(ctx, "tool deploy ends")
	}, &agent.ToolOptions{Durable: true})
}

// vendor returns the models of the run. Their answers depend only on the prompt.
func (p *process) vendor() *vendor {
	if p.s.suspends {
		return p.suspendedVendor()
	}
	if p.s.runs {
		return p.expertVendor()
	}
	return &vendor{models: map[string]script{
		"model": func(ctx context.Context, req providers.Request, a *providers.Assembler) error {
			seen := modelRequest{req: req}.seen()
			all := strings.Join(seen, "\n")
			p.s.mu.Lock()
			p.s.views = append(p.s.views, view{seen, time.Now()})
			p.s.mu.Unlock()
			switch {
			case strings.Contains(all, "=child result"):
				return p.answers(ctx, a, "model 3", seen, "All ", "done.")
			case strings.Contains(all, "three done"):
				return p.calls(ctx, a, "model 2", much, task("researcher", "childish task"))
			}
			return p.calls(ctx, a, "model 1", little, "plain", "deploy")
		},
		"child": func(ctx context.Context, req providers.Request, a *providers.Assembler) error {
			seen := modelRequest{req: req}.seen()
			if all := strings.Join(seen, "\n"); strings.Contains(all, "=fog") || strings.Contains(all, textUnknown) {
				return p.answers(ctx, a, "child 2", seen, "child ", "result")
			}
			return p.calls(ctx, a, "child 1", little, "look")
		},
		"sum": func(ctx context.Context, _ providers.Request, a *providers.Assembler) error {
			return p.answers(ctx, a, "summary", nil, "They ", "worked.")
		},
	}}
}

// textUnknown begins the message to the model about a call that may have run.
const textUnknown = "The outcome of this call is unknown"

// calls answers with tool calls.
func (p *process) calls(ctx context.Context, a *providers.Assembler, event string, u providers.Usage, calls ...string) error {
	if err := p.invoke(ctx, event, ""); err != nil {
		return err
	}
	for i, c := range calls {
		name, input, _ := strings.Cut(c+" {}", " ")
		if strings.HasPrefix(c, agent.TaskTool) {
			input = strings.TrimSuffix(input, " {}")
		}
		a.CallArguments(a.StartCall(fmt.Sprint("p", i+1), name), input)
		if err := p.at(ctx, fmt.Sprint(event, " has called ", name)); err != nil {
			return err
		}
	}
	a.Finish(providers.Done{StopReason: providers.StopToolUse, Usage: u})
	return p.at(ctx, event+" ends")
}

// answers answers with texts. If the prompt asks the model to continue, it omits the texts in the
// prompt.
func (p *process) answers(ctx context.Context, a *providers.Assembler, event string, seen []string, texts ...string) error {
	if err := p.invoke(ctx, event, ""); err != nil {
		return err
	}
	prior := ""
	for _, s := range seen {
		text, ok := strings.CutPrefix(s, "assistant: ")
		if whole := strings.Join(texts, ""); ok && strings.HasPrefix(whole, prior+text) {
			prior += text
		}
	}
	if len(seen) > 0 && !strings.Contains(seen[len(seen)-1], "continue exactly") {
		prior = "" // not asked to continue
	}
	for _, text := range texts {
		if len(prior) >= len(text) {
			prior = prior[len(text):]
			continue
		}
		a.Text(text[len(prior):])
		prior = ""
		if err := p.at(ctx, fmt.Sprint(event, " has said ", text)); err != nil {
			return err
		}
	}
	a.Finish(providers.Done{StopReason: providers.StopStop, Usage: little})
	return p.at(ctx, event+" ends")
}

// check fails the test unless the scenario ended correctly.
func (s *scenario) check(t *testing.T) {
	t.Helper()
	facts := s.facts()
	s.checkSettled(t, facts)
	s.checkOutcomes(t, facts)
	s.checkInvocations(t, facts)
	s.checkView(t, facts)
	s.checkClients(t, facts)
	if t.Failed() {
		for i, p := range s.processes {
			t.Logf("process %d reached\n\t%s", i, strings.Join(p.reachedBoundaries(), "\n\t"))
		}
		t.Logf("calls:\n%+v\nlog:\n%s", s.invocations, s.lines(chat("c")))
	}
}

func (s *scenario) checkSettled(t *testing.T, facts []fact) {
	t.Helper()
	var admitted, settled int
	for _, f := range facts {
		switch r := f.record.(type) {
		case *conversation.SubmissionAdmitted:
			admitted++
		case *conversation.SubmissionSettled:
			settled++
			if r.Outcome != conversation.OutcomeCompleted {
				t.Errorf("got settlement %+v with error %+v", r, r.Error)
			}
		}
	}
	if admitted != 1 || settled != 1 {
		t.Errorf("%d submissions and %d settlements, want one each", admitted, settled)
	}
}

func (s *scenario) ran(event string, call conversation.CallID) (n int) {
	for _, d := range s.invocations {
		if d.event == event && d.call == call {
			n++
		}
	}
	return n
}

// checkOutcomes: every call and every subagent has one outcome, which states whether it may have run.
func (s *scenario) checkOutcomes(t *testing.T, facts []fact) {
	t.Helper()
	names, settled, succeeded := map[conversation.CallID]string{}, map[conversation.CallID]int{}, map[string]int{}
	stored, children, unsettled := map[conversation.CallID]bool{}, 0, 0
	for _, f := range facts {
		switch r := f.record.(type) {
		case *conversation.OutputStored:
			stored[r.Call] = true
		case *conversation.ToolCalled:
			names[r.Call] = r.Name
		case *conversation.ToolSettled:
			settled[r.Call]++
			name := names[r.Call]
			plain := name == "plain" || name == "look"
			switch n := s.ran("tool "+name, r.Call); {
			case !r.Failed:
				succeeded[name]++
				if stored[r.Call] != (name == "plain") {
					t.Errorf("got output of %s stored: %v", name, stored[r.Call])
				}
				if plain && n != 1 {
					t.Errorf("%s succeeded and ran %d times", name, n)
				}
			case strings.HasPrefix(r.ErrorText, "This call did not run") && n == 0:
			case strings.HasPrefix(r.ErrorText, textUnknown) && plain && n <= 1:
				succeeded[name]++
			default:
				t.Errorf("%s ran %d times and ended with %q", name, n, r.ErrorText)
			}
		case *conversation.ChildStarted:
			children, unsettled = children+1, unsettled+1
		case *conversation.ChildSettled:
			if unsettled--; r.Outcome != conversation.OutcomeCompleted {
				t.Errorf("got subagent outcome %+v", r)
			}
		}
	}
	for call, name := range names {
		if settled[call] != 1 {
			t.Errorf("got %d outcomes of %s %s, want 1", settled[call], name, call)
		}
	}
	if diff := cmp.Diff(map[string]int{"plain": 1, "deploy": 1, "task": 1, "look": 1}, succeeded); diff != "" {
		t.Errorf("outcomes of calls that ran (-want +got):\n%s", diff)
	}
	if children != 1 || unsettled != 0 {
		t.Errorf("%d subagents, %d without an outcome", children, unsettled)
	}
}

// ends returns when the result of each call became durable, and fails on duplicates.
func ends(t *testing.T, facts []fact) map[invocation]time.Time {
	t.Helper()
	out := map[invocation]time.Time{}
	names := map[conversation.CallID]string{}
	called := map[conversation.ConversationID]string{} // the newest call of an open step
	end := func(f fact, event string, call conversation.CallID) {
		if _, ok := out[invocation{event: event, call: call}]; ok {
			t.Errorf("the result of %s %s was recorded twice", event, call)
		}
		out[invocation{event: event, call: call}] = f.at
	}
	for _, f := range facts {
		switch r := f.record.(type) {
		case *conversation.HookDone:
			end(f, "delivery hook", "")
		case *conversation.ResponseStarted:
			if _, ok := out[invocation{event: "response hook"}]; !ok && r.Child == "" {
				end(f, "response hook", "")
			}
		case *conversation.ToolCalled:
			names[r.Call], called[r.Child] = r.Name, r.Name
			end(f, "call", r.Call)
		case *conversation.StepRecorded:
			end(f, "step "+r.Name, r.Call)
		case *conversation.ToolSettled:
			end(f, "tool "+names[r.Call], r.Call)
		case *conversation.StepCompleted:
			if r.StopReason != conversation.ReasonInterrupted {
				end(f, map[string]string{"deploy": "model 1", "task": "model 2", "": "model 3", "look": "child 1", "child": "child 2"}[called[r.Child]], "")
			}
			called[r.Child] = ""
			if r.Child != "" {
				called[r.Child] = "child"
			}
		case *conversation.SubmissionSettled:
			end(f, "stop hook", "")
			end(f, "finish hook", "")
			end(f, "settlement", "")
		}
	}
	return out
}

// checkInvocations: no call happens after its result is durable, none twice in one process, and a call
// without a known end is repeated only if that is allowed.
func (s *scenario) checkInvocations(t *testing.T, facts []fact) {
	t.Helper()
	ends := ends(t, facts)
	type where struct {
		event   string
		call    conversation.CallID
		process int
	}
	count := map[where]int{}
	for _, d := range s.invocations {
		if on, ok := dependsOn(d); ok {
			if at, ok := ends[on]; !ok || d.at.Before(at) {
				t.Errorf("got %s %s in process %d before %s was durable", d.event, d.call, d.process, on.event)
			}
		}
		if at, ok := ends[invocation{event: d.event, call: d.call}]; ok && d.at.After(at) {
			t.Errorf("got a repeated %s %s in process %d, %v after its result was durable", d.event, d.call, d.process, d.at.Sub(at))
		}
		if d.event != "accepted" {
			count[where{d.event, d.call, d.process}]++
		}
		if d.event == "settled hook" || d.event == "accepted" || d.event == "tool plain" || d.event == "tool look" {
			count[where{d.event, d.call, -1}]++
		}
	}
	for event, n := range count {
		if n > 1 {
			t.Errorf("got %d calls: %+v", n, event)
		}
	}
	for _, event := range []string{"model 1", "model 2", "model 3", "child 1", "child 2"} {
		if _, ok := ends[invocation{event: event}]; !ok {
			t.Errorf("no outcome of %s in the log", event)
		}
	}
}

// dependsOn returns the call whose result must be durable before d, if there is one.
func dependsOn(d invocation) (on invocation, ok bool) {
	before := map[string]string{
		"tool plain": "call", "tool deploy": "call", "tool look": "call", "step one": "call", "step two": "step one", "step three": "step two",
	}
	if on, ok := before[d.event]; ok {
		return invocation{event: on, call: d.call}, true
	}
	before = map[string]string{
		"model 1": "delivery hook", "child 1": "model 2", "child 2": "child 1", "stop hook": "model 3",
		"finish hook": "model 3", "settled hook": "settlement",
	}
	event, ok := before[d.event]
	return invocation{event: event}, ok
}

// checkView: the model's last prompt contains each result once, or a summary of it.
func (s *scenario) checkView(t *testing.T, facts []fact) {
	t.Helper()
	last := s.views[len(s.views)-1]
	all := strings.Join(last.seen, "\n")
	summarized := last.seen[0] == summaryOf("They worked.")
	if got, want := strings.Count(all, "three done"), map[bool]int{false: 1}[summarized]; got != want || strings.Count(all, "=child result") != 1 {
		t.Errorf("got last prompt %q", last.seen)
	}
	if !summarized && last.seen[0] != "user: go" {
		t.Errorf("got last prompt beginning with %q", last.seen[0])
	}
	compactions := 0
	for _, f := range facts {
		if r, ok := f.record.(*conversation.Compacted); ok {
			compactions++
			if r.Child != "" || r.Summary != "They worked." {
				t.Errorf("got records %+v", r)
			}
			if last.at.Sub(f.at) > time.Second && !summarized {
				t.Errorf("got a prompt without the summary, %v after it", last.at.Sub(f.at))
			}
		}
	}
	if compactions > 1 || summarized && compactions == 0 {
		t.Errorf("got %d compactions and prompt %q", compactions, last.seen)
	}
}

// checkClients: a client that starts at any offset gets the same complete transcript, without the
// subagent.
func (s *scenario) checkClients(t *testing.T, facts []fact) {
	t.Helper()
	at, n := chat("c"), s.processes[len(s.processes)-1].node
	end := n.snapshot(at)
	want, err := conversation.EncodeJSON(end)
	if err != nil {
		t.Fatal(err)
	}
	state := conversation.NewState()
	begin := (*conversation.Snapshot)(nil)
	for i, b := range append(s.batches(at), nil) {
		tr, err := client.NewTranscript(begin)
		if err != nil {
			t.Fatal(err)
		}
		chunks, next := n.updates(at, tr.Offset())
		if err := tr.Apply(client.Update{Chunks: chunks, Next: next, UpToDate: true}); err != nil {
			t.Fatalf("updates before batch %d: %v", i, err)
		}
		if got, err := conversation.EncodeJSON(tr.Snapshot()); err != nil || string(got) != string(want) {
			t.Fatalf("client from batch %d, error %v: got\n%s\nwant\n%s", i, err, got, want)
		}
		if b == nil {
			break
		}
		if err := state.Apply(conversation.Batch{Offset: conversation.Offset(i), Records: b}); err != nil {
			t.Fatal(err)
		}
		begin = state.Snapshot()
	}
	checkTranscript(t, end)
	lacks(t, "the public view", n.public(at), "fog", `"look"`, "They worked")
	noted := slices.ContainsFunc(facts, func(f fact) bool {
		r, ok := f.record.(*conversation.Advisory)
		return ok && r.Child == ""
	})
	if !noted { // A subagent's notes are not public; those of the reply are, as hidden ones.
		lacks(t, "the public view", n.public(at), "continue exactly")
	}
	for _, f := range facts {
		if r, ok := f.record.(*conversation.ChildStarted); ok {
			lacks(t, "the public view", n.public(at), string(r.Child), string(r.Submission))
		}
	}
}

func checkTranscript(t *testing.T, s conversation.Snapshot) {
	t.Helper()
	// A reply interrupted in its text has a model-only note next to it.
	s.Messages = slices.DeleteFunc(slices.Clone(s.Messages), func(m conversation.Message) bool {
		return m.Display == conversation.DisplayHidden
	})
	if len(s.Messages) != 2 || len(s.Settlements) != 1 {
		t.Fatalf("got %d messages and %d settlements", len(s.Messages), len(s.Settlements))
	}
	text := ""
	for _, p := range s.Messages[1].Parts {
		switch {
		case p.Type == conversation.PartTypeTool:
			if p.State != conversation.StateOutputAvailable && p.State != conversation.StateOutputError {
				t.Errorf("got open call %+v", p)
			}
		case p.State != conversation.StateDone:
			t.Errorf("got open part %+v", p)
		case p.Text != nil:
			text += *p.Text
		}
	}
	if text != "All done." {
		t.Errorf("got answer %q", text)
	}
	meta, err := json.Marshal(s.Messages[1].Metadata)
	if err != nil || string(meta) != `{"began":true,"ended":true}` {
		t.Errorf("got response metadata %s, %v", meta, err)
	}
}

// crashModes returns the values of lost for boundary k: both, one after the other. A sample has one of
// them at every eighth boundary.
func crashModes(k int) []bool {
	few := []bool{k%16 == 0}
	if k%8 > 0 {
		few = nil
	}
	return sample.Of([]bool{true, false}, few)
}

// TestCrashAtEveryBoundary crashes the process once at every boundary of the run, with all writes in
// flight lost and with some of them landing then or later.
func TestCrashAtEveryBoundary(t *testing.T) {
	fleet := actors.NewLocalFleet(t)
	boundaries := wholeScenario(t, fleet)
	crashEverywhere(t, fleet, &scenario{}, boundaries, (*scenario).check, (*scenario).show, sample.Of([]string{
		"durable tool resumed", "step repeated", "outcome unknown", "call not run", "reply interrupted", "subagent resumed",
		"summary lost", "landed after crash",
	}, nil))
}

// crashEverywhere runs a scenario once for each boundary and each value of lost. show counts covered cases;
// all wanted ones must occur.
func crashEverywhere(t *testing.T, fleet *actors.LocalFleet, begin *scenario, boundaries []string, check func(*scenario, *testing.T), show func(*scenario, map[string]int), wanted []string) {
	t.Helper()
	shown := map[string]int{}
	for k, name := range boundaries {
		ways := crashModes(k)
		if begin.runs && len(ways) > 1 { // one value of lost, and a small sample: there are many boundaries
			ways = ways[k%2 : k%2+1]
		} else if begin.runs && k%32 > 0 {
			continue
		}
		for _, lost := range ways {
			t.Run(fmt.Sprintf("%d lost %v", k, lost), func(t *testing.T) {
				runScript(t, fleet, &scenario{lost: lost, suspends: begin.suspends, runs: begin.runs}, []int{k}, func(t *testing.T, s *scenario) {
					// Child runs are concurrent, so the order varies.
					if got := s.processes[0].reachedBoundaries(); !begin.runs && (len(s.processes) != 2 || !slices.Equal(got, boundaries[:k+1])) {
						t.Errorf("boundaries (-want +got):\n%s", cmp.Diff(boundaries[:k+1], got))
					}
					check(s, t)
					show(s, shown)
					if t.Failed() {
						t.Logf("crashed at %q", name)
					}
				})
			})
		}
	}
	t.Logf("%d boundaries, covering %v", len(boundaries), shown)
	for _, event := range wanted {
		if shown[event] == 0 {
			t.Errorf("not covered: %s", event)
		}
	}
}

func (s *scenario) show(shown map[string]int) {
	processes, steps := map[string]map[int]bool{}, map[string]int{}
	for _, d := range s.invocations {
		if processes[d.event] == nil {
			processes[d.event] = map[int]bool{}
		}
		processes[d.event][d.process] = true
		if strings.HasPrefix(d.event, "step ") {
			steps[d.event+string(d.call)]++
		}
	}
	log := s.lines(chat("c"))
	repeated := false
	for _, n := range steps {
		repeated = repeated || n > 1
	}
	child := processes["child 1"][0] || processes["child 2"][0]
	for event, is := range map[string]bool{
		"durable tool resumed": len(processes["tool deploy"]) > 1 && len(processes["model 1"]) == 1,
		"step repeated":        repeated,
		"outcome unknown":      strings.Contains(log, textUnknown),
		"call not run":         strings.Contains(log, "This call did not run"),
		"reply interrupted":    strings.Contains(log, `"stopReason":"interrupted"`),
		"subagent resumed":     child && processes["child 2"][1] && len(processes["model 2"]) == 1,
		"summary lost":         !strings.Contains(log, `"type":"compacted"`),
		"landed after crash":   s.lateWrites > 0,
	} {
		if is {
			shown[event]++
		}
	}
}

// wholeScenario returns the boundaries of a run without a crash.
func wholeScenario(t *testing.T, fleet *actors.LocalFleet) (boundaries []string) {
	t.Helper()
	runScenario(t, fleet, nil, true, func(t *testing.T, s *scenario) {
		boundaries = s.processes[0].reachedBoundaries() // before the reads of check
		s.check(t)
		if got := len(only[*conversation.Compacted](s.records(chat("c")))); got != 1 {
			t.Errorf("got %d compactions", got)
		}
	})
	for _, event := range []string{
		"tool plain ends", "tool look ends", "step one begins", "step three ends", "model 3 has said All ", "child 2 ends",
		"summary ends", "delivery hook begins", "finish hook ends", "settled hook ends",
	} {
		if !slices.Contains(boundaries, event) {
			t.Errorf("want boundary %q", event)
		}
	}
	if len(boundaries) < 40 {
		t.Fatalf("got only %d boundaries", len(boundaries))
	}
	return boundaries
}

// TestCrashAtTwoBoundaries crashes a second process, too, at a boundary of the remaining work.
func TestCrashAtTwoBoundaries(t *testing.T) {
	pairs := sample.Of(60, 6)
	fleet := actors.NewLocalFleet(t)
	boundaries := wholeScenario(t, fleet)
	twice := 0
	for i := range pairs {
		first := int(draw("first", i) % uint64(len(boundaries)))
		second := int(draw("second", i) % uint64(len(boundaries)-first+20))
		t.Run(fmt.Sprint(first, "-", second), func(t *testing.T) {
			runScenario(t, fleet, []int{first, second}, i%3 == 0, func(t *testing.T, s *scenario) {
				s.check(t)
				if len(s.processes) == 3 {
					twice++
				}
			})
		})
	}
	if twice < pairs/2 {
		t.Errorf("got two crashes in only %d of %d runs", twice, pairs)
	}
}
