package actors

import (
	"crypto/rand"
	"io"
	"time"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/actors/internal/pending"
	"github.com/parleyrun/parley/conversation"
)

// world is what no machine decides: time and randomness. Tests bring their own.
type world struct {
	began time.Time // monotonic origin of machine.Env.Mono
	// wall is the wall clock, which somebody may set.
	wall func() time.Time
	// entropy returns the randomness of one activation.
	entropy func(conversation.Key) io.Reader
	// unread are the types of records that not every member reads.
	unread func() []conversation.RecordType
}

func newWorld(unread func() []conversation.RecordType) *world {
	return &world{
		began: time.Now(), wall: time.Now, entropy: func(conversation.Key) io.Reader { return rand.Reader }, unread: unread,
	}
}

// env is what a step knows by the clock of its conversation; its seed is still missing.
func (w *world) env(clock pending.Clock) machine.Env {
	wall := w.wall()
	return machine.Env{Wall: conversation.TimeOf(wall), Ahead: clock.Ahead(wall), Mono: time.Since(w.began), Unread: w.unread()}
}
