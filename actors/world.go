package actors

import (
	"crypto/rand"
	"io"
	"time"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/actors/internal/pending"
	"github.com/parleyrun/parley/conversation"
)

// world provides time and randomness, which no machine decides. Tests replace it.
type world struct {
	began time.Time // monotonic origin of machine.Env.Mono
	// wall is the wall clock, which may be adjusted.
	wall func() time.Time
	// entropy returns the randomness of one activation.
	entropy func(conversation.Key) io.Reader
	// unread returns the record types that some members cannot read.
	unread func() []conversation.RecordType
}

func newWorld(unread func() []conversation.RecordType) *world {
	return &world{
		began: time.Now(), wall: time.Now, entropy: func(conversation.Key) io.Reader { return rand.Reader }, unread: unread,
	}
}

// env returns the environment of a step, without its seed.
func (w *world) env(clock pending.Clock) machine.Env {
	wall := w.wall()
	return machine.Env{Wall: conversation.TimeOf(wall), Ahead: clock.Ahead(wall), Mono: time.Since(w.began), Unread: w.unread()}
}
