package demo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/demo"
	"github.com/parleyrun/parley/providers/providertest"
)

func model(t *testing.T) providers.Model {
	t.Helper()
	r := providers.NewRegistry(nil)
	if err := r.RegisterProvider("demo", demo.Registration()); err != nil {
		t.Fatal(err)
	}
	m, err := r.Resolve("demo/parrot")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func user(text string) providers.Message {
	return providers.Message{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: text}}}
}

func assistant(text string) providers.Message {
	return providers.Message{Role: providers.RoleAssistant, Parts: []providers.Part{providers.Text{Text: text}}}
}

func calling(id string) providers.Message {
	return providers.Message{Role: providers.RoleAssistant, Parts: []providers.Part{
		providers.ToolCall{ID: id, Name: "time", Arguments: json.RawMessage(`{}`)},
	}}
}

func result(id, text string) providers.Message {
	return providers.Message{Role: providers.RoleTool, Parts: []providers.Part{
		providers.ToolResult{CallID: id, Name: "time", Content: []providers.Part{providers.Text{Text: text}}},
	}}
}

func request(messages ...providers.Message) providers.Request {
	return providers.Request{Tools: []providers.Tool{{Name: "time", Description: "Tells the time."}}, Messages: messages}
}

func TestConformance(t *testing.T) {
	providertest.Run(t, func(t *testing.T) providertest.Subject {
		return providertest.Subject{
			Protocol:  demo.New(0),
			Model:     model(t),
			Text:      request(user("hi there")),
			Reasoning: request(user("think")),
			Call:      request(user("time")),
			Long:      request(user("long 10000")),
		}
	})
}

func answer(t *testing.T, req providers.Request) (text string, events []providers.Event) {
	t.Helper()
	events, failure, broken := providertest.Collect(demo.New(0).Stream(t.Context(), model(t), req, providers.Options{}))
	if broken != nil || failure != nil {
		t.Fatal(failure, broken)
	}
	for _, e := range events {
		if d, ok := e.(providers.TextDelta); ok {
			text += d.Text
		}
	}
	return text, events
}

const noteText = `<signal type="stream_interrupted" submissionId="s">Your answer was cut.
Continue where it ends.</signal>`

func TestAnswers(t *testing.T) {
	tests := []struct {
		name string
		req  providers.Request
		want string
	}{
		{"echo", request(user("what a day")), "You said: what a day (3 words)"},
		{"one word", request(user("hey")), "You said: hey (1 word)"},
		{"latest counts", request(user("think"), assistant("ok"), user("hey")), "You said: hey (1 word)"},
		{"not a command", request(user("time flies")), "You said: time flies (2 words)"},
		{"no number", request(user("long story")), "You said: long story (2 words)"},
		{"long", request(user("long 4")), "1 2 3 4"},
		{"long, negative", request(user("Long -4")), "1"},
		{"no message", request(), "Hello. Say help to see what I can do."},
		{"no such tool", providers.Request{Messages: []providers.Message{user("time")}}, "I have no tool named time here, so I cannot tell."},
		{"tool result", request(user("time"), calling("c"), result("c", "noon")), "The tool time says: noon"},
		{"tool result lost", request(user("time"), calling("c")), "The tool time failed: There is no result: the call was interrupted, and whether it took effect is unknown."},
		{"interrupted after result", request(user("time"), calling("c"), result("c", "noon"), assistant("The tool"), user(noteText)), "The tool time says: noon"},
		{"interrupted count", request(user("long 6"), assistant("1 2 3"), user(noteText)), "4 5 6"},
		{"interrupted count, advisory", request(user("long 6"), assistant("1 2 3"), user("<advisory>\nGo on.\n</advisory>")), "4 5 6"},
		{"interrupted twice", request(user("long 6"), assistant("1 2 3"), user(noteText), assistant("4"), user(noteText)), "5 6"},
		{"interrupted at the end", request(user("long 3"), assistant("1 2 3"), user(noteText)), "That is all of it."},
		{"interrupted without note", request(user("long 6"), assistant("1 2 3")), "4 5 6"},
		{"interrupted echo", request(user("hey"), assistant("You"), user(noteText)), "Where was I? Oh yes: You said: hey (1 word)"},
		{"note before a new message", request(user("long 6"), assistant("1"), user(noteText), user("hey")), "You said: hey (1 word)"},
		{"note alone", request(user(noteText)), "Hello. Say help to see what I can do."},
		{"other signal", request(user(`<signal type="deploy">done</signal>`)), `You said: <signal type="deploy">done</signal> (2 words)`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, _ := answer(t, tt.req); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestHelpListsEveryCommand(t *testing.T) {
	got, _ := answer(t, request(user("help")))
	for _, command := range []string{"help", "time", "think", "long N"} {
		if !strings.Contains(got, "- "+command) {
			t.Errorf("%q is missing in:\n%s", command, got)
		}
	}
}

func TestLongIsClamped(t *testing.T) {
	got, _ := answer(t, request(user("long 999999")))
	if n := len(strings.Fields(got)); n != demo.MaxLong {
		t.Errorf("got a count of %d, want %d", n, demo.MaxLong)
	}
}

func TestTimeCallsTheTool(t *testing.T) {
	_, events := answer(t, request(user("time")))
	want := []providers.Event{
		providers.ToolCallStart{ID: "demo_call_1", Name: "time"},
		providers.ToolCallDelta{Arguments: "{}"},
		providers.ToolCallEnd{ID: "demo_call_1", Name: "time", Arguments: json.RawMessage("{}")},
	}
	if diff := cmp.Diff(want, events[len(events)-4:len(events)-1]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDeterministic(t *testing.T) {
	for _, command := range []string{"help", "time", "think", "long 9", "hello you"} {
		_, first := answer(t, request(user(command)))
		_, second := answer(t, request(user(command)))
		if diff := cmp.Diff(first, second); diff != "" {
			t.Errorf("%s (-first +second):\n%s", command, diff)
		}
	}
	_, a := answer(t, request(user("a")))
	_, b := answer(t, request(user("b")))
	if a[len(a)-1].(providers.Done).ResponseID == b[len(b)-1].(providers.Done).ResponseID {
		t.Error("two requests: got the same response id")
	}
}

func TestPace(t *testing.T) {
	m := model(t)
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		stream := demo.New(demo.DefaultPace).Stream(t.Context(), m, request(user("long 100")), providers.Options{})
		if _, failure, broken := providertest.Collect(stream); failure != nil || broken != nil {
			t.Fatal(failure, broken)
		}
		if took := time.Since(begin); took != 100*demo.DefaultPace {
			t.Errorf("got duration %v, want %v", took, 100*demo.DefaultPace)
		}
	})
}

func TestAbortBetweenWords(t *testing.T) {
	m := model(t)
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer cancel()
		stream := demo.New(100*time.Millisecond).Stream(ctx, m, request(user("long 100")), providers.Options{})
		events, failure, broken := providertest.Collect(stream)
		if broken != nil || failure == nil || failure.Kind != providers.KindAborted {
			t.Errorf("got %v, %v, want an abort", failure, broken)
		}
		if got, took := fmt.Sprint(events), time.Since(begin); got != "[{1} { 2}]" || took != 250*time.Millisecond {
			t.Errorf("got %s after %v", got, took)
		}
	})
}
