package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agent/agenthost"
	"github.com/parleyrun/parley/conversation"
)

type labelInput struct {
	Issue  int64    `json:"issue" jsonschema:"number of the issue"`
	Labels []string `json:"labels"`
	Note   string   `json:"note,omitempty"`
}

type labelOutput struct {
	Issue int64  `json:"issue"`
	Text  string `json:"text"`
}

func label(_ context.Context, in labelInput) (labelOutput, error) {
	return labelOutput{Issue: in.Issue, Text: strings.Join(in.Labels, "&")}, nil
}

func labelTool() agent.Tool {
	return agent.NewTool("label", "Label an issue.", label, nil)
}

func TestToolDescribesItself(t *testing.T) {
	tool := labelTool()
	if tool.Name() != "label" || tool.Description() != "Label an issue." || tool.Timeout() != 10*time.Minute || tool.Durable() {
		t.Errorf("got %q, %q, %v", tool.Name(), tool.Description(), tool.Timeout())
	}
	const want = `{"type":"object","properties":{` +
		`"issue":{"type":"integer","description":"number of the issue"},` +
		`"labels":{"type":["null","array"],"items":{"type":"string"}},` +
		`"note":{"type":"string"}},"required":["issue","labels"],"additionalProperties":false}`
	if diff := cmp.Diff(canonical(t, want), canonical(t, string(tool.InputSchema()))); diff != "" {
		t.Errorf("input schema (-want +got):\n%s", diff)
	}
	if again := labelTool().InputSchema(); string(again) != string(tool.InputSchema()) {
		t.Errorf("the schema changes from construction to construction:\n%s\n%s", tool.InputSchema(), again)
	}
}

func canonical(t *testing.T, s string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestToolCall(t *testing.T) {
	for _, tc := range []struct{ name, input, want string }{
		{"plain", `{"issue":7,"labels":["a","b"]}`, `{"issue":7,"text":"a&b"}`},
		{"all digits of a large integer", `{"issue":9007199254740993,"labels":[]}`, `{"issue":9007199254740993,"text":""}`},
		{"largest integer", `{"issue":9223372036854775807,"labels":[]}`, `{"issue":9223372036854775807,"text":""}`},
		{"whole number with a fraction", `{"issue":7.0,"labels":[]}`, `{"issue":7,"text":""}`},
		{"whole number with an exponent", `{"issue":1.2e3,"labels":[]}`, `{"issue":1200,"text":""}`},
		{"null for an optional list", `{"issue":7,"labels":null}`, `{"issue":7,"text":""}`},
		{"not escaped for HTML", `{"issue":7,"labels":["<b>"]}`, `{"issue":7,"text":"<b>"}`},
		{"member stands twice", `{"issue":7,"labels":["a"],"labels":["b"]}`, `{"issue":7,"text":"b"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := labelTool().Call(t.Context(), json.RawMessage(tc.input))
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestToolRejectsInput(t *testing.T) {
	for _, tc := range []struct {
		name, input string
		want        []agent.Issue
	}{
		{"no input", ``, []agent.Issue{{Problem: `missing "issue", "labels"`}}},
		{"not JSON", `{"issue":`, []agent.Issue{{Problem: "is not valid JSON: unexpected EOF"}}},
		{"two values", `{"issue":1,"labels":[]} {}`, []agent.Issue{{Problem: "is not valid JSON: invalid character after top-level value"}}},
		{"text that is not JSON", `"{\"issue\":7,\n \"labels\":[\"a\nb\"]}"`, []agent.Issue{{Problem: `is not valid JSON: invalid character '\n' in string literal at line 2, column 14`}}},
		{"text that is cut", `"{\"issue\":"`, []agent.Issue{{Problem: "is not valid JSON: unexpected end of JSON input at line 1, column 9"}}},
		{"text that is JSON", `"{}"`, []agent.Issue{{Problem: "got string, want object"}}},
		{"not an object", `[1]`, []agent.Issue{{Problem: "got array, want object"}}},
		{"wrong types", `{"issue":"7","labels":["a",1]}`, []agent.Issue{
			{Path: "/issue", Problem: "got string, want integer"},
			{Path: "/labels/1", Problem: "got number, want string"},
		}},
		{"fraction for an integer", `{"issue":7.5,"labels":[]}`, []agent.Issue{{Path: "/issue", Problem: "got number, want integer"}}},
		{"unknown members", `{"issue":1,"labels":[],"z":1,"a":2}`, []agent.Issue{{Problem: `unknown member "a", "z"`}}},
		{"other case is another member", `{"Issue":1,"labels":[]}`, []agent.Issue{
			{Problem: `missing "issue"`}, {Problem: `unknown member "Issue"`},
		}},
		{"integer beyond its field", `{"issue":9223372036854775808,"labels":[]}`, []agent.Issue{
			{Path: "/issue", Problem: "got number 9223372036854775808, which does not fit int64"},
		}},
		{"number out of proportion", `{"issue":1e999999999,"labels":[]}`, []agent.Issue{{Path: "/issue", Problem: "number is out of range"}}},
		{"small number out of proportion", `{"issue":1e-999999,"labels":[]}`, []agent.Issue{{Path: "/issue", Problem: "number is out of range"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := labelTool().Call(t.Context(), json.RawMessage(tc.input))
			var input *agent.InputError
			if !errors.As(err, &input) {
				t.Fatalf("got %v, want an InputError", err)
			}
			if diff := cmp.Diff(tc.want, input.Issues); diff != "" {
				t.Errorf("issues (-want +got):\n%s", diff)
			}
			for _, i := range tc.want {
				if !strings.Contains(err.Error(), i.String()) {
					t.Errorf("got text %q, want %q in it", err, i)
				}
			}
		})
	}
}

func TestToolInputErrorIsBounded(t *testing.T) {
	input := `{"issue":1,"labels":[` + strings.Repeat("1,", 999) + `1]}`
	_, err := labelTool().Call(t.Context(), json.RawMessage(input))
	if err == nil || len(err.Error()) > 4000 || !strings.Contains(err.Error(), "; and more") {
		t.Errorf("got %v", err)
	}
	input = `{"issue":1,"labels":[],"` + strings.Repeat("ü", 5000) + `":1}`
	_, err = labelTool().Call(t.Context(), json.RawMessage(input))
	if err == nil || len(err.Error()) > 4000 || strings.ContainsRune(err.Error(), '\uFFFD') {
		t.Errorf("got %v", err)
	}
}

func TestToolTypes(t *testing.T) {
	type anything struct {
		Value any             `json:"value,omitempty"`
		Raw   json.RawMessage `json:"raw,omitempty"`
		Big   *big.Int        `json:"big,omitempty"`
		Bytes []byte          `json:"bytes,omitempty"`
		Count json.Number     `json:"count,omitempty"`
	}
	echo := agent.NewTool("echo", "Return the input.", func(_ context.Context, in anything) (anything, error) {
		return in, nil
	}, nil)
	for _, input := range []string{
		`{"value":123456789012345678901234567890}`,
		`{"value":[18446744073709551615,{"a":-9007199254740993}]}`,
		`{"raw":{"n":123456789012345678901234567890}}`,
		`{"big":123456789012345678901234567890}`,
		`{"bytes":"AAEC"}`,
		`{"count":12345678901234567890}`,
		`{}`,
	} {
		got, err := echo.Call(t.Context(), json.RawMessage(input))
		if err != nil || string(got) != input {
			t.Errorf("got %s, %v, want %s", got, err, input)
		}
	}
	_, err := echo.Call(t.Context(), json.RawMessage(`{"bytes":"*"}`))
	var input *agent.InputError
	if !errors.As(err, &input) {
		t.Errorf("bad base64: got %v, want an InputError", err)
	}
}

func TestToolResults(t *testing.T) {
	str := agent.NewTool("str", "Say it.", func(context.Context, struct{}) (string, error) { return `a "b"`, nil }, nil)
	none := agent.NewTool("none", "Do it.", func(context.Context, struct{}) (any, error) { return nil, nil }, nil)
	for _, tc := range []struct {
		tool        agent.Tool
		input, want string
	}{
		{str, ``, `"a \"b\""`},
		{str, ` {} `, `"a \"b\""`},
		{none, `{}`, `null`},
	} {
		got, err := tc.tool.Call(t.Context(), json.RawMessage(tc.input))
		if err != nil || string(got) != tc.want {
			t.Errorf("%s: got %s, %v, want %s", tc.tool.Name(), got, err, tc.want)
		}
	}

	odd := agent.NewTool("odd", "Return no JSON.", func(context.Context, struct{}) (any, error) { return make(chan int), nil }, nil)
	_, err := odd.Call(t.Context(), nil)
	var output *agent.OutputError
	if !errors.As(err, &output) || output.Tool != "odd" || errors.Unwrap(err) == nil {
		t.Errorf("got %v, want an OutputError", err)
	}
}

func TestToolErrorIsTheAuthors(t *testing.T) {
	closed := errors.New("the issue is closed")
	tool := agent.NewTool("fail", "Fail.", func(context.Context, struct{}) (any, error) { return nil, closed }, nil)
	if _, err := tool.Call(t.Context(), nil); err != closed {
		t.Errorf("got %v, want the error as it was returned", err)
	}
}

type panicky struct{}

func (panicky) MarshalJSON() ([]byte, error) { panic("secret output") }

func TestToolPanicIsContained(t *testing.T) {
	cause := errors.New("secret value")
	for _, tool := range []agent.Tool{
		agent.NewTool("value", "Panic.", func(context.Context, struct{}) (any, error) { panic("secret value") }, nil),
		agent.NewTool("error", "Panic.", func(context.Context, struct{}) (any, error) { panic(cause) }, nil),
		agent.NewTool("output", "Panic.", func(context.Context, struct{}) (any, error) { return panicky{}, nil }, nil),
	} {
		out, err := tool.Call(t.Context(), nil)
		var crash *agent.PanicError
		if !errors.As(err, &crash) || out != nil {
			t.Errorf("%s: got %s, %v, want a PanicError", tool.Name(), out, err)
			continue
		}
		if want := "tool " + tool.Name() + " crashed"; err.Error() != want {
			t.Errorf("got text %q, want %q", err, want)
		}
		if crash.Value == "" || !strings.Contains(string(crash.Stack), "tool_test.go") {
			t.Errorf("%s: value %v, stack without the tool's frame:\n%s", tool.Name(), crash.Value, crash.Stack)
		}
		if got := errors.Is(err, cause); got != (tool.Name() == "error") {
			t.Errorf("%s: unwraps to the cause: %v", tool.Name(), got)
		}
	}
}

func TestToolTimeout(t *testing.T) {
	wait := func(ctx context.Context, _ struct{}) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	tool := agent.NewTool("wait", "Wait.", wait, &agent.ToolOptions{Timeout: time.Minute})
	synctest.Test(t, func(t *testing.T) {
		_, err := tool.Call(t.Context(), nil)
		var limit *agent.TimeoutError
		if !errors.As(err, &limit) || limit.Limit != time.Minute || limit.Tool != "wait" {
			t.Errorf("own limit: got %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := tool.Call(ctx, nil); err != context.DeadlineExceeded {
			t.Errorf("limit of the caller: got %v", err)
		}
	})
}

func TestToolCallFacts(t *testing.T) {
	tool := agent.NewTool("who", "Say who is calling.", func(ctx context.Context, _ struct{}) (string, error) {
		c, ok := agent.CallFrom(ctx)
		if !ok {
			return "", errors.New("no call")
		}
		return c.Address.ID + " " + string(c.ID), nil
	}, nil)
	ctx := agenthost.WithCall(t.Context(), agent.Call{Address: conversation.Address{Agent: "a", ID: "42"}, ID: "call_1"})
	if got, err := tool.Call(ctx, nil); err != nil || string(got) != `"42 call_1"` {
		t.Errorf("got %s, %v", got, err)
	}
	if _, err := tool.Call(t.Context(), nil); err == nil {
		t.Error("CallFrom found a call outside of one")
	}
}

func TestToolInputSchemaOption(t *testing.T) {
	type in struct {
		Size string `json:"size"`
		N    int    `json:"n"`
	}
	tool := agent.NewTool("size", "Choose.", func(_ context.Context, v in) (string, error) { return v.Size, nil }, &agent.ToolOptions{
		InputSchema: json.RawMessage(`{"type":"object","properties":{
			"size":{"enum":["s","m"]},"n":{"type":"integer","minimum":1,"maximum":5}}}`),
	})
	if got, err := tool.Call(t.Context(), json.RawMessage(`{"size":"m","n":5}`)); err != nil || string(got) != `"m"` {
		t.Errorf("got %s, %v", got, err)
	}
	_, err := tool.Call(t.Context(), json.RawMessage(`{"size":"x","n":6}`))
	const want = `invalid input for tool size: /n: must be at most 5; /size: value must be one of 's', 'm'. Correct the input and call the tool again.`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestNewToolPanicsOnMistakes(t *testing.T) {
	ok := func(context.Context, struct{}) (any, error) { return nil, nil }
	for _, tc := range []struct {
		name, want string
		make       func()
	}{
		{"name", "name does not match", func() { agent.NewTool("no spaces", "D.", ok, nil) }},
		{"long name", "name does not match", func() { agent.NewTool(strings.Repeat("a", 65), "D.", ok, nil) }},
		{"reserved name", "reserved", func() { agent.NewTool("task", "D.", ok, nil) }},
		{"description", "description is empty", func() { agent.NewTool("t", "", ok, nil) }},
		{"function", "function is nil", func() { agent.NewTool[struct{}, any]("t", "D.", nil, nil) }},
		{"timeout", "timeout is -1s", func() { agent.NewTool("t", "D.", ok, &agent.ToolOptions{Timeout: -time.Second}) }},
		{"scalar input", `no schema of type "object"`, func() {
			agent.NewTool("t", "D.", func(context.Context, string) (any, error) { return nil, nil }, nil)
		}},
		{"pointer input", `no schema of type "object"`, func() {
			agent.NewTool("t", "D.", func(context.Context, *labelInput) (any, error) { return nil, nil }, nil)
		}},
		{"type without schema", "has no JSON form", func() {
			agent.NewTool("t", "D.", func(context.Context, struct{ C chan int }) (any, error) { return nil, nil }, nil)
		}},
		{"bad schema", "compile schema", func() {
			agent.NewTool("t", "D.", ok, &agent.ToolOptions{InputSchema: json.RawMessage(`{"type":"objekt"}`)})
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			defer func() {
				err, _ := recover().(error)
				if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "agent: tool ") {
					t.Errorf("got %v, want a panic about %q", err, tc.want)
				}
			}()
			tc.make()
		})
	}
}

func TestZeroToolIsRefused(t *testing.T) {
	var zero agent.Tool
	if _, err := zero.Call(t.Context(), nil); err == nil {
		t.Error("zero Tool was called")
	}
	if zero.InputSchema() != nil {
		t.Error("zero Tool has a schema")
	}
}

// FuzzToolInput checks that a function never gets invalid input. Each call ends in an InputError, or
// the function got the value of the bytes and it conforms to the schema.
func FuzzToolInput(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `null`, `[]`, `{"issue":7,"labels":["a"]}`, `{"issue":7.0,"labels":null,"note":"n"}`,
		`{"issue":1e400,"labels":[]}`, `{"issue":9223372036854775808,"labels":[]}`, `{"labels":[],"labels":["x"],"issue":1}`,
		`{"issue":-0,"labels":["\ud800"]}`, "{\"issue\":1,\"labels\":[\"\xff\"]}", `{"issue":1,"labels":[]}}`,
		`{"issue":0.1e1,"labels":[]}`, `{"ISSUE":1,"labels":[]}`, `[[[[[[[[`,
	} {
		f.Add([]byte(s))
	}
	schema := agent.SchemaFor[labelInput]()
	f.Fuzz(func(t *testing.T, raw []byte) {
		var seen *labelInput
		tool := agent.NewTool("label", "Label.", func(_ context.Context, in labelInput) (labelInput, error) {
			seen = &in
			return in, nil
		}, nil)
		out, err := tool.Call(t.Context(), raw)
		if err != nil {
			var input *agent.InputError
			if !errors.As(err, &input) || len(input.Issues) == 0 {
				t.Fatalf("got %v, want an InputError with issues", err)
			}
			if seen != nil {
				t.Fatal("function ran with invalid input")
			}
			return
		}
		if err := schema.Validate(t.Context(), out); err != nil {
			t.Fatalf("function got invalid %+v: %v", *seen, err)
		}
		var want labelInput
		dec := json.NewDecoder(strings.NewReader(string(raw)))
		if err := dec.Decode(&want); err == nil && want.Issue != seen.Issue {
			t.Fatalf("function got issue %d, want %d", seen.Issue, want.Issue)
		}
	})
}
