package killrun_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	parleyhttp "github.com/parleyrun/parley/http"
	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/internal/proc"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/outbox"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage"
)

// authorEnv holds a careless in JSON. It makes this binary a server with the agents of a careless
// author.
const authorEnv = "PARLEY_KILLRUN_AUTHOR"

// exitByTool is the exit code when a tool ends the process.
const exitByTool = 7

// careless is an author whose functions fail at random.
type careless struct {
	Place noderun.Place
	Seed  uint64
	Rate  float64 // share of calls that fail
	Exits float64 // share of tool calls that end the process

	mu   sync.Mutex
	dice *rand.Rand
}

func (c *careless) roll() (chance float64, which int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dice.Float64(), c.dice.IntN(6)
}

// defect is an error whose methods panic on a typed nil.
type defect struct{ text string }

func (e *defect) Error() string { return e.text }
func (e *defect) Unwrap() error { return errors.New(e.text) }

// halfError is an error whose methods panic.
type halfError struct{ text string }

func (e halfError) Error() string { return e.text }
func (halfError) Is(error) bool   { panic("a defect of Is") }
func (halfError) As(any) bool     { runtime.Goexit(); return false }

// slip fails in a random way, or returns nil.
func (c *careless) slip() error {
	var none *defect
	chance, which := c.roll()
	if chance > c.Rate {
		return nil
	}
	switch which {
	case 0:
		panic(none)
	case 1:
		noMap()["x"]++
	case 2:
		runtime.Goexit()
	case 3:
		return none
	case 4:
		return errors.Join(errors.New("x"), none)
	}
	return halfError{"half"}
}

// odd is a value whose methods fail at random.
type odd struct{ c *careless }

func (o odd) MarshalJSON() ([]byte, error) { return []byte(`{"n":1}`), o.c.slip() }
func (o odd) LogValue() slog.Value         { _ = o.c.slip(); return slog.IntValue(1) }
func (o odd) String() string               { _ = o.c.slip(); return "odd" }
func (o odd) Error() string                { _ = o.c.slip(); return "odd" }

// Name and Write implement [observability.Sink].
func (odd) Name() string { return "odd" }

func (o odd) Write(context.Context, []observability.Event) error { return o.c.slip() }

func (o odd) Deliver(context.Context, outbox.Post) error { return o.c.slip() }

func (o odd) Show(context.Context, outbox.Draft) error { return o.c.slip() }

// Stream implements [providers.Protocol]: the model calls a tool, and then returns its outcome as
// text.
func (o odd) Stream(_ context.Context, _ providers.Model, req providers.Request, _ providers.Options) iter.Seq2[providers.Event, error] {
	return func(yield func(providers.Event, error) bool) {
		stop, event := providers.StopStop, providers.Event(providers.TextDelta{Text: "It is done."})
		if last := req.Messages[len(req.Messages)-1]; last.Role == providers.RoleUser && len(req.Tools) > 0 {
			_, which := o.c.roll()
			stop, event = providers.StopToolUse, providers.ToolCallEnd{ID: "c", Name: req.Tools[which%len(req.Tools)].Name, Arguments: json.RawMessage(`{}`)}
		}
		if !yield(event, nil) {
			return
		}
		if err := o.c.slip(); err != nil {
			yield(nil, err)
			return
		}
		yield(providers.Done{StopReason: stop}, nil)
	}
}

// agent returns an agent whose functions all fail at random.
func (c *careless) agent() *agent.Agent {
	state, data := agent.NewState[any]("s", nil), agent.NewDataWriter[any]("d", nil)
	work := func(ctx context.Context, _ struct{}) (any, error) {
		if chance, _ := c.roll(); chance < c.Exits {
			os.Exit(exitByTool)
		}
		agent.Log(ctx, slog.LevelInfo, "work", "v", odd{c}, "e", error(odd{c}))
		if err := data.Write(ctx, odd{c}); err != nil {
			return nil, err
		}
		if _, err := agent.Post(ctx, agent.Outgoing{Target: "odd", Body: odd{c}}); err != nil {
			return nil, err
		}
		if _, err := state.Update(ctx, func(any) any { _ = c.slip(); return odd{c} }); err != nil {
			return nil, err
		}
		return odd{c}, c.slip()
	}
	steps := func(ctx context.Context, in struct{}) (any, error) {
		if _, err := agent.Step(ctx, "one", func(context.Context) (any, error) { return odd{c}, c.slip() }); err != nil {
			return nil, err
		}
		return work(ctx, in)
	}
	return &agent.Agent{
		Name: "careless", Model: "own/m", Notify: []string{"odd"}, State: []agent.StateDefinition{state}, Data: []agent.Data{data},
		InstructionsFunc: func(context.Context, *agent.Turn) (string, error) { return "Work.", c.slip() },
		Prepare:          func(context.Context, *agent.Turn, *agent.Setup) error { return c.slip() },
		Tools: []agent.Tool{
			agent.NewTool("work", "Work.", work, nil), agent.NewTool("steps", "Work in steps.", steps, &agent.ToolOptions{Durable: true}),
		},
		Hooks: agent.Hooks{
			DeliveryStarted: func(context.Context, *agent.Turn) error { return c.slip() },
			ResponseStarted: func(context.Context, *agent.Turn) (map[string]any, error) {
				return map[string]any{"v": odd{c}}, c.slip()
			},
			WouldStop: func(context.Context, *agent.Response) (string, error) { return "", c.slip() },
			ResponseFinished: func(context.Context, *agent.Response) (map[string]any, error) {
				return map[string]any{"v": odd{c}}, c.slip()
			},
			Settled: func(context.Context, *agent.Settlement) error { return c.slip() },
		},
	}
}

func (c *careless) serve() (err error) {
	c.dice = rand.New(rand.NewPCG(c.Seed, 1))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	bucket, closeBucket, err := c.Place.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeBucket()) }()
	models := providers.NewRegistry(nil)
	models.RegisterProtocol("own", odd{c})
	if err := models.RegisterProvider("own", providers.Registration{API: "own", BaseURL: "http://127.0.0.1:1", APIKey: "none"}); err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	rt, err := actors.New(bucket, &actors.Options{
		Agents: []*agent.Agent{c.agent()}, Providers: models, Logger: logger, RetryPause: 20 * time.Millisecond, HookTimeout: time.Second,
		QuarantineAfter: 1000, // Crashes are frequent, and this test does not check quarantine.
		Events:          actors.EventOptions{Observers: []observability.Sink{odd{c}}},
		Outbox:          outbox.Routes{Targets: map[string]outbox.Target{"odd": odd{c}}},
	})
	if err != nil {
		return err
	}
	agents, err := parleyhttp.New(rt, rt.Reader(), []parleyhttp.Mount{{Path: "/agents/careless", Agent: "careless"}}, &parleyhttp.Options{Logger: logger})
	if err != nil {
		return err
	}
	return serve(ctx, rt, agents)
}

// All functions of the agent fail at random. The server is killed repeatedly, and sometimes ended by a
// tool. It ends in no other way, and each message settles once.
func TestKillRunOfMistakes(t *testing.T) {
	kills, volume := max(2, *cyclesFlag/7), max(1, *cyclesFlag/50)
	p := noderun.Place{Dir: t.TempDir()}
	r := &mistakesRun{t: t, dir: t.TempDir(), reaper: proc.ReaperOf(t), client: noderun.NewClient(10 * time.Second), site: newSite(), place: p, messages: 30 * volume}
	defer r.client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), liveness*time.Duration(volume))
	defer cancel()
	serving, end := context.WithCancel(ctx)
	var servers sync.WaitGroup
	servers.Go(func() { r.serve(serving, kills) })
	var senders sync.WaitGroup
	for n := range carelessRooms {
		senders.Go(func() { r.drive(ctx, n) })
	}
	senders.Wait()
	end()
	servers.Wait()
	r.audit()
	t.Logf("%d kills, %d processes ended by a tool, settlements: %v", r.kills, r.exits, r.outcomes)
}

const carelessRooms = 8

type mistakesRun struct {
	t      *testing.T
	dir    string
	reaper *proc.Reaper
	client *noderun.Client
	site   *site
	place  noderun.Place

	messages     int // per conversation
	kills, exits int // owned by the goroutine of serve
	outcomes     map[string]int

	mu       sync.Mutex
	receipts [carelessRooms]map[conversation.SubmissionID]bool
}

// serve keeps a server running, and kills the first kills of them.
func (r *mistakesRun) serve(ctx context.Context, kills int) {
	for n := 0; ctx.Err() == nil; n++ {
		text, err := json.Marshal(&careless{Place: r.place, Seed: uint64(n), Rate: 0.04, Exits: 0.02})
		if err != nil {
			r.t.Error(err)
			return
		}
		s, err := r.reaper.Start(proc.Command{Args: os.Args[:1], Env: []string{authorEnv + "=" + string(text)}, Log: filepath.Join(r.dir, fmt.Sprint(n))})
		if err != nil {
			r.t.Error(err)
			return
		}
		base, err := s.Await(ctx)
		if err == nil {
			r.site.set(base)
		}
		lifetime := make(<-chan time.Time)
		if r.kills < kills {
			lifetime = time.After(200 * time.Millisecond)
		}
		select {
		case <-lifetime:
			r.kills++
		case <-s.Ended():
		case <-ctx.Done():
		}
		r.site.set("")
		s.Kill()
		if s.ExitCode() == exitByTool { // before the kill, or concurrently with it
			r.exits++
		} else if flaw := s.Flaw(); flaw != "" {
			r.t.Errorf("server %d: %s\n%s", n, flaw, proc.Tail(s.Log, maxOutput))
		}
	}
}

// drive sends messages to a conversation, and waits until they are settled.
func (r *mistakesRun) drive(ctx context.Context, n int) {
	dice := rand.New(rand.NewPCG(uint64(n), 2))
	next := func() string {
		base, err := r.site.get(ctx)
		if err != nil {
			return "http://127.0.0.1:1" // ctx has ended, so no request is sent
		}
		return base + fmt.Sprintf("/agents/careless/%d", n)
	}
	mine := map[conversation.SubmissionID]bool{}
	for m := range r.messages {
		answer, header, err := r.client.Insist(ctx, dice, "POST", next, noderun.Message(fmt.Sprint(m), "work"))
		if err != nil {
			r.t.Errorf("conversation %d, message %d: %v", n, m, err)
			return
		}
		receipt, err := noderun.ReadReceipt(answer, header)
		if err != nil {
			r.t.Error(err)
		}
		mine[receipt.SubmissionID] = true
	}
	r.mu.Lock()
	r.receipts[n] = mine
	r.mu.Unlock()
	for {
		answer, header, err := r.client.Insist(ctx, dice, "GET", next, nil)
		if err != nil {
			r.t.Errorf("conversation %d: %v", n, err)
			return
		}
		if snap, err := noderun.ReadSnapshot(answer, header); err == nil && len(snap.Settlements) >= len(mine) {
			return
		}
		if noderun.Pause(ctx, 50*time.Millisecond) != nil {
			r.t.Errorf("conversation %d does not settle", n)
			return
		}
	}
}

// audit checks in the logs that each acknowledged submission settles once, and no other does.
func (r *mistakesRun) audit() {
	bucket, closeBucket, err := r.place.Open()
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = closeBucket() }()
	r.outcomes = map[string]int{}
	for n := range carelessRooms {
		settled := map[conversation.SubmissionID]int{}
		view := noderun.NewLogView("careless", fmt.Sprint(n))
		view.Each = func(b conversation.Batch) error {
			for _, rec := range b.Records {
				if s, ok := rec.(*conversation.SubmissionSettled); ok {
					settled[s.Submission]++
					r.outcomes[string(s.Outcome)]++
				}
			}
			return nil
		}
		if err := view.Read(r.t.Context(), storage.NewLogs(bucket, nil)); err != nil {
			r.t.Errorf("conversation %d: %v", n, err)
		}
		for id := range r.receipts[n] {
			if settled[id] != 1 {
				r.t.Errorf("conversation %d: got %d settlements of %s, want 1", n, settled[id], id)
			}
		}
		if len(settled) != r.messages {
			r.t.Errorf("conversation %d: got %d settled submissions, want %d", n, len(settled), r.messages)
		}
	}
	if r.outcomes[string(conversation.OutcomeCompleted)] == 0 || r.outcomes[string(conversation.OutcomeFailed)] == 0 {
		r.t.Errorf("got the outcomes %v, want some of each", r.outcomes)
	}
}

func noMap() map[string]int { return nil }
