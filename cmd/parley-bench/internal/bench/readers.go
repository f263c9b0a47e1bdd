package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/parleyrun/parley/providers/sse"
)

// replyTokens is the length of a paced reply.
const replyTokens = 200

// stampedReply is a script whose every word is the time it was said.
func stampedReply() string {
	return `pace=5ms say="` + strings.TrimSpace(strings.Repeat(nowWord+" ", replyTokens)) + `"`
}

func firstDelta(ctx context.Context, r *runner, out *Scenario) error {
	ids, err := r.warm(ctx, 1)
	if err != nil {
		return err
	}
	op := func(ctx context.Context, _ int) (time.Duration, error) { return r.delta(ctx, ids[0]) }
	if _, err := r.loop(ctx, 1, min(r.c.Warmup, r.c.Deltas), op); err != nil {
		return err
	}
	samples, err := r.timed(ctx, out, 1, r.c.Deltas, op)
	if err == nil {
		out.take(samples)
	}
	return err
}

// head returns the offset of a conversation's head.
func (r *runner) head(ctx context.Context, id string) (string, error) {
	_, h, err := r.at.call(ctx, http.MethodHead, id, "", "", http.StatusOK)
	if err != nil {
		return "", err
	}
	return h.Get("Stream-Next-Offset"), nil
}

// delta times a first delta, and waits for the turn to end.
func (r *runner) delta(ctx context.Context, id string) (took time.Duration, err error) {
	head, err := r.head(ctx, id)
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
		for {
			b, err := s.data()
			if err != nil {
				return err
			}
			if bytes.Contains(b, []byte(`"message-delta"`)) {
				took = time.Since(start)
				return nil
			}
		}
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
// each of them saw until it was over. Frames are kept where asked for.
func (r *runner) reply(ctx context.Context, out *Scenario, id string, readers int, frames bool) ([]heard, error) {
	head, err := r.head(ctx, id)
	if err != nil {
		return nil, err
	}
	streams := make([]*stream, readers)
	for i := range streams {
		if streams[i], err = r.at.stream(ctx, id, head); err != nil {
			return nil, err
		}
		defer streams[i].close()
	}
	all := make([]heard, readers)
	err = r.costs(ctx, out, func() error {
		g, ctx := errgroup.WithContext(ctx)
		for i, s := range streams {
			g.Go(func() error { return all[i].listen(ctx, s, frames) })
		}
		g.Go(func() error {
			_, _, err := r.at.post(ctx, id, stampedReply())
			return err
		})
		return g.Wait()
	})
	for _, h := range all {
		if err == nil && len(h.lags) != replyTokens {
			err = fmt.Errorf("a reader saw %d of %d tokens", len(h.lags), replyTokens)
		}
	}
	return all, err
}

// listen reads until the reply is settled. It scans for stamps and decodes nothing:
// at hundreds of readers, decoding would be what is measured.
func (h *heard) listen(ctx context.Context, s *stream, frames bool) error {
	stop := context.AfterFunc(ctx, s.close)
	defer stop()
	h.lags = make([]time.Duration, 0, replyTokens)
	start := time.Now()
	for {
		b, err := s.data()
		if err != nil {
			return err
		}
		now := time.Now()
		stamps(b, func(said time.Time) { h.lags = append(h.lags, now.Sub(said)) })
		if frames {
			text := append(append([]byte("event: data\ndata: "), erased(b)...), "\n\n"...)
			h.frames = append(h.frames, frame{After: now.Sub(start), Data: text})
		}
		if bytes.Contains(b, []byte(`"submission-settled"`)) {
			return nil
		}
	}
}

func tokenLag(ctx context.Context, r *runner, out *Scenario) error {
	ids, err := r.warm(ctx, min(singleWarm, r.c.Pool))
	if err != nil {
		return err
	}
	var samples []time.Duration
	for i := range r.c.Replies {
		all, err := r.reply(ctx, out, ids[i%len(ids)], 1, false)
		if err != nil {
			return err
		}
		samples = append(samples, all[0].lags...)
	}
	out.take(samples)
	return nil
}

func manyReaders(ctx context.Context, r *runner, out *Scenario) error {
	ids, err := r.warm(ctx, 1)
	if err != nil {
		return err
	}
	all, err := r.reply(ctx, out, ids[0], r.c.Readers, false)
	if err != nil {
		return err
	}
	var samples []time.Duration
	for _, h := range all {
		samples = append(samples, h.lags...)
	}
	out.take(samples)
	out.figure("readers", float64(len(all)), "")
	return nil
}

// bareBroadcast records the frames of a reply at one reader, and has the model's
// process pass the same frames on at the same times.
func bareBroadcast(ctx context.Context, r *runner, out *Scenario) error {
	ids, err := r.warm(ctx, 1)
	if err != nil {
		return err
	}
	all, err := r.reply(ctx, nil, ids[0], 1, true)
	if err != nil {
		return err
	}
	o := order{Readers: r.c.Readers, Frames: all[0].frames}
	first := o.Frames[0].After
	for i := range o.Frames {
		o.Frames[i].After -= first
	}
	lags, err := r.broadcast(ctx, out, o)
	if err != nil {
		return err
	}
	out.take(lags)
	out.figure("readers", float64(o.Readers), "")
	out.figure("frames", float64(len(o.Frames)), "")
	return nil
}

// broadcast plays an order to as many readers as it wants.
func (r *runner) broadcast(ctx context.Context, out *Scenario, o order) ([]time.Duration, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	g, ctx := errgroup.WithContext(ctx)
	lags := make([][]time.Duration, o.Readers)
	for i := range o.Readers {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.model.url+"/bench/broadcast", nil)
		if err != nil {
			return nil, err
		}
		resp, err := r.control.Do(req)
		if err != nil {
			return nil, fmt.Errorf("join the broadcast: %w", err)
		}
		defer resp.Body.Close()
		g.Go(func() (err error) {
			lags[i], err = broadcastLags(resp.Body)
			return err
		})
	}
	before := r.usages()
	start := time.Now()
	g.Go(func() error { return r.startBroadcast(ctx, body) })
	if err := g.Wait(); err != nil {
		return nil, err
	}
	out.Seconds = time.Since(start).Seconds()
	// Here the model's process is what serves.
	after := r.usages()
	addCPU(&out.ServerCPU, before.model, after.model)
	addCPU(&out.GeneratorCPU, before.generator, after.generator)
	var samples []time.Duration
	for _, l := range lags {
		if len(l) != len(o.Frames) {
			return nil, fmt.Errorf("a reader of the broadcast saw %d of %d frames", len(l), len(o.Frames))
		}
		samples = append(samples, l...)
	}
	return samples, nil
}

// startBroadcast waits until the last reader is there, which takes a moment after
// it was answered.
func (r *runner) startBroadcast(ctx context.Context, body []byte) error {
	const tries = 100
	for try := 1; ; try++ {
		_, err := r.ask(ctx, http.MethodPost, "/bench/broadcast", body, http.StatusNoContent)
		if err == nil || try == tries {
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// broadcastLags reads to the end: a sample per frame.
func broadcastLags(src io.Reader) ([]time.Duration, error) {
	var lags []time.Duration
	events := sse.NewReader(src, nil)
	for {
		e, err := events.Next()
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
