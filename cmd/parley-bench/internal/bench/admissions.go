package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Scripts of the model. Another model takes them as plain text.
const (
	oneToken   = "tokens=1"
	shortReply = "tokens=20"
)

// singleWarm is the number of conversations that share the turns at one in flight, so that none gets
// long.
const singleWarm = 16

// Amounts of warm conversations.
var (
	manyWarm = amount[int]{1000, 100}
	fewWarm  = amount[int]{singleWarm, singleWarm}
	oneWarm  = amount[int]{1, 1}
)

// warm returns n conversations with a settled turn each. Later calls return the same ones.
func (r *runner) warm(ctx context.Context, n int) ([]string, error) {
	if err := r.serve(ctx); err != nil {
		return nil, err
	}
	have, id := len(r.pool), numbered(r.prefix+"warm")
	if n <= have {
		return r.pool[:n], nil
	}
	done, err := loop(ctx, r.limits.loop, 16, n-have, r.at.turns(func(i int) string { return id(have + i) }, shortReply))
	if err != nil {
		return nil, fmt.Errorf("warm conversations: %w", err)
	}
	for i := range done {
		r.pool = append(r.pool, id(have+i))
	}
	return r.pool, nil
}

func admissionWarm(ctx context.Context, j *job) error { return j.single(ctx, j.id) }

func admissionNew(ctx context.Context, j *job) error { return j.single(ctx, numbered(j.prefix+"new")) }

// single times one admission after the other, and waits for the turn in between.
func (j *job) single(ctx context.Context, id func(i int) string) error {
	return j.measure(ctx, 1, warmUps.of(&j.o), func(ctx context.Context, i int) (time.Duration, error) {
		receipt, took, err := j.at.post(ctx, id(i), oneToken)
		if err == nil {
			_, err = j.at.settle(ctx, id(i), receipt)
		}
		return took, err
	})
}

type latestReceipts map[string]receipt

func (o latestReceipts) add(id string, r receipt) {
	// Offsets of one conversation have equal length, so they sort as strings.
	if o[id].Offset < r.Offset {
		o[id] = r
	}
}

// settle waits until every conversation has settled its latest submission, and so all earlier ones:
// settlements follow the order of admission.
func (o latestReceipts) settle(ctx context.Context, t *target) error {
	for id, r := range o {
		if _, err := t.settle(ctx, id, r); err != nil {
			return err
		}
	}
	return nil
}

// admissions times POSTs to the warm conversations in turn, and then waits for the turns. It first
// releases the gate that blocks the model, if any.
func (j *job) admissions(ctx context.Context, inFlight int, gate string) error {
	text := oneToken
	if gate != "" {
		text = "hold=" + gate + " " + oneToken
	}
	receipts := make([]receipt, j.n)
	err := j.measure(ctx, inFlight, 0, func(ctx context.Context, i int) (took time.Duration, err error) {
		receipts[i], took, err = j.at.post(ctx, j.id(i), text)
		return took, err
	})
	if gate != "" {
		err = errors.Join(err, j.free(ctx, gate))
	}
	if err != nil {
		return err
	}
	all := latestReceipts{}
	for i, r := range receipts {
		all.add(j.id(i), r)
	}
	return all.settle(ctx, j.at)
}

func admissionBurst(ctx context.Context, j *job) error { return j.admissions(ctx, 64, "") }

func admissionHeld(ctx context.Context, j *job) error { return j.admissions(ctx, 16, j.prefix+"held") }

// ask calls a control route of the model.
func (r *runner) ask(ctx context.Context, method, path string, status int) ([]byte, error) {
	at, err := r.modelURL(ctx)
	if err != nil {
		return nil, err
	}
	b, err := fetch(ctx, r.control, method, at+path, nil, status)
	if err != nil {
		return nil, fmt.Errorf("ask the model: %w", err)
	}
	return b, nil
}

// releaseTimeout bounds the opening of a gate after the end of the run.
const releaseTimeout = 5 * time.Second

// free opens a gate of the model, also after a failure, so that no call hangs at it.
func (r *runner) free(ctx context.Context, gate string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	_, err := r.ask(ctx, http.MethodPost, "/release/"+gate, http.StatusNoContent)
	return err
}

func turns(ctx context.Context, j *job) error {
	err := j.measure(ctx, 16, 0, j.at.turns(j.id, shortReply))
	if err == nil && j.ServerCPU != nil {
		j.metric("CPU per 1,000 turns", *j.ServerCPU*1000/float64(j.Samples), "s")
	}
	return err
}
