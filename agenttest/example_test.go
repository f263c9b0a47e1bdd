package agenttest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agenttest"
	"github.com/parleyrun/parley/providers"
)

// The model calls a tool and then answers.
func Example() {
	_ = func(t *testing.T) { // func TestConcierge(t *testing.T)
		synctest.Test(t, func(t *testing.T) {
			type place struct{ City string }
			rain := func(context.Context, place) (string, error) { return "rain", nil }
			concierge := &agent.Agent{
				Name: "concierge", Model: "openai/gpt-5",
				Tools: []agent.Tool{agent.NewTool("weather", "Look at the sky.", rain, nil)},
			}
			model := agenttest.NewModel(agenttest.Call("weather", place{"Kiel"}), agenttest.Say("Take an umbrella."))
			h := agenttest.New(t, []*agent.Agent{concierge}, &agenttest.Options{Model: model})
			if reply := h.Conversation("concierge", "room-7").Ask("Shall we walk?"); reply.Text != "Take an umbrella." {
				t.Error(reply.Text)
			}
		})
	}
}

// shown replaces the *testing.T in examples that print. It has no bubble of virtual time.
type shown struct {
	testing.TB
	atEnd []func()
}

func (*shown) Helper()                      {}
func (s *shown) Cleanup(f func())           { s.atEnd = append(s.atEnd, f) }
func (*shown) Context() context.Context     { return context.Background() }
func (*shown) Output() io.Writer            { return io.Discard }
func (*shown) Error(args ...any)            { fmt.Println(args...) }
func (*shown) Errorf(f string, args ...any) { fmt.Printf(f+"\n", args...) }
func (*shown) Fatal(args ...any)            { panic(fmt.Sprintln(args...)) }
func (*shown) Fatalf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }

func (s *shown) end() {
	for _, f := range slices.Backward(s.atEnd) {
		f()
	}
}

type city struct {
	City string `json:"city"`
}

func newConcierge() []*agent.Agent {
	weather := func(_ context.Context, c city) (string, error) {
		if c.City == "" {
			return "", errors.New("which city?")
		}
		return "rain", nil
	}
	return []*agent.Agent{{
		Name: "concierge", Model: "openai/gpt-5", Fallbacks: []string{"anthropic/claude-haiku-4-5"},
		Tools: []agent.Tool{agent.NewTool("weather", "Look at the sky.", weather, &agent.ToolOptions{Durable: true})},
	}}
}

// A transcript contains everything that a client sees, for comparison.
func ExampleConversation_Transcript() {
	t := &shown{} // the test's *testing.T
	defer t.end()
	model := agenttest.NewModel(
		agenttest.Call("weather", city{}),
		agenttest.Call("weather", city{"Kiel"}),
		agenttest.Say("Take an umbrella."),
	)
	h := agenttest.New(t, newConcierge(), &agenttest.Options{Model: model})
	c := h.Conversation("concierge", "room-7")
	c.Ask("Shall we walk?")
	fmt.Println(c.Transcript())
	// Output:
	// user: Shall we walk?
	// assistant: Take an umbrella.
	//   weather({"city":""}) ! which city?
	//   weather({"city":"Kiel"}) = "rain"
}

// The process crashes at each write, and the reply is the same.
func ExampleHost_CrashAtWrite() {
	_ = func(t *testing.T) { // func TestConciergeSurvivesCrashes(t *testing.T)
		for n := range 8 {
			synctest.Test(t, func(t *testing.T) {
				model := agenttest.NewModel(agenttest.Call("weather", city{"Kiel"}), agenttest.Say("Take an umbrella."))
				h := agenttest.New(t, newConcierge(), &agenttest.Options{Model: model})
				h.CrashAtWrite(n + 1)
				if reply := h.Conversation("concierge", "room-7").Ask("Shall we walk?"); reply.Text != "Take an umbrella." {
					t.Errorf("crash at write %d: %s", n+1, reply.Text)
				}
			})
		}
	}
}

// A new version of the program continues existing conversations.
func ExampleHost_Restart() {
	t := &shown{} // the test's *testing.T
	defer t.end()
	model := agenttest.NewModel(agenttest.Say("Good morning."), agenttest.Say("Welcome back."))
	h := agenttest.New(t, newConcierge(), &agenttest.Options{Model: model})
	c := h.Conversation("concierge", "room-7")
	c.Ask("Hello")
	h.Restart()
	c.Ask("Hello again")
	fmt.Println(c.Transcript())
	// Output:
	// user: Hello
	// assistant: Good morning.
	// user: Hello again
	// assistant: Welcome back.
}

// A provider fails, and the fallback model answers.
func ExampleFail() {
	t := &shown{} // the test's *testing.T
	defer t.end()
	broke := agenttest.NewModel(agenttest.Fail(&providers.Error{Kind: providers.KindQuota}))
	spare := agenttest.NewModel(agenttest.Say("I am the spare."))
	h := agenttest.New(t, newConcierge(), &agenttest.Options{
		Models: map[string]*agenttest.Model{"openai/gpt-5": broke, "anthropic/claude-haiku-4-5": spare},
	})
	fmt.Println(h.Conversation("concierge", "room-7").Ask("Who are you?").Text)
	// Output:
	// I am the spare.
}

// A model can be a function of the request, which the test can inspect.
func ExampleModelFunc() {
	t := &shown{} // the test's *testing.T
	defer t.end()
	model := agenttest.ModelFunc(func(r agenttest.Request) agenttest.Answer {
		return agenttest.Say(strings.ToUpper(r.Last()))
	})
	h := agenttest.New(t, newConcierge(), &agenttest.Options{Model: model})
	c := h.Conversation("concierge", "room-7")
	fmt.Println(c.Ask("hello").Text, c.Ask("louder").Text)
	for _, r := range model.Requests() {
		fmt.Println(r.Model, len(r.Messages), r.Tools[0].Name)
	}
	// Output:
	// HELLO LOUDER
	// openai/gpt-5 1 weather
	// openai/gpt-5 3 weather
}
