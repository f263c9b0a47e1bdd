package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Scripts of the model. A server with another model takes them as plain text.
const (
	oneToken   = "tokens=1"
	shortReply = "tokens=20"
)

// warm returns n conversations with a settled turn each. Later calls return the
// same ones.
func (r *runner) warm(ctx context.Context, n int) ([]string, error) {
	if err := r.serve(ctx); err != nil {
		return nil, err
	}
	have := len(r.pool)
	if n <= have {
		return r.pool[:n], nil
	}
	id := func(i int) string { return fmt.Sprintf("%swarm-%06d", r.prefix, have+i) }
	done, err := r.loop(ctx, 16, n-have, func(ctx context.Context, i int) (time.Duration, error) {
		took, _, err := r.at.turn(ctx, id(i), shortReply)
		return took, err
	})
	if err != nil {
		return nil, fmt.Errorf("warm conversations: %w", err)
	}
	for i := range done {
		r.pool = append(r.pool, id(i))
	}
	return r.pool, nil
}

// singleWarm is how many conversations take turns at one in flight, so that none
// gets long.
const singleWarm = 16

func admissionWarm(ctx context.Context, r *runner, out *Scenario) error {
	ids, err := r.warm(ctx, min(singleWarm, r.c.Pool))
	if err != nil {
		return err
	}
	return r.single(ctx, out, func(i int) string { return ids[(i+r.c.Warmup)%len(ids)] })
}

func admissionNew(ctx context.Context, r *runner, out *Scenario) error {
	if err := r.serve(ctx); err != nil {
		return err
	}
	return r.single(ctx, out, func(i int) string { return fmt.Sprintf("%snew-%06d", r.prefix, r.c.Warmup+i) })
}

// single times admissions one after the other; in between, it waits for the turn.
// Numbers below 0 are warm-ups.
func (r *runner) single(ctx context.Context, out *Scenario, id func(i int) string) error {
	op := func(ctx context.Context, i int) (time.Duration, error) {
		receipt, took, err := r.at.post(ctx, id(i), oneToken)
		if err != nil {
			return 0, err
		}
		_, err = r.at.settle(ctx, id(i), receipt)
		return took, err
	}
	_, err := r.loop(ctx, 1, r.c.Warmup, func(ctx context.Context, i int) (time.Duration, error) { return op(ctx, i-r.c.Warmup) })
	if err != nil {
		return err
	}
	samples, err := r.timed(ctx, out, 1, r.c.Single, op)
	if err == nil {
		out.take(samples)
	}
	return err
}

// last keeps the latest receipt of every conversation.
type last struct {
	mu       sync.Mutex
	receipts map[string]receipt
}

func (l *last) keep(id string, r receipt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// Offsets of one conversation have one length and sort as texts.
	if l.receipts[id].Offset < r.Offset {
		l.receipts[id] = r
	}
}

// settle waits until nothing is owed in any of them: a conversation settles in the
// order of admission.
func (l *last) settle(ctx context.Context, t *target) error {
	for id, r := range l.receipts {
		if _, err := t.settle(ctx, id, r); err != nil {
			return err
		}
	}
	return nil
}

// admissions times POSTs to the warm conversations in turn.
func (r *runner) admissions(ctx context.Context, out *Scenario, ids []string, inFlight, n int, text string) (*last, error) {
	l := &last{receipts: map[string]receipt{}}
	samples, err := r.timed(ctx, out, inFlight, n, func(ctx context.Context, i int) (time.Duration, error) {
		id := ids[i%len(ids)]
		receipt, took, err := r.at.post(ctx, id, text)
		if err == nil {
			l.keep(id, receipt)
		}
		return took, err
	})
	if err == nil {
		out.rated(samples)
	}
	return l, err
}

func admissionBurst(ctx context.Context, r *runner, out *Scenario) error {
	ids, err := r.warm(ctx, r.c.Pool)
	if err != nil {
		return err
	}
	l, err := r.admissions(ctx, out, ids, 64, r.c.Burst, oneToken)
	if err != nil {
		return err
	}
	return l.settle(ctx, r.at)
}

// releaseTimeout bounds the opening of a gate when the run is over.
const releaseTimeout = 5 * time.Second

func admissionHeld(ctx context.Context, r *runner, out *Scenario) (err error) {
	ids, err := r.warm(ctx, r.c.Pool)
	if err != nil {
		return err
	}
	gate := r.prefix + "held"
	l, err := r.admissions(ctx, out, ids, 16, r.c.Held, "hold="+gate+" "+oneToken)
	// Also after a failure nothing may hang at the gate.
	free, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err = errors.Join(err, r.release(free, gate)); err != nil {
		return err
	}
	return l.settle(ctx, r.at)
}

func turns(ctx context.Context, r *runner, out *Scenario) error {
	ids, err := r.warm(ctx, r.c.Pool)
	if err != nil {
		return err
	}
	samples, err := r.timed(ctx, out, 16, r.c.Turns, func(ctx context.Context, i int) (time.Duration, error) {
		took, _, err := r.at.turn(ctx, ids[i%len(ids)], shortReply)
		return took, err
	})
	if err != nil {
		return err
	}
	out.rated(samples)
	if out.ServerCPU != nil {
		out.figure("CPU per 1,000 turns", *out.ServerCPU*1000/float64(len(samples)), "s")
	}
	return nil
}
