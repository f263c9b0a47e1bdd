package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Amounts of the long conversation: all its turns, and the timed turns at its end.
var (
	longTurns = amount[int]{1000, 100}
	lastTurns = amount[int]{50, 10}
)

type long struct {
	id    string
	turns int
	// behind is the offset before its last turn.
	behind string
	// last holds the times of its latest turns, without the time of the model.
	last []time.Duration
}

// spentTries limits the polls for a model call that has not returned.
const spentTries = 100

// spent returns the total time of the model's calls once the model has counted calls of them: a reply
// may settle a moment before the model's call returns.
func (r *runner) spent(ctx context.Context, calls int64) (s spent, err error) {
	for range spentTries {
		b, err := r.ask(ctx, http.MethodGet, "/bench/spent", http.StatusOK)
		if err != nil {
			return s, err
		}
		if err := json.Unmarshal(b, &s); err != nil {
			return s, fmt.Errorf("decode time of model: %w", err)
		}
		if s.Calls >= calls {
			return s, nil
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return s, err
		}
	}
	return s, fmt.Errorf("model was called %d times, want %d: check that the agent uses it", s.Calls, calls)
}

// bareTurn times a turn without the time of the model. No other caller may use the model concurrently.
func (r *runner) bareTurn(ctx context.Context, id, text string) (time.Duration, string, error) {
	before, err := r.spent(ctx, 0)
	if err != nil {
		return 0, "", err
	}
	took, next, err := r.at.turn(ctx, id, text)
	if err != nil {
		return 0, "", err
	}
	after, err := r.spent(ctx, before.Calls+1)
	return took - time.Duration(after.Nanos-before.Nanos), next, err
}

// grow builds the long conversation on first use.
func (r *runner) grow(ctx context.Context) error {
	if r.long != nil {
		return nil
	}
	if err := r.serve(ctx); err != nil {
		return err
	}
	l, next := &long{id: r.prefix + "long"}, ""
	// turns returns an operation that runs a turn in it.
	turns := func(turn func(context.Context, string, string) (time.Duration, string, error)) operation {
		return func(ctx context.Context, _ int) (took time.Duration, err error) {
			l.behind = next
			took, next, err = turn(ctx, l.id, shortReply)
			return took, err
		}
	}
	built, err := loop(ctx, r.limits.long, 1, longTurns.of(&r.o), turns(r.at.turn))
	if err != nil {
		return fmt.Errorf("build a long conversation: %w", err)
	}
	if r.o.Against == "" || r.o.Model != "" {
		if l.last, err = loop(ctx, r.limits.loop, 1, lastTurns.of(&r.o), turns(r.bareTurn)); err != nil {
			return fmt.Errorf("time the long conversation: %w", err)
		}
	}
	l.turns = len(built) + len(l.last)
	r.long = l
	return nil
}

// firstOfTen and lastOfTen bound the turns of a short conversation that count as the tenth.
const firstOfTen, lastOfTen = 8, 12

// turnGrowth compares the long conversation with n short ones.
func turnGrowth(ctx context.Context, j *job) error {
	var short []time.Duration
	for i := range j.n {
		for turn := 1; turn <= lastOfTen; turn++ {
			took, _, err := j.bareTurn(ctx, numbered(j.prefix+"short")(i), shortReply)
			if err != nil {
				return err
			}
			if turn >= firstOfTen {
				short = append(short, took)
			}
		}
	}
	j.take(j.long.last)
	ten := NewLatency(short)
	j.metric("turns", float64(j.long.turns), "")
	j.metric("p50 at 10", ten.P50, "ms")
	if ten.P50 > 0 {
		j.metric("growth", j.Latency.P50/ten.P50, "×")
	}
	return nil
}

// reads times GETs of the long conversation, each read to its end.
func (j *job) reads(query string, timed func(operation) error) error {
	size := 0
	err := timed(func(ctx context.Context, _ int) (time.Duration, error) {
		b, took, err := j.at.get(ctx, j.long.id, query)
		size = len(b)
		return took, err
	})
	j.metric("turns", float64(j.long.turns), "")
	j.metric("answer", float64(size)/1e3, "kB")
	return err
}

func (j *job) warmReads(ctx context.Context, query string) error {
	return j.reads(query, func(op operation) error { return j.measure(ctx, 1, warmUps.of(&j.o), op) })
}

func snapshotWarm(ctx context.Context, j *job) error { return j.warmReads(ctx, "") }

func updatesBehind(ctx context.Context, j *job) error {
	return j.warmReads(ctx, "view=updates&offset="+url.QueryEscape(j.long.behind))
}
