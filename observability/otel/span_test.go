package otel_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/sinktest"
)

func plain(traceparent string) *script {
	s := begin(traceparent)
	s.add(200, within("turn_1"), call("stop"))
	return s.end(250, 200, "completed", nil)
}

func tools() *script {
	s := begin("")
	s.add(200, within("turn_1"), call("toolUse"))
	s.add(200, within("turn_1"), &observability.ToolStart{ToolName: "label", ToolCallID: "call_1"})
	s.add(260, within("turn_1"), &observability.Tool{ToolName: "label", ToolCallID: "call_1", DurationMs: 60})
	s.add(270, within("turn_1"), &observability.Tool{ToolName: "close", ToolCallID: "call_2", DurationMs: 30, IsError: true})
	s.add(400, within("turn_2"), call("stop"))
	return s.end(450, 400, "completed", nil)
}

func waits() *script {
	s := begin("")
	s.add(200, within("turn_1"), call("toolUse"))
	s.add(200, within("turn_1"), &observability.ToolStart{ToolName: "approve", ToolCallID: "call_1"})
	s.add(210, within("turn_1"), &observability.WaitStart{Name: "approval-7", ToolName: "approve", ToolCallID: "call_1"})
	s.add(700, within("turn_1"), &observability.Wait{
		Name: "approval-7", ToolName: "approve", ToolCallID: "call_1", Reason: observability.WaitSignal, Signal: "sub_2", DurationMs: 490,
	})
	s.add(705, within("turn_1"), &observability.Tool{ToolName: "approve", ToolCallID: "call_1", DurationMs: 5})
	return s.end(750, 700, "completed", nil)
}

func subagents() *script {
	s := begin("")
	s.add(200, within("turn_1"), call("toolUse"))
	s.add(200, task("task_1", "", "turn_1"), &observability.TaskStart{Agent: "reader", ToolCallID: "call_1"})
	s.add(200, task("task_1", "", ""), &observability.OperationStart{Kind: "prompt"})
	s.add(320, task("task_1", "", "turn_2"), call("toolUse"))
	s.add(500, task("task_2", "task_1", "turn_3"), call("stop"))
	s.add(510, task("task_2", "task_1", ""), &observability.Operation{Kind: "prompt", DurationMs: 180})
	s.add(510, task("task_2", "task_1", "turn_2"), &observability.Task{Agent: "checker", ToolCallID: "call_2", Outcome: "failed", IsError: true, DurationMs: 180})
	s.add(515, task("task_1", "", "turn_2"), &observability.Tool{ToolName: conversation.TaskTool, ToolCallID: "call_2", DurationMs: 185, IsError: true})
	s.add(540, task("task_1", "", "turn_2"), &observability.Tool{ToolName: "look", ToolCallID: "call_3", DurationMs: 10})
	s.add(600, task("task_1", "", ""), &observability.Operation{Kind: "prompt", DurationMs: 390})
	s.add(600, task("task_1", "", "turn_1"), &observability.Task{Agent: "reader", ToolCallID: "call_1", Outcome: "completed", DurationMs: 390})
	s.add(600, within("turn_1"), &observability.Tool{ToolName: conversation.TaskTool, ToolCallID: "call_1", DurationMs: 400})
	return s.end(700, 650, "completed", nil)
}

func retry() *script {
	s := begin("")
	lost := call("error")
	lost.IsError, lost.Dropped, lost.Response.Usage, lost.Response.Error = true, true, nil, &observability.Error{Type: "overloaded"}
	s.add(200, within("turn_1"), lost)
	again := call("stop")
	again.Retries = 1
	s.add(400, within("turn_2"), again)
	return s.end(450, 400, "completed", nil)
}

func abort() *script {
	s := begin("")
	cut := call("aborted")
	cut.IsError = true
	s.add(200, within("turn_1"), cut)
	return s.end(210, 160, "aborted", &observability.Error{Type: "submission_aborted", Message: "It was aborted."})
}

func recovered() *script {
	s := begin("")
	s.add(200, within("turn_1"), call("toolUse"))
	s.add(1050, env{}, &observability.SubmissionRunning{Attempt: 2, Resumed: true, Recovered: true})
	s.add(1200, within("turn_2"), call("stop"))
	return s.end(1250, 300, "completed", nil)
}

func abortQueued() *script {
	s := &script{}
	s.add(0, env{}, &observability.SubmissionQueued{Kind: "direct", Traceparent: caller})
	s.add(90, env{}, &observability.SubmissionSettled{Kind: "direct", Outcome: "aborted", Error: &observability.Error{Type: "submission_aborted"}})
	return s
}

func compaction() *script {
	s := begin("")
	summary := call("stop")
	summary.Purpose = "compaction"
	s.add(150, root(), &observability.CompactionStart{Reason: "threshold"})
	s.add(250, within("turn_1"), summary)
	s.add(250, root(), &observability.Compaction{MessagesBefore: 8, MessagesAfter: 3, DurationMs: 100, IsError: true, Error: &observability.Error{Type: "model failed"}})
	s.end(300, 250, "completed", nil)
	by := env{Submission: "-", Operation: "op_manual", Conversation: "conv_A"}
	s.add(900, by, &observability.Compaction{MessagesBefore: 8, MessagesAfter: 3, DurationMs: 100})
	s.add(900, by, &observability.Operation{Kind: "compact", DurationMs: 100})
	for i := range s.events {
		if s.events[i].Submission == "-" {
			s.events[i].Submission = ""
		}
	}
	return s
}

func TestTrees(t *testing.T) {
	tests := []struct {
		name   string
		script *script
		want   string
	}{
		{"plain", plain(""), `
invoke_agent support internal 50-250
  chat gpt-5 client 100-200
`},
		{"caller", plain(caller), `
^` + callerSpan + `
  invoke_agent support internal 50-250
    chat gpt-5 client 100-200
`},
		{"tools", tools(), `
invoke_agent support internal 50-450
  chat gpt-5 client 100-200
  execute_tool label internal 200-260
  execute_tool close internal 240-270 !tool_error
  chat gpt-5 client 300-400
`},
		{"waits", waits(), `
invoke_agent support internal 50-750
  chat gpt-5 client 100-200
  parley.wait internal 210-700
  execute_tool approve internal 700-705
`},
		{"subagents", subagents(), `
invoke_agent support internal 50-700
  chat gpt-5 client 100-200
  invoke_agent reader internal 210-600
    chat gpt-5 client 220-320
    invoke_agent checker internal 330-510 !failed
      chat gpt-5 client 400-500
    execute_tool look internal 530-540
`},
		{"retry", retry(), `
invoke_agent support internal 50-450
  chat gpt-5 client 100-200 !overloaded
  chat gpt-5 client 300-400
`},
		{"abort", abort(), `
invoke_agent support internal 50-210 !submission_aborted
  chat gpt-5 client 100-200
`},
		{"recovered", recovered(), `
invoke_agent support internal 50-1250
  chat gpt-5 client 100-200
  chat gpt-5 client 1100-1200
`},
		{"abort queued", abortQueued(), "\n"},
		{"compaction", compaction(), `
invoke_agent support internal 50-300
  chat gpt-5 client 150-250
  parley.compaction internal 150-250 !model failed
parley.operation compact internal 800-900
  parley.compaction internal 800-900
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			together, single := newFixture(t, nil), newFixture(t, nil)
			together.write(t, tt.script.events)
			for i := range tt.script.events {
				single.write(t, tt.script.events[i:i+1])
			}
			for _, f := range []fixture{together, single} {
				if diff := cmp.Diff(tt.want[1:], tree(f.spans.GetSpans())); diff != "" {
					t.Errorf("spans (-want +got):\n%s", diff)
				}
				if want := int64(len(f.spans.GetSpans())); f.Counts().Spans != want {
					t.Errorf("got %d spans counted, want %d", f.Counts().Spans, want)
				}
			}
		})
	}
}

// TestCrash splits a submission between the sinks of two nodes. Both know the caller, because each
// attempt names it.
func TestCrash(t *testing.T) {
	for _, traceparent := range []string{"", caller} {
		s := begin(traceparent)
		s.add(200, within("turn_1"), call("toolUse"))
		s.add(205, task("task_1", "", "turn_2"), call("stop"))
		crash := len(s.events)
		s.add(1050, env{}, &observability.SubmissionRunning{Attempt: 2, Resumed: true, Recovered: true, Traceparent: traceparent})
		s.add(1100, task("task_1", "", "turn_1"), &observability.Task{Agent: "reader", Outcome: "completed", DurationMs: 900})
		s.add(1300, within("turn_3"), call("stop"))
		s.end(1350, 500, "completed", nil)

		first, second := newFixture(t, nil), newFixture(t, nil)
		first.write(t, s.events[:crash])
		second.write(t, s.events[crash:])
		second.write(t, s.events[crash-1:crash]) // the cursor was before it
		spans := first.spans.GetSpans()
		again := second.spans.GetSpans()
		last := again[len(again)-1]
		spans = append(spans, again[:len(again)-1]...)

		want := `
invoke_agent support internal 850-1350
  chat gpt-5 client 100-200
  invoke_agent reader internal 200-1100
    chat gpt-5 client 105-205
  chat gpt-5 client 1200-1300
`[1:]
		if traceparent != "" {
			want = "^" + callerSpan + "\n  " + strings.ReplaceAll(strings.TrimSpace(want), "\n", "\n  ") + "\n"
		}
		if diff := cmp.Diff(want, tree(spans)); diff != "" {
			t.Errorf("spans (-want +got):\n%s", diff)
		}
		for _, s := range spans {
			if s.SpanContext.TraceID() != spans[0].SpanContext.TraceID() {
				t.Errorf("span %s: got trace %s, want %s", s.Name, s.SpanContext.TraceID(), spans[0].SpanContext.TraceID())
			}
		}
		if got := spans[0].SpanContext.TraceID().String(); traceparent != "" && got != callerTrace {
			t.Errorf("the trace is %s, want that of the caller, %s", got, callerTrace)
		}
		if written := first.spans.GetSpans()[1].SpanContext.SpanID(); last.SpanContext.SpanID() != written {
			t.Errorf("repeated event: got span %s, want %s", last.SpanContext.SpanID(), written)
		}
	}
}

func TestTraceContext(t *testing.T) {
	tests := []struct {
		name, parent, state string
		known, sampled      bool
	}{
		{"none", "", "", false, true},
		{"valid", caller, "a=1,b=2", true, true},
		{"not sampled", caller[:len(caller)-1] + "0", "", true, false},
		{"zero trace", "00-" + strings.Repeat("0", 32) + "-b7ad6b7169203331-01", "", false, true},
		{"upper case", strings.ToUpper(caller), "", false, true},
		{"short", caller[:40], "", false, true},
		{"words", "hello", "", false, true},
		{"long state", caller, "a=" + strings.Repeat("x", 511), true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, nil)
			s := plain(tt.parent)
			s.events[0].Payload.(*observability.SubmissionQueued).Tracestate = tt.state
			f.write(t, s.events)
			if got := len(f.metrics(t)); got != 7 {
				t.Errorf("%d series, want 7 whether sampled or not", got)
			}
			spans := f.spans.GetSpans()
			if (len(spans) == 2) != tt.sampled {
				t.Fatalf("got %d spans, sampled is %t", len(spans), tt.sampled)
			}
			if !tt.sampled {
				return
			}
			op := find(t, spans, "invoke_agent support")
			if got := op.SpanContext.TraceID().String() == callerTrace; got != tt.known {
				t.Errorf("got trace %s, want that of the caller: %t", op.SpanContext.TraceID(), tt.known)
			}
			want := tt.state
			if len(want) > 512 {
				want = ""
			}
			if got := op.SpanContext.TraceState().String(); got != want {
				t.Errorf("the trace state is %q, want %q", got, want)
			}
		})
	}
}

// TestSampler checks that the sampler decides once for all spans of a submission.
func TestSampler(t *testing.T) {
	t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
	t.Setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
	whole, none := 0, 0
	for i := range 40 {
		f := newFixture(t, nil)
		s := tools()
		for j := range s.events {
			s.events[j].Submission = conversation.SubmissionID("sub_" + strings.Repeat("x", i))
		}
		f.write(t, s.events)
		switch n := len(f.spans.GetSpans()); n {
		case 0:
			none++
		case 5:
			whole++
		default:
			t.Errorf("got %d of 5 spans sampled", n)
		}
	}
	if whole == 0 || none == 0 {
		t.Errorf("got %d submissions sampled and %d not, want some of both", whole, none)
	}
}

func TestAttributes(t *testing.T) {
	f := newFixture(t, nil)
	f.write(t, tools().events)
	common := map[string]string{
		"parley.submission.id": "sub_A", "parley.submission.attempt": "1", "parley.instance.id": "42", "gen_ai.conversation.id": "conv_A",
		"parley.session.name": "default", "parley.operation.id": "op_A", "parley.turn.id": "turn_1",
	}
	tests := []struct {
		span string
		want map[string]string
	}{
		{"chat gpt-5", map[string]string{
			"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-5", "gen_ai.response.model": "gpt-5-1",
			"gen_ai.response.id": "resp_1", "gen_ai.response.finish_reasons": `["tool_call"]`, "server.address": "models.example.com",
			"server.port": "8443", "gen_ai.usage.input_tokens": "137", "gen_ai.usage.output_tokens": "20",
			"gen_ai.usage.cache_read.input_tokens": "30", "gen_ai.usage.cache_creation.input_tokens": "7", "parley.usage.total_tokens": "157",
			"gen_ai.usage.reasoning.output_tokens": "5", "parley.usage.cost": "0.25", "parley.turn.purpose": "agent", "gen_ai.response.time_to_first_chunk": "0.04",
			"parley.event.id": "key/4/0",
		}},
		{"execute_tool close", map[string]string{
			"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "close", "gen_ai.tool.type": "function", "gen_ai.tool.call.id": "call_2",
			"error.type": "tool_error", "parley.event.id": "key/7/0",
		}},
		{"invoke_agent support", map[string]string{
			"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "support", "parley.operation.kind": "prompt",
			"parley.event.id": "key/10/0", "parley.turn.id": "",
		}},
	}
	for _, tt := range tests {
		for k, v := range common {
			if _, ok := tt.want[k]; !ok {
				tt.want[k] = v
			}
		}
		for k, v := range tt.want {
			if v == "" {
				delete(tt.want, k)
			}
		}
		span := find(t, f.spans.GetSpans(), tt.span)
		if diff := cmp.Diff(tt.want, attrs(span)); diff != "" {
			t.Errorf("attributes of %s (-want +got):\n%s", tt.span, diff)
		}
	}
}

// TestCutOff checks that a model call that does not end by its model is not an error in spans and
// metrics, and has its own finish reason.
func TestCutOff(t *testing.T) {
	for _, finish := range []string{"handover", "interrupted", "aborted"} {
		f := newFixture(t, nil)
		events := begin("")
		events.add(200, within("turn_1"), call(finish))
		f.write(t, events.events)
		span := find(t, f.spans.GetSpans(), "chat gpt-5")
		got := attrs(span)
		if got["parley.turn.cut_off"] != finish || got["error.type"] != "" || span.Status.Code != codes.Unset {
			t.Errorf("span of a call that ended with %q: status %v, attributes %v; want no error and parley.turn.cut_off", finish, span.Status, got)
		}
		labeled := func(line string) bool {
			return strings.HasPrefix(line, "gen_ai.client.operation.duration") && strings.Contains(line, "parley.turn.cut_off="+finish) && !strings.Contains(line, "error.type")
		}
		if lines := f.metrics(t); !slices.ContainsFunc(lines, labeled) {
			t.Errorf("metrics of a call that ended with %q: got %q, want its duration with parley.turn.cut_off and without error.type", finish, lines)
		}
	}
}

// TestEveryType writes an event of each type, with every field set.
func TestEveryType(t *testing.T) {
	f := newFixture(t, nil)
	sample := sinktest.Sample()
	f.write(t, sample)
	names := map[string]bool{}
	for _, s := range f.spans.GetSpans() {
		names[s.Name] = true
	}
	for _, want := range []string{"chat gpt-5", "parley.compaction", "execute_tool label"} {
		if !names[want] {
			t.Errorf("missing span %q in\n%s", want, tree(f.spans.GetSpans()))
		}
	}
	bare := []observability.Event{}
	for _, e := range sample {
		payload, err := observability.DecodePayload(e.Type, []byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		bare = append(bare, observability.Event{Envelope: env{ID: e.ID + "b", Type: e.Type}, Payload: payload})
	}
	f.write(t, bare)
	if got, want := f.Counts().Spans, int64(len(f.spans.GetSpans())); got != want || want < 7 {
		t.Errorf("Counts().Spans = %d, the exporter has %d, want at least 7", got, want)
	}
}

// TestProjected runs the sink on the events of a real log.
func TestProjected(t *testing.T) {
	src := observability.Source{Key: "k", Agent: "support", ID: "42", Conversation: "conv_A"}
	from := conversation.Origin{Root: "sub_A"}
	records := []conversation.Record{
		&conversation.SubmissionAdmitted{Submission: "sub_A", Trace: conversation.Trace{Parent: caller}, At: epoch},
		&conversation.AttemptStarted{Submission: "sub_A", Attempt: 1, Trace: conversation.Trace{Parent: caller}, At: epoch + 10},
		&conversation.StepCompleted{
			Origin: from, Turn: "turn_1", StopReason: "tool_use", Model: "work/gpt-5", DurationMs: 80, At: epoch + 100,
			Calls: []conversation.CallName{{Call: "call_1", Name: conversation.TaskTool}},
		},
		&conversation.ChildStarted{Origin: from, Child: "conv_B", Call: "call_1", Agent: "reader", Turn: "turn_1", At: epoch + 110},
		&conversation.StepCompleted{Origin: from, Child: "conv_B", Turn: "turn_2", StopReason: "stop", Model: "work/gpt-5", DurationMs: 50, At: epoch + 170},
		&conversation.ChildSettled{Origin: from, Child: "conv_B", Call: "call_1", Agent: "reader", Turn: "turn_1", Outcome: "completed", DurationMs: 70, At: epoch + 180},
		&conversation.ToolSettled{Origin: from, Call: "call_1", Name: conversation.TaskTool, Turn: "turn_1", At: epoch + 180},
		&conversation.SubmissionSettled{Submission: "sub_A", Outcome: "completed", ElapsedMs: 190, Began: true, Open: true, At: epoch + 200},
	}
	f := newFixture(t, nil)
	for i, r := range records {
		f.write(t, observability.Project(src, conversation.Batch{Offset: conversation.Offset(i), Records: []conversation.Record{r}}, nil))
	}
	want := `
^` + callerSpan + `
  invoke_agent support internal 10-200
    chat gpt-5 client 20-100
    invoke_agent reader internal 110-180
      chat gpt-5 client 120-170
`
	if diff := cmp.Diff(want[1:], tree(f.spans.GetSpans())); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
}

func FuzzTraceContext(f *testing.F) {
	f.Add(caller, "a=1")
	f.Add("01-"+caller[3:]+"-more", "\xff")
	f.Add("", "=")
	f.Fuzz(func(t *testing.T, parent, state string) {
		sink := newFixture(t, nil)
		s := plain(parent)
		s.events[0].Payload.(*observability.SubmissionQueued).Tracestate = state
		sink.write(t, s.events)
		spans := sink.spans.GetSpans()
		for _, s := range spans {
			if !s.SpanContext.IsValid() || s.SpanContext.TraceID() != spans[0].SpanContext.TraceID() {
				t.Errorf("span %s: got trace %s", s.Name, s.SpanContext.TraceID())
			}
		}
		if sampled := len(spans) == 2; !sampled && len(spans) != 0 {
			t.Errorf("got %d spans, want 2", len(spans))
		}
	})
}

// TestDetachedCompaction checks that a compaction that outlives its work is an operation within that
// work, with its call and summary.
func TestDetachedCompaction(t *testing.T) {
	src := observability.Source{Key: "k", Agent: "support", ID: "42", Conversation: "conv_A"}
	from := conversation.Origin{Root: "sub_A"}
	batches := [][]conversation.Record{
		{&conversation.AttemptStarted{Submission: "sub_A", Attempt: 1, At: epoch + 10}},
		{&conversation.SubmissionSettled{Submission: "sub_A", Outcome: "completed", ElapsedMs: 190, Began: true, Open: true, At: epoch + 200}},
		{&conversation.Compacted{Origin: from, Detached: true, Turn: "turn_9", Model: "work/gpt-5", DurationMs: 250, At: epoch + 400}},
		{&conversation.Compacted{Origin: from, Child: "conv_B", Detached: true, Turn: "turn_8", Model: "work/gpt-5", DurationMs: 50, At: epoch + 500}},
		{&conversation.Compacted{Detached: true, Turn: "turn_7", Model: "work/gpt-5", DurationMs: 50, At: epoch + 600}},
	}
	f := newFixture(t, nil)
	for i, records := range batches {
		f.write(t, observability.Project(src, conversation.Batch{Offset: conversation.Offset(i), Records: records}, nil))
	}
	operation := map[string]tracetest.SpanStub{}
	spans := f.spans.GetSpans()
	for _, s := range spans {
		if s.Name == "parley.operation compact" {
			operation[attr(s, "parley.operation.id").AsString()] = s
		}
	}
	children := 0
	for _, s := range spans {
		if s.Name != "chat gpt-5" && s.Name != "parley.compaction" {
			continue
		}
		children++
		if of := operation[attr(s, "parley.operation.id").AsString()]; s.Parent.SpanID() != of.SpanContext.SpanID() {
			t.Errorf("%s: got a parent other than its operation:\n%s", s.Name, tree(spans))
		}
	}
	if len(operation) != 3 || children != 6 {
		t.Errorf("got %d operations with %d children, want 3 and 6:\n%s", len(operation), children, tree(spans))
	}
}
