package grain_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/parleyrun/parley/actors/internal/grain"
)

// A member that is alone has nothing outside of the process, so that it can live in a bubble,
// whose end also shows that nothing of it is left.
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
			t.Errorf("a panic is told as %v", err)
		}
		ask(t, c, "b", "other")
		synctest.Wait()
		if made != 3 || c.ActiveCount() != 1 {
			t.Errorf("%d activations were made and %d are active, want 3 and 1", made, c.ActiveCount())
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it waited for %v", took)
		}
		if address, self := c.Owner("a"); !self || address != c.Address() {
			t.Errorf("a belongs to %q, and this is %q", address, c.Address())
		}
	})
}
