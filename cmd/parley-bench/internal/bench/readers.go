package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// replyTokens is the length of a paced reply.
const replyTokens = 200

// stampedReply is a script whose every word is the time it was said.
func stampedReply() string {
	return `pace=5ms say="` + strings.TrimSpace(strings.Repeat(nowWord+" ", replyTokens)) + `"`
}

func firstDelta(ctx context.Context, j *job) error {
	ids, err := j.warm(ctx, 1)
	if err != nil {
		return err
	}
	return j.measure(ctx, 1, min(warmUps.of(&j.o), j.n), func(ctx context.Context, _ int) (time.Duration, error) { return j.delta(ctx, ids[0]) })
}

// delta times a first delta, and waits for the turn to end.
func (r *runner) delta(ctx context.Context, id string) (took time.Duration, err error) {
	head, err := r.at.head(ctx, id)
	if err != nil {
		return 0, err
	}
	s, err := r.at.stream(ctx, id, head)
	if err != nil {
		return 0, err
	}
	defer s.close()
	g, ctx := errgroup.WithContext(ctx)
	start := time.Now()
	g.Go(func() error {
		err := s.until(func(chunks []byte) bool { return bytes.Contains(chunks, []byte(spoken)) })
		took = time.Since(start)
		return err
	})
	g.Go(func() error {
		receipt, _, err := r.at.post(ctx, id, shortReply)
		if err != nil {
			s.close()
			return err
		}
		_, err = r.at.settle(ctx, id, receipt)
		return err
	})
	err = g.Wait()
	return took, err
}

// heard is what one reader saw of a reply.
type heard struct {
	lags   []time.Duration
	frames []frame
}

// reply posts a stamped reply with readers at its conversation and returns what
// each of them saw until it was over. A reply that is recorded keeps the frames, and costs
// nothing.
func (j *job) reply(ctx context.Context, id string, readers int, recorded bool) ([]heard, error) {
	head, err := j.at.head(ctx, id)
	if err != nil {
		return nil, err
	}
	g, ctx := errgroup.WithContext(ctx)
	streams := make([]*stream, readers)
	for i := range streams {
		if streams[i], err = j.at.stream(ctx, id, head); err != nil {
			return nil, err
		}
		defer streams[i].close()
	}
	all := make([]heard, readers)
	run := func() error {
		for i, s := range streams {
			g.Go(func() error { return all[i].listen(s, recorded) })
		}
		g.Go(func() error {
			_, _, err := j.at.post(ctx, id, stampedReply())
			return err
		})
		return g.Wait()
	}
	if recorded {
		err = run()
	} else {
		err = j.costs(ctx, run)
	}
	for _, h := range all {
		if err == nil && len(h.lags) != replyTokens {
			err = fmt.Errorf("a reader saw %d of %d tokens", len(h.lags), replyTokens)
		}
	}
	return all, err
}

// listen reads until the reply is settled. It scans for stamps.
func (h *heard) listen(s *stream, recorded bool) error {
	h.lags = make([]time.Duration, 0, replyTokens)
	start := time.Now()
	return s.until(func(chunks []byte) bool {
		now := time.Now()
		stamps(chunks, func(said time.Time) { h.lags = append(h.lags, now.Sub(said)) })
		if recorded {
			text := slices.Concat([]byte("event: data\ndata: "), erased(chunks), []byte("\n\n"))
			h.frames = append(h.frames, frame{After: now.Sub(start), Data: text})
		}
		return over(chunks)
	})
}

func tokenLag(ctx context.Context, j *job) error {
	ids, err := j.warm(ctx, min(singleWarm, warmPool.of(&j.o)))
	if err != nil {
		return err
	}
	var samples []time.Duration
	for i := range j.n {
		all, err := j.reply(ctx, ids[i%len(ids)], 1, false)
		if err != nil {
			return err
		}
		samples = append(samples, all[0].lags...)
	}
	j.take(samples)
	return nil
}

func manyReaders(ctx context.Context, j *job) error {
	ids, err := j.warm(ctx, 1)
	if err != nil {
		return err
	}
	all, err := j.reply(ctx, ids[0], j.n, false)
	if err != nil {
		return err
	}
	var samples []time.Duration
	for _, h := range all {
		samples = append(samples, h.lags...)
	}
	j.take(samples)
	j.figure("readers", float64(len(all)), "")
	return nil
}

// bareBroadcast records the frames of a reply at one reader, and has the model's
// process pass the same frames on at the same times.
func bareBroadcast(ctx context.Context, j *job) error {
	ids, err := j.warm(ctx, 1)
	if err != nil {
		return err
	}
	all, err := j.reply(ctx, ids[0], 1, true)
	if err != nil {
		return err
	}
	o := order{Readers: j.n, Frames: all[0].frames}
	first := o.Frames[0].After
	for i := range o.Frames {
		o.Frames[i].After -= first
	}
	samples, err := j.broadcast(ctx, j.model.target, o)
	if err != nil {
		return err
	}
	j.take(samples)
	j.figure("readers", float64(o.Readers), "")
	j.figure("frames", float64(len(o.Frames)), "")
	return nil
}

// broadcast has a model play an order to as many readers as it wants.
func (j *job) broadcast(ctx context.Context, model *target, o order) ([]time.Duration, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	g, ctx := errgroup.WithContext(ctx)
	lags := make([][]time.Duration, o.Readers)
	for i := range lags {
		s, err := model.open(ctx, "/bench/broadcast")
		if err != nil {
			return nil, fmt.Errorf("join the broadcast: %w", err)
		}
		defer s.close()
		g.Go(func() (err error) {
			lags[i], err = s.lags()
			return err
		})
	}
	// Here the model's process is what serves.
	ends := []func(){meter(&j.ServerCPU, j.model.pid()), meter(&j.GeneratorCPU, os.Getpid())}
	start := time.Now()
	g.Go(func() error {
		_, err := fetch(ctx, model.streams, http.MethodPost, model.base.String()+"/bench/broadcast", body, http.StatusNoContent)
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	j.Seconds = time.Since(start).Seconds()
	for _, end := range ends {
		end()
	}
	for _, l := range lags {
		if len(l) != len(o.Frames) {
			return nil, fmt.Errorf("a reader of the broadcast saw %d of %d frames", len(l), len(o.Frames))
		}
	}
	return slices.Concat(lags...), nil
}

// lags reads a broadcast to its end: a sample per frame.
func (s *stream) lags() (lags []time.Duration, err error) {
	for {
		e, err := s.events.Next()
		if errors.Is(err, io.EOF) {
			return lags, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the broadcast: %w", err)
		}
		now := time.Now()
		stamps([]byte(e.ID), func(said time.Time) { lags = append(lags, now.Sub(said)) })
	}
}
