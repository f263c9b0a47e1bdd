package stats_test

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
)

// script builds events. Every event is in its own batch.
type script struct {
	env    observability.Envelope // of the next event
	events []observability.Event
}

func newScript() *script {
	return &script{env: observability.Envelope{Version: observability.Version, Agent: "desk", Instance: "c1", Submission: "sub_1"}}
}

// add appends an event at a time; change sets its ids.
func (s *script) add(at conversation.Time, p observability.Payload, change ...func(*observability.Envelope)) {
	env := s.env
	for _, c := range change {
		c(&env)
	}
	env.Type, env.At = p.EventType(), at
	if env.Seq != observability.LiveSeq {
		env.Seq = int64(len(s.events))
	}
	env.ID = fmt.Sprintf("key/%d/0", len(s.events))
	s.events = append(s.events, observability.Event{Envelope: env, Payload: p})
}

func live(e *observability.Envelope) { e.Seq = observability.LiveSeq }

// all yields events without an error.
func all(events []observability.Event) iter.Seq2[observability.Event, error] {
	return func(yield func(observability.Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

var errTorn = errors.New("torn")

// torn yields events and then an error.
func torn(events []observability.Event) iter.Seq2[observability.Event, error] {
	return func(yield func(observability.Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
		yield(observability.Event{}, errTorn)
	}
}

// reversed returns events from the last to the first, each twice.
func reversed(events []observability.Event) []observability.Event {
	out := slices.Concat(events, events)
	slices.Reverse(out)
	return out
}

func usage(in, out int64, cost float64) *observability.Usage {
	return &observability.Usage{Input: in, Output: out, CacheRead: 2, CacheWrite: 1, Total: in + out + 3, Cost: observability.Cost{Total: cost}}
}
