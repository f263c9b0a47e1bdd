package grain_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/parleyrun/parley/actors/internal/grain"
	"github.com/parleyrun/parley/internal/sample"
)

func TestNewRefusesInvalidOptions(t *testing.T) {
	tests := []struct {
		name     string
		kind     string
		newActor func() actor.Actor
		opts     *grain.Options
	}{
		{"no kind", "", actorFunc(echo), nil},
		{"no actor", kind, nil, nil},
		{"negative timeout", kind, actorFunc(echo), &grain.Options{RequestTimeout: -time.Second}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := grain.New(tt.kind, tt.newActor, tt.opts); err == nil {
				t.Error("New succeeded, want an error")
			}
		})
	}
}

func TestClusterRunsOnce(t *testing.T) {
	m := newHandDriven()
	c := build(t, actorFunc(echo), &grain.Options{Membership: m})
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m.self.ID != c.MemberID() || m.self.ID == "" || m.self.Host != "127.0.0.1" || m.self.Port == 0 {
		t.Errorf("joined as %+v, want member %q on a loopback port", m.self, c.MemberID())
	}
	if err := c.Start(t.Context()); err == nil {
		t.Error("second Start succeeded")
	}
	ask(t, c, "a", "still served")
	stop(t, c)
	stop(t, c)
	if m.left != 1 {
		t.Errorf("Leave called %d times, want once", m.left)
	}
	if err := c.Start(t.Context()); err == nil {
		t.Error("Start after Stop succeeded")
	}
}

func TestMemberIDIsNewPerCluster(t *testing.T) {
	seen := map[string]bool{}
	for range 20 {
		c := build(t, actorFunc(echo), nil)
		if seen[c.MemberID()] {
			t.Errorf("member id %q twice", c.MemberID())
		}
		seen[c.MemberID()] = true
		stop(t, c)
	}
}

func TestStartFailsWithItsMembership(t *testing.T) {
	if isolated(t) {
		return
	}
	t.Run("join fails", func(t *testing.T) {
		m := newHandDriven()
		m.joinErr = errors.New("table is missing")
		c := build(t, actorFunc(echo), &grain.Options{Membership: m})
		if err := c.Start(t.Context()); !errors.Is(err, m.joinErr) {
			t.Errorf("error %v, want %v", err, m.joinErr)
		}
		if m.left != 1 {
			t.Errorf("Leave called %d times, want once", m.left)
		}
		stop(t, c)
	})
	t.Run("no view in time", func(t *testing.T) {
		m := newHandDriven()
		m.silent = true
		c := build(t, actorFunc(echo), &grain.Options{Membership: m})
		ctx, cancel := context.WithCancel(t.Context())
		res := make(chan error, 1)
		go func() { res <- c.Start(ctx) }()
		await(t, m.joined, "Join")
		m.show(grain.Member{ID: "other", Host: "127.0.0.1", Port: 1})
		cancel()
		if err := await(t, res, "Start"); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want %v", err, context.Canceled)
		}
	})
	t.Run("late first view", func(t *testing.T) {
		m := newHandDriven()
		m.silent = true
		c := build(t, actorFunc(echo), &grain.Options{Membership: m})
		res := make(chan error, 1)
		go func() { res <- c.Start(t.Context()) }()
		await(t, m.joined, "Join")
		m.show(m.self)
		if err := await(t, res, "Start"); err != nil {
			t.Fatal(err)
		}
		ask(t, c, "a", "m")
		stop(t, c)
	})
}

func TestStopStopsEveryActivation(t *testing.T) {
	const n = 200
	stopped := make(chan struct{}, n)
	c := start(t, actorFunc(func(ctx actor.Context) {
		if _, ok := ctx.Message().(*actor.Stopped); ok {
			stopped <- struct{}{}
		}
		echo(ctx)
	}), nil)
	for i := range n {
		ask(t, c, strings.Repeat("x", i+1), "m")
	}
	stop(t, c)
	if len(stopped) != n || c.ActiveCount() != 0 {
		t.Errorf("%d stopped and %d active, want %d and 0", len(stopped), c.ActiveCount(), n)
	}
}

func TestStopIsBoundedByItsContext(t *testing.T) {
	gate, stopping := make(chan struct{}), make(chan struct{})
	ended := make(chan struct{})
	c := build(t, actorFunc(func(ctx actor.Context) {
		switch ctx.Message().(type) {
		case *actor.Stopping:
			close(stopping)
			<-gate
		case *actor.Stopped:
			close(ended)
		}
		echo(ctx)
	}), nil)
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask(t, c, "a", "m")
	ctx, cancel := context.WithCancel(t.Context())
	res := make(chan error, 1)
	go func() { res <- c.Stop(ctx) }()
	await(t, stopping, "Stopping")
	cancel()
	err := await(t, res, "Stop")
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "1 still running") {
		t.Errorf("error %v, want one activation still running", err)
	}
	if again := c.Stop(t.Context()); !errors.Is(again, context.Canceled) {
		t.Errorf("second Stop: %v, want the first one's result", again)
	}
	close(gate)
	await(t, ended, "the activation's end")
}

func TestStopEndsRequestsThatWait(t *testing.T) {
	got := make(chan struct{}, 1)
	c := start(t, actorFunc(func(ctx actor.Context) {
		if _, ok := body(ctx); ok {
			got <- struct{}{}
		}
	}), &grain.Options{RequestTimeout: 10 * testTimeout})
	res := make(chan error, 1)
	go func() {
		_, err := c.Request(t.Context(), "a", text("never answered"))
		res <- err
	}()
	await(t, got, "the message")
	stop(t, c)
	if err := await(t, res, "the request"); !errors.Is(err, grain.ErrOutcomeUnknown) {
		t.Errorf("error %v, want %v", err, grain.ErrOutcomeUnknown)
	}
}

func TestClustersStartAndStopConcurrently(t *testing.T) {
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 5 {
				c := build(t, actorFunc(echo), nil)
				if err := c.Start(t.Context()); err != nil {
					t.Error(err)
					return
				}
				ask(t, c, "a", "m")
				stop(t, c)
			}
		})
	}
	wg.Wait()
}

func TestStartAndStopLeaveNoGoroutine(t *testing.T) {
	cycle := func() {
		c := build(t, actorFunc(echo), nil)
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		ask(t, c, "a", "m")
		c.System().Root.Send(c.System().NewLocalPID("unknown"), text("dead letter"))
		stop(t, c)
	}
	cycle()
	var before bytes.Buffer
	pprof.Lookup("goroutine").WriteTo(&before, 1)
	base := runtime.NumGoroutine()
	for range sample.Of(50, 10) {
		cycle()
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(testTimeout); runtime.NumGoroutine() > base; {
		select {
		case <-tick.C:
		case <-deadline:
			var after bytes.Buffer
			pprof.Lookup("goroutine").WriteTo(&after, 1)
			t.Fatalf("%d goroutines, %d before\nbefore:\n%s\nafter:\n%s", runtime.NumGoroutine(), base, &before, &after)
		}
	}
}

func TestLogCarriesNoBody(t *testing.T) {
	const secret = "user content"
	var buf bytes.Buffer
	log := slog.New(slog.NewTextHandler(&buf, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c := start(t, actorFunc(func(ctx actor.Context) {
		if s, ok := body(ctx); ok {
			panic("cannot read " + s)
		}
	}), &grain.Options{Logger: log})
	if _, err := c.Request(t.Context(), "a", text(secret)); !errors.Is(err, grain.ErrPanicked) {
		t.Fatalf("error %v, want %v", err, grain.ErrPanicked)
	}
	sys := c.System()
	sys.Root.Send(sys.NewLocalPID("unknown"), text(secret))
	lib := sys.Logger()
	lib.Info("library noise")
	lib.Warn("unknown message", slog.Any("message", text(secret)), slog.Any("reason", errors.New(secret)),
		slog.Any("pid", sys.NewLocalPID("someone")), slog.Any("error", errors.New("broken pipe")), slog.Int("retry", 3))
	lib.With(slog.Any("message", text(secret))).WithGroup("g").Error("grouped",
		slog.Group("inner", slog.Any("message", text(secret))))
	stop(t, c)
	out := buf.String()
	if strings.Contains(out, secret) {
		t.Errorf("log contains a body:\n%s", out)
	}
	if strings.Contains(out, "library noise") {
		t.Errorf("log contains the library's info lines:\n%s", out)
	}
	for _, want := range []string{"actor panicked", "value of type string", "dead letter", "actor=unknown",
		"unknown message", "/someone", "broken pipe", "retry=3", "component=protoactor"} {
		if !strings.Contains(out, want) {
			t.Errorf("log lacks %q:\n%s", want, out)
		}
	}
}

// TestStopWithEndedContext: the lock is free, so the result does not depend on the choice of a select.
func TestStopWithEndedContext(t *testing.T) {
	c := start(t, actorFunc(echo), nil)
	stop(t, c)
	over, cancel := context.WithCancel(context.Background())
	cancel()
	for range 64 {
		if err := c.Stop(over); err != nil {
			t.Fatal(err)
		}
	}
}
