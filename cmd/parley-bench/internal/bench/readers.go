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

const replyTokens = 200

// stampedReply returns a script in which every word is its send time.
func stampedReply() string {
	return `pace=5ms say="` + strings.TrimSpace(strings.Repeat(nowWord+" ", replyTokens)) + `"`
}

// firstDelta times first deltas, and waits for each turn to end.
func firstDelta(ctx context.Context, j *job) error {
	id := j.id(0)
	return j.measure(ctx, 1, min(warmUps.of(&j.o), j.n), func(ctx context.Context, _ int) (took time.Duration, err error) {
		s, err := j.at.streams(ctx, id, 1)
		if err != nil {
			return 0, err
		}
		defer s[0].close()
		g, ctx := errgroup.WithContext(ctx)
		start := time.Now()
		g.Go(func() error {
			err := s[0].until(func(chunks []byte) bool { return bytes.Contains(chunks, []byte(spoken)) })
			took = time.Since(start)
			return err
		})
		if _, _, err = j.at.turn(ctx, id, shortReply); err != nil {
			s[0].close()
		}
		return took, errors.Join(err, g.Wait())
	})
}

type reception struct {
	lags   []time.Duration
	frames []frame
}

// reply posts a stamped reply with readers at its conversation and returns the frames of each of them.
// A recorded reply keeps the frames, and its costs are not counted.
func (j *job) reply(ctx context.Context, id string, readers int, recorded bool) ([]reception, error) {
	g, ctx := errgroup.WithContext(ctx)
	streams, err := j.at.streams(ctx, id, readers)
	if err != nil {
		return nil, err
	}
	all := make([]reception, readers)
	run := func() error {
		for i, s := range streams {
			defer s.close()
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
			err = fmt.Errorf("reader got %d of %d tokens", len(h.lags), replyTokens)
		}
	}
	return all, err
}

// listen reads until the reply is settled, and collects its stamps.
func (h *reception) listen(s *stream, recorded bool) error {
	h.lags = make([]time.Duration, 0, replyTokens)
	start := time.Now()
	return s.until(func(chunks []byte) bool {
		now := time.Now()
		stamps(chunks, func(sent time.Time) { h.lags = append(h.lags, now.Sub(sent)) })
		if recorded {
			text := slices.Concat([]byte("event: data\ndata: "), erased(chunks), []byte("\n\n"))
			h.frames = append(h.frames, frame{After: now.Sub(start), Data: text})
		}
		return over(chunks)
	})
}

// measureReaders measures readers of replies, one reply after the other, each in a new conversation.
func (j *job) measureReaders(ctx context.Context, readers, replies int) error {
	var samples []time.Duration
	for i := range replies {
		all, err := j.reply(ctx, j.id(i), readers, false)
		if err != nil {
			return err
		}
		for _, h := range all {
			samples = append(samples, h.lags...)
		}
	}
	j.take(samples)
	return nil
}

func tokenLag(ctx context.Context, j *job) error { return j.measureReaders(ctx, 1, j.n) }

func manyReaders(ctx context.Context, j *job) error {
	err := j.measureReaders(ctx, j.n, 1)
	j.metric("readers", float64(j.n), "")
	return err
}

// bareBroadcast records the frames of a reply at one reader, and makes the model's process send the
// same frames at the same times.
func bareBroadcast(ctx context.Context, j *job) error {
	all, err := j.reply(ctx, j.id(0), 1, true)
	if err != nil {
		return err
	}
	o := order{Readers: j.n, Frames: all[0].frames}
	first := o.Frames[0].After
	for i := range o.Frames {
		o.Frames[i].After -= first
	}
	return j.broadcast(ctx, j.model.target, o)
}

// broadcast makes a model broadcast an order to its readers.
func (j *job) broadcast(ctx context.Context, model *target, o order) error {
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	lags := make([][]time.Duration, o.Readers)
	for i := range lags {
		s, err := model.open(ctx, "/bench/broadcast")
		if err != nil {
			return fmt.Errorf("join the broadcast: %w", err)
		}
		defer s.close()
		g.Go(func() error {
			var own []time.Duration // one sample per frame
			for {
				e, err := s.events.Next()
				if errors.Is(err, io.EOF) && len(own) == len(o.Frames) {
					lags[i] = own
					return nil
				}
				if err != nil {
					return fmt.Errorf("broadcast reader got %d of %d frames: %w", len(own), len(o.Frames), err)
				}
				now := time.Now()
				stamps([]byte(e.ID), func(sent time.Time) { own = append(own, now.Sub(sent)) })
			}
		})
	}
	// The model's process is the server here.
	_, err = j.metered(map[**float64]int{&j.ServerCPU: j.model.pid(), &j.GeneratorCPU: os.Getpid()}, func() error {
		g.Go(func() error {
			_, err := fetch(ctx, model.client, http.MethodPost, model.at.String()+"/bench/broadcast", body, http.StatusNoContent)
			return err
		})
		return g.Wait()
	})
	if err != nil {
		return err
	}
	j.take(slices.Concat(lags...))
	j.metric("readers", float64(o.Readers), "")
	j.metric("frames", float64(len(o.Frames)), "")
	return nil
}
