package agenttest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
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

type place struct {
	City string `json:"city"`
}

type weather struct {
	Celsius float64 `json:"celsius"`
}

// forecast returns an agent with one tool, which calls the callback.
func forecast(called func(context.Context, string) error) *agent.Agent {
	lookUp := func(ctx context.Context, in place) (weather, error) {
		return weather{21.5}, called(ctx, in.City)
	}
	return &agent.Agent{Name: "concierge", Model: "openai/gpt-5", Tools: []agent.Tool{agent.NewTool("weather", "Look it up.", lookUp, nil)}}
}

func TestHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := agenttest.NewModel(
			agenttest.Answer{Delay: 30 * time.Second, Reasoning: "Where?", Calls: []agenttest.ToolCall{{"weather", place{"Kiel"}}}},
			agenttest.Say("It is warm."),
		)
		a := forecast(func(context.Context, string) error { return nil })
		h := agenttest.New(t, []*agent.Agent{a}, &agenttest.Options{Model: model})
		c := h.Conversation("concierge", "room/7")
		if reply := c.Ask("Shall we walk?"); reply.Text != "It is warm." {
			t.Errorf("got reply %q", reply.Text)
		}
		want := "user: Shall we walk?\nassistant: It is warm.\n  weather({\"city\":\"Kiel\"}) = {\"celsius\":21.5}\n"
		if diff := cmp.Diff(want, c.Transcript()); diff != "" {
			t.Errorf("transcript (-want +got):\n%s", diff)
		}
		asked := model.Requests()
		if len(asked) != 2 || asked[0].Last() != "Shall we walk?" || asked[1].Last() != `{"celsius":21.5}` || asked[0].Model != "openai/gpt-5" {
			t.Errorf("got requests %+v", asked)
		}
		if len(asked[0].Tools) == 0 || model.Left() != 0 {
			t.Errorf("got %d tools in the request and %d unused answers", len(asked[0].Tools), model.Left())
		}
	})
}

func TestCrashInATool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := agenttest.NewModel(agenttest.Call("weather", place{"Kiel"}), agenttest.Say("It is warm."))
		var h *agenttest.Host
		calls := 0
		a := forecast(func(ctx context.Context, city string) error {
			if calls++; calls > 1 {
				return nil
			}
			h.Crash()
			<-ctx.Done()
			return ctx.Err()
		})
		h = agenttest.New(t, []*agent.Agent{a}, &agenttest.Options{Model: model})
		before := h.Runtime()
		c := h.Conversation("concierge", "1")
		if reply := c.Ask("Hello"); reply.Text != "It is warm." {
			t.Errorf("got reply %q", reply.Text)
		}
		if h.Runtime() == before || calls != 1 {
			t.Errorf("got %d calls; new runtime: %v", calls, h.Runtime() != before)
		}
		if got := c.Transcript(); !strings.Contains(got, "weather({\"city\":\"Kiel\"}) ! ") {
			t.Errorf("got a known outcome of the interrupted call: %s", got)
		}
	})
}

func TestCrashAtWrite(t *testing.T) {
	crashes := 0
	for n := 1; ; n++ {
		crashed := false
		synctest.Test(t, func(t *testing.T) {
			model := agenttest.NewModel(agenttest.Say("Hello yourself."))
			a := &agent.Agent{Name: "concierge", Model: "openai/gpt-5"}
			h := agenttest.New(t, []*agent.Agent{a}, &agenttest.Options{Model: model})
			before := h.Runtime()
			h.CrashAtWrite(n)
			c := h.Conversation("concierge", "1")
			if got := c.Ask("Hello").Text; got != "Hello yourself." {
				t.Errorf("write %d: got reply %q", n, got)
			}
			if got := strings.Count(c.Transcript(), "user:"); got != 1 {
				t.Errorf("write %d: got %d copies of the message, want 1", n, got)
			}
			crashed = h.Runtime() != before
		})
		if !crashed {
			break
		}
		crashes++
	}
	if crashes < 3 {
		t.Errorf("got %d crashes", crashes)
	}
}

func TestTimePasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nap := func(ctx context.Context, _ struct{}) (string, error) {
			return "awake", agent.Sleep(ctx, "nap", 72*time.Hour)
		}
		a := &agent.Agent{Name: "sleeper", Model: "openai/gpt-5", Tools: []agent.Tool{agent.NewTool("nap", "Sleep.", nap, &agent.ToolOptions{Durable: true})}}
		model := agenttest.NewModel(agenttest.Call("nap", nil), agenttest.Say("Good morning."))
		h := agenttest.New(t, []*agent.Agent{a}, &agenttest.Options{Model: model})
		began := time.Now()
		if reply := h.Conversation("sleeper", "1").Ask("Sleep well"); reply.Text != "Good morning." {
			t.Errorf("got reply %q", reply.Text)
		}
		if slept := time.Since(began); slept < 72*time.Hour || slept > 73*time.Hour {
			t.Errorf("got a sleep of %v", slept)
		}
	})
}

func TestModelsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &agent.Agent{Name: "concierge", Model: "openai/gpt-5", Fallbacks: []string{"anthropic/claude"}}
		down := agenttest.ModelFunc(func(agenttest.Request) agenttest.Answer {
			return agenttest.Fail(&providers.Error{Kind: providers.KindOverloaded, Status: 529})
		})
		other := agenttest.NewModel(agenttest.Say("Here."), agenttest.Stall(), agenttest.Fail(errors.New("no such thing")))
		h := agenttest.New(t, []*agent.Agent{a}, &agenttest.Options{Models: map[string]*agenttest.Model{"openai/gpt-5": down, "anthropic/claude": other}})
		c := h.Conversation("concierge", "1")
		if reply := c.Ask("Anybody?"); reply.Text != "Here." || len(down.Requests()) == 0 {
			t.Errorf("got reply %q after %d calls of the failing model", reply.Text, len(down.Requests()))
		}
		var failed *client.SettledError
		if _, err := c.Settle(client.Message{Body: "And now?"}); !errors.As(err, &failed) || !errors.Is(err, client.ErrFailed) {
			t.Errorf("stalling and failing model: got error %v", err)
		}
		if !strings.Contains(c.Transcript(), "failed: ") {
			t.Errorf("transcript has no failure: %s", c.Transcript())
		}
	})
}

func TestEventsAndRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := agenttest.ModelFunc(func(r agenttest.Request) agenttest.Answer { return agenttest.Say("You said " + r.Last()) })
		a := &agent.Agent{Name: "parrot", Model: "openai/gpt-5"}
		h := agenttest.New(t, []*agent.Agent{a}, &agenttest.Options{Model: model})
		c := h.Conversation("parrot", "1")
		c.Ask("one")
		h.Restart()
		if reply := c.Ask("two"); reply.Text != "You said two" {
			t.Errorf("got reply %q", reply.Text)
		}
		h.Restart()
		time.Sleep(time.Minute)
		settled := 0
		for _, e := range h.Events() {
			if e.Type == "submission_settled" {
				settled++
			}
		}
		if settled != 2 {
			t.Errorf("got %d settlements in %d events", settled, len(h.Events()))
		}
	})
}

func TestRealTime(t *testing.T) {
	a := &agent.Agent{Name: "concierge", Model: "openai/gpt-5"}
	h := agenttest.New(t, []*agent.Agent{a}, &agenttest.Options{Model: agenttest.NewModel(agenttest.Say("Hello."), agenttest.Say("Still here."))})
	c := h.Conversation("concierge", "1")
	c.Ask("Hello?")
	s, err := c.History(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	seen := make(chan string, 1)
	go func() {
		for u, err := range c.Observe(ctx, s.Offset, nil) {
			if err != nil {
				seen <- err.Error()
				return
			}
			for _, chunk := range u.Chunks {
				if chunk.Type == conversation.ChunkSettled {
					seen <- "settled"
					return
				}
			}
		}
	}()
	c.Ask("Are you there?")
	if got := <-seen; got != "settled" {
		t.Errorf("got %s for the observer", got)
	}
}

// recorder is a testing.TB that records failures.
type recorder struct {
	testing.TB
	errs []string
}

func (r *recorder) Error(args ...any) { r.errs = append(r.errs, fmt.Sprint(args...)) }

func TestMissingAnswerFailsTheTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{TB: t}
		a := &agent.Agent{Name: "concierge", Model: "openai/gpt-5"}
		h := agenttest.New(r, []*agent.Agent{a}, &agenttest.Options{Logger: slog.New(slog.DiscardHandler)})
		if _, err := h.Conversation("concierge", "1").Settle(client.Message{Body: "Hello"}); !errors.Is(err, client.ErrFailed) {
			t.Errorf("got settlement error %v", err)
		}
		if len(r.errs) != 1 || !strings.Contains(r.errs[0], `model openai/gpt-5 has no answer after 0: got request "Hello"`) {
			t.Errorf("got test failures %q", r.errs)
		}
	})
}

// TestGeneration verifies that the agent's settings reach the model, and that Prepare overrides them.
// covers: providers/181
func TestGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := forecast(func(context.Context, string) error { return nil })
		a.Generation = agent.Generation{Temperature: new(0.25), MaxOutputTokens: 400, StopSequences: []string{"END"}}
		a.Prepare = func(_ context.Context, turn *agent.Turn, s *agent.Setup) error {
			if turn.Number == 1 {
				s.Generation.ToolChoice = "weather"
				s.Generation.StopSequences[0] = "STOP"
			}
			return nil
		}
		model := agenttest.NewModel(agenttest.Call("weather", place{"Kiel"}), agenttest.Say("Warm."))
		h := agenttest.New(t, []*agent.Agent{a}, &agenttest.Options{Model: model})
		h.Conversation("concierge", "1").Ask("Well?")
		var got []agent.Generation
		for _, r := range model.Requests() {
			got = append(got, r.Generation)
		}
		first, second := a.Generation, a.Generation
		first.ToolChoice, first.StopSequences = "weather", []string{"STOP"}
		if diff := cmp.Diff([]agent.Generation{first, second}, got); diff != "" {
			t.Errorf("request (-want +got):\n%s", diff)
		}
	})
}

// TestPanicsAreReadable verifies that the test's log has the value and the location of a tool's panic.
func TestPanicsAreReadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		a := forecast(func(context.Context, string) error { panic("out of cheese") })
		model := agenttest.NewModel(agenttest.Call("weather", place{"Kiel"}), agenttest.Say("It failed."))
		h := agenttest.New(printed{t, &log}, []*agent.Agent{a}, &agenttest.Options{Model: model})
		if reply := h.Conversation("concierge", "1").Ask("Well?"); reply.Text != "It failed." {
			t.Errorf("got reply %q", reply.Text)
		}
		if got := log.String(); !strings.Contains(got, "cause: panic: out of cheese\n") || !strings.Contains(got, "agenttest_test.go:") {
			t.Errorf("got log %s", got)
		}
	})
}

// printed is a testing.TB that records output.
type printed struct {
	testing.TB
	out io.Writer
}

func (p printed) Output() io.Writer { return p.out }
