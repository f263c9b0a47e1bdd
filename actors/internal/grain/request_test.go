package grain_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"google.golang.org/protobuf/proto"

	"github.com/parleyrun/parley/actors/internal/grain"
)

func TestRequestReachesOneActivationPerIdentity(t *testing.T) {
	var made atomic.Int64
	c := start(t, func() actor.Actor {
		made.Add(1)
		var id string
		return actor.ReceiveFunc(func(ctx actor.Context) {
			if m, ok := ctx.Message().(*cluster.ClusterInit); ok {
				id = m.Identity.Identity
			}
			if s, ok := body(ctx); ok {
				ctx.Respond(text(id + " got " + s))
			}
		})
	}, nil)
	const ids, callers = 5, 64
	var wg sync.WaitGroup
	for i := range ids * callers {
		wg.Go(func() {
			id := fmt.Sprintf("conv/%d", i%ids)
			if got, want := ask(t, c, id, "hi"), id+" got hi"; got != want {
				t.Errorf("reply %q, want %q", got, want)
			}
		})
	}
	wg.Wait()
	if got := made.Load(); got != ids {
		t.Errorf("%d actors made, want %d", got, ids)
	}
	if got := c.ActiveCount(); got != ids {
		t.Errorf("ActiveCount %d, want %d", got, ids)
	}
}

func TestRequestThatIsNotAnsweredIsSentOnce(t *testing.T) {
	const timeout = 2 * time.Second
	for name, tt := range map[string]struct {
		ctx   func(context.Context) (context.Context, context.CancelFunc) // context of the caller
		after time.Duration                                               // until the caller cancels; 0 is never
		want  error
		took  time.Duration
	}{
		"deadline of the caller": {
			func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, 2*timeout)
			},
			0, context.DeadlineExceeded, 2 * timeout,
		},
		"request timeout": {context.WithCancel, 0, context.DeadlineExceeded, timeout},
		"caller cancels":  {context.WithCancel, timeout / 2, context.Canceled, timeout / 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := 0
				c := start(t, actorFunc(func(ctx actor.Context) {
					if _, ok := body(ctx); ok {
						got++
					}
				}), &grain.Options{Alone: true, RequestTimeout: timeout})
				ctx, end := tt.ctx(t.Context())
				defer end()
				if tt.after > 0 {
					time.AfterFunc(tt.after, end)
				}
				began := time.Now()
				_, err := c.Request(ctx, "a", text("m"))
				if !errors.Is(err, grain.ErrOutcomeUnknown) || !errors.Is(err, tt.want) || time.Since(began) != tt.took {
					t.Errorf("error %v after %v, want %v and %v after %v", err, time.Since(began), grain.ErrOutcomeUnknown, tt.want, tt.took)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if got != 1 {
					t.Errorf("message received %d times, want once", got)
				}
			})
		})
	}
}

func TestRequestWithoutOwner(t *testing.T) {
	t.Run("not started", func(t *testing.T) {
		c := build(t, actorFunc(echo), nil)
		if _, err := c.Request(t.Context(), "a", text("m")); !errors.Is(err, grain.ErrNoOwner) {
			t.Errorf("error %v, want %v", err, grain.ErrNoOwner)
		}
		stop(t, c)
	})
	t.Run("stopped", func(t *testing.T) {
		c := start(t, actorFunc(echo), nil)
		ask(t, c, "a", "m")
		stop(t, c)
		if _, err := c.Request(t.Context(), "a", text("m")); !errors.Is(err, grain.ErrNoOwner) {
			t.Errorf("error %v, want %v", err, grain.ErrNoOwner)
		}
	})
	t.Run("actor cannot be made", func(t *testing.T) {
		broken := func() actor.Actor { panic("no") }
		c := start(t, broken, &grain.Options{RequestTimeout: 50 * time.Millisecond})
		_, err := c.Request(t.Context(), "a", text("m"))
		if !errors.Is(err, grain.ErrNoOwner) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want %v after the deadline", err, grain.ErrNoOwner)
		}
		if c.ActiveCount() != 0 {
			t.Errorf("ActiveCount %d, want 0", c.ActiveCount())
		}
	})
	t.Run("caller cancels", func(t *testing.T) {
		c := start(t, actorFunc(echo), nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := c.Request(ctx, "a", text("m"))
		if !errors.Is(err, grain.ErrNoOwner) || !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want %v and %v", err, grain.ErrNoOwner, context.Canceled)
		}
	})
	t.Run("no identity", func(t *testing.T) {
		c := start(t, actorFunc(echo), nil)
		if _, err := c.Request(t.Context(), "", text("m")); err == nil {
			t.Error("empty identity is accepted")
		}
		if _, err := c.Request(t.Context(), "a", nil); err == nil {
			t.Error("nil message is accepted")
		}
	})
}

func TestReplyThatIsNoMessageIsAnError(t *testing.T) {
	c := start(t, actorFunc(func(ctx actor.Context) {
		if _, ok := body(ctx); ok {
			ctx.Respond(42)
		}
	}), nil)
	if _, err := c.Request(t.Context(), "a", text("m")); err == nil || errors.Is(err, grain.ErrNoOwner) {
		t.Errorf("error %v, want one about the reply", err)
	}
}

func TestLibraryContextGoesTheSameWay(t *testing.T) {
	c := start(t, actorFunc(echo), nil)
	lib := cluster.GetCluster(c.System())
	reply, err := lib.Request("a", kind, text("one"))
	if err != nil {
		t.Fatal(err)
	}
	if got := value(reply.(proto.Message)); got != "one" {
		t.Errorf("Request: %q, want one", got)
	}
	f, err := lib.RequestFuture("a", kind, text("two"), cluster.WithTimeout(testTimeout))
	if err != nil {
		t.Fatal(err)
	}
	res, err := f.Result()
	if err != nil {
		t.Fatal(err)
	}
	if got := value(res.(proto.Message)); got != "two" {
		t.Errorf("RequestFuture: %q, want two", got)
	}
	mustLocate(t, c, "a")
	if pid := lib.Get("a", "other"); pid != nil {
		t.Errorf("Get of a foreign kind: %v, want nil", pid)
	}
	if _, err := lib.Request("a", "other", text("m")); err == nil {
		t.Error("foreign kind is accepted")
	}
	if _, err := lib.RequestFuture("a", "other", text("m")); err == nil {
		t.Error("foreign kind is accepted")
	}
	if c.ActiveCount() != 1 {
		t.Errorf("ActiveCount %d, want 1", c.ActiveCount())
	}
}
