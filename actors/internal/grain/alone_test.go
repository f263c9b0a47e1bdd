package grain_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/parleyrun/parley/actors/internal/grain"
)

// TestAlone runs a member without a listener in a bubble. The end of the bubble verifies that no
// goroutine is left.
func TestAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		made := 0
		newActor := actorFunc(func(ctx actor.Context) {
			switch m := ctx.Message().(type) {
			case *actor.Started:
				made++
			case interface{ GetValue() string }:
				switch m.GetValue() {
				case "leave":
					ctx.Respond(text("left"))
					grain.Passivate(ctx)
				case "panic":
					panic("asked to")
				default:
					ctx.Respond(text(m.GetValue()))
				}
			}
		})
		c := start(t, newActor, &grain.Options{Alone: true, Listen: "127.0.0.1:0"})
		for _, word := range []string{"hello", "leave", "back"} {
			ask(t, c, "a", word)
		}
		if _, err := c.Request(t.Context(), "a", text("panic")); !errors.Is(err, grain.ErrPanicked) {
			t.Errorf("error of a panic: %v", err)
		}
		ask(t, c, "b", "other")
		synctest.Wait()
		if made != 3 || c.ActiveCount() != 1 {
			t.Errorf("%d activations created and %d active, want 3 and 1", made, c.ActiveCount())
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("took %v, want at most 1s", took)
		}
		if address, self := c.Owner("a"); !self || address != c.Address() {
			t.Errorf("owner of a is %q, want %q", address, c.Address())
		}
	})
}
