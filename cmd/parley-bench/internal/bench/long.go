package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// long is a conversation with many short turns.
type long struct {
	id    string
	turns int
	// behind is the offset before its last turn.
	behind string
	// last are the times of its latest turns, without the model's own.
	last []time.Duration
}

// spentTries bounds how often the model is asked for a call that is not over.
const spentTries = 100

// spent asks the model what its calls have taken so far, again until there are as
// many: a reply may be settled a moment before the model's call has returned.
func (r *runner) spent(ctx context.Context, calls int64) (spent, error) {
	for try := 1; ; try++ {
		b, err := r.ask(ctx, http.MethodGet, "/bench/spent", nil, http.StatusOK)
		if err != nil {
			return spent{}, err
		}
		var s spent
		if err := json.Unmarshal(b, &s); err != nil {
			return spent{}, fmt.Errorf("decode what the model has spent: %w", err)
		}
		if s.Calls >= calls {
			return s, nil
		}
		if try == spentTries {
			return spent{}, fmt.Errorf("the model was called %d times, want %d; is it the agent's?", s.Calls, calls)
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return spent{}, context.Cause(ctx)
		}
	}
}

// bareTurn times a turn and takes off what the model had of it. Nothing else may
// call the model meanwhile.
func (r *runner) bareTurn(ctx context.Context, id string) (time.Duration, string, error) {
	before, err := r.spent(ctx, 0)
	if err != nil {
		return 0, "", err
	}
	took, next, err := r.at.turn(ctx, id, shortReply)
	if err != nil {
		return 0, "", err
	}
	after, err := r.spent(ctx, before.Calls+1)
	return took - time.Duration(after.Nanos-before.Nanos), next, err
}

// theLong returns the long conversation, and builds it the first time.
func (r *runner) theLong(ctx context.Context) (*long, error) {
	if r.long != nil {
		return r.long, nil
	}
	if err := r.serve(ctx); err != nil {
		return nil, err
	}
	l := &long{id: r.prefix + "long"}
	next := ""
	built, err := r.bounded(ctx, r.c.Long, 1, r.c.LongTurns, func(ctx context.Context, _ int) (took time.Duration, err error) {
		l.behind = next
		took, next, err = r.at.turn(ctx, l.id, shortReply)
		return took, err
	})
	if err != nil {
		return nil, fmt.Errorf("build a long conversation: %w", err)
	}
	l.turns = len(built)
	if r.o.Against == "" || r.o.Model != "" {
		l.last, err = r.loop(ctx, 1, r.c.LastTurns, func(ctx context.Context, _ int) (took time.Duration, err error) {
			l.behind = next
			took, next, err = r.bareTurn(ctx, l.id)
			return took, err
		})
		if err != nil {
			return nil, fmt.Errorf("time the long conversation: %w", err)
		}
		l.turns += len(l.last)
	}
	r.long = l
	return l, nil
}

// firstOfTen and lastOfTen are the turns of a short conversation that count as the tenth.
const firstOfTen, lastOfTen = 8, 12

func turnGrowth(ctx context.Context, r *runner, out *Scenario) error {
	l, err := r.theLong(ctx)
	if err != nil {
		return err
	}
	var short []time.Duration
	for i := range r.c.Shorts {
		id := fmt.Sprintf("%sshort-%06d", r.prefix, i)
		for turn := 1; turn <= lastOfTen; turn++ {
			took, _, err := r.bareTurn(ctx, id)
			if err != nil {
				return err
			}
			if turn >= firstOfTen {
				short = append(short, took)
			}
		}
	}
	out.take(l.last)
	ten := NewLatency(short)
	out.figure("turns", float64(l.turns), "")
	out.figure("p50 at 10", ten.P50, "ms")
	if ten.P50 > 0 {
		out.figure("growth", out.Latency.P50/ten.P50, "×")
	}
	return nil
}

// reads times whole answers to one GET after the other.
func (r *runner) reads(ctx context.Context, out *Scenario, query func(*long) string) error {
	l, err := r.theLong(ctx)
	if err != nil {
		return err
	}
	size := 0
	op := func(ctx context.Context, _ int) (time.Duration, error) {
		start := time.Now()
		b, _, err := r.at.call(ctx, http.MethodGet, l.id, query(l), "", http.StatusOK)
		size = len(b)
		return time.Since(start), err
	}
	if _, err := r.loop(ctx, 1, r.c.Warmup, op); err != nil {
		return err
	}
	samples, err := r.timed(ctx, out, 1, r.c.Reads, op)
	if err != nil {
		return err
	}
	out.rated(samples)
	out.figure("turns", float64(l.turns), "")
	out.figure("answer", float64(size)/1e3, "kB")
	return nil
}

func snapshotWarm(ctx context.Context, r *runner, out *Scenario) error {
	return r.reads(ctx, out, func(*long) string { return "" })
}

func updatesBehind(ctx context.Context, r *runner, out *Scenario) error {
	return r.reads(ctx, out, func(l *long) string { return "view=updates&offset=" + url.QueryEscape(l.behind) })
}
