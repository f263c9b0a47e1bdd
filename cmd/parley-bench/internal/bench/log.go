package bench

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
)

// logWarmUps are operations of a pair that are not measured.
var logWarmUps = amount[int]{50, 20}

type logJob struct {
	*job
	bucket storage.Bucket
	logs   *storage.Logs
	pool   []payload
	id     string // in the name of every conversation
	convs  int    // number of conversations written to
}

// logged runs a scenario with payloads of size bytes and a log, in the bucket of the options or in a
// temporary folder.
func logged(size int, run func(context.Context, *logJob) error) func(context.Context, *job) error {
	return func(ctx context.Context, j *job) (err error) {
		l := &logJob{job: j, id: rand.Text()}
		if l.pool, err = payloads(size); err != nil {
			return err
		}
		if j.o.Bucket != nil {
			l.bucket, err = j.o.Bucket.Open()
		} else {
			var store *local.Store
			if store, err = local.Open(filepath.Join(j.dir, j.Name), nil); err == nil {
				defer func() { err = errors.Join(err, store.Close()) }()
			}
			l.bucket = store
		}
		if err != nil {
			return err
		}
		l.logs = storage.NewLogs(l.bucket, nil)
		return run(ctx, l)
	}
}

func (l *logJob) conv() conversation.Key {
	l.convs++
	return conversation.Address{Agent: "parley-bench", ID: fmt.Sprintf("%s-%d", l.id, l.convs)}.Key()
}

func (l *logJob) writer() *storage.Writer {
	conv := l.conv()
	return l.logs.Writer(conv, storage.Nonce(fmt.Sprintf("%s-%d", l.id, l.convs)), storage.Start(), 1)
}

// sides returns a writer of raw objects and a writer of batches. Each stores the i-th payload as the
// next object of its conversation, and belongs to one goroutine at a time.
func (l *logJob) sides() [2]operation {
	conv, seq, w := l.conv(), int64(-1), l.writer()
	timed := func(store func(ctx context.Context, p payload) error) operation {
		return func(ctx context.Context, i int) (time.Duration, error) {
			return clocked(func() error { return store(ctx, l.pool[i%len(l.pool)]) })
		}
	}
	return [2]operation{
		timed(func(ctx context.Context, p payload) error {
			seq++
			return l.bucket.Create(ctx, storage.LogKey(conv, seq), storage.Bytes(p.object))
		}),
		timed(func(ctx context.Context, p payload) error {
			_, err := w.Append(ctx, p.lines, conversation.TimeOf(time.Now()))
			return err
		}),
	}
}

// inTurn times n operations of each of two sides, after warmUps unmeasured ones that precede them in
// the numbering. The sides take turns in going first, so that neither always pays for the
// after-effects of the other.
func (j *job) inTurn(ctx context.Context, warmUps int, op func(ctx context.Context, i, side int) (time.Duration, error)) ([2][]time.Duration, error) {
	var samples [2][]time.Duration
	both := func(ctx context.Context, i int) (time.Duration, error) {
		for _, side := range [2]int{i % 2, 1 - i%2} {
			took, err := op(ctx, i, side)
			if err != nil {
				return 0, err
			}
			samples[side] = append(samples[side], took)
		}
		return 0, nil
	}
	if _, err := loop(ctx, j.limits.loop, 1, warmUps, both); err != nil {
		return samples, err
	}
	clear(samples[:])
	_, err := loop(ctx, j.limits.loop, 1, j.n, func(ctx context.Context, i int) (time.Duration, error) { return both(ctx, warmUps+i) })
	return samples, err
}

func pairs(ctx context.Context, l *logJob) error {
	sides := l.sides()
	samples, err := l.inTurn(ctx, logWarmUps.of(&l.o), func(ctx context.Context, i, side int) (time.Duration, error) { return sides[side](ctx, i) })
	if err != nil {
		return err
	}
	l.raw.take(samples[0])
	l.take(samples[1])
	l.raw.metric("object", objectBytes(l.pool), "bytes")
	l.ToRawPut = l.Latency.P50 / l.raw.Latency.P50
	return nil
}

const crowdWriters = 64

// crowdRound is the number of objects stored in a round, at least one per writer.
var crowdRound = amount[int]{2000, 1000}

// crowds times rounds of many concurrent writers, the two sides in turn.
func crowds(ctx context.Context, l *logJob) error {
	var idle [2]chan operation // Idle writers of each side, the longest idle first.
	for side := range idle {
		idle[side] = make(chan operation, crowdWriters)
	}
	for range crowdWriters {
		for side, w := range l.sides() {
			idle[side] <- w
		}
	}
	store := func(ctx context.Context, side, n int) ([]time.Duration, error) {
		return loop(ctx, l.limits.scenario, crowdWriters, n, func(ctx context.Context, i int) (time.Duration, error) {
			w := <-idle[side]
			defer func() { idle[side] <- w }()
			return w(ctx, i)
		})
	}
	for side := range idle { // Every writer's first object is a warm-up; in a log it is the claim.
		if _, err := store(ctx, side, 2*crowdWriters); err != nil {
			return err
		}
	}
	rows := [2]*Scenario{l.raw, l.Scenario}
	var samples [2][]time.Duration
	var rates [2][]float64 // one per round
	var cpu [2]*float64
	_, err := l.inTurn(ctx, 0, func(ctx context.Context, _, side int) (time.Duration, error) {
		var took []time.Duration
		seconds, err := rows[side].metered(map[**float64]int{&cpu[side]: os.Getpid()}, func() (err error) {
			took, err = store(ctx, side, max(crowdWriters, crowdRound.of(&l.o)))
			return err
		})
		rates[side] = append(rates[side], float64(len(took))/seconds)
		samples[side] = append(samples[side], took...)
		return 0, err
	})
	if err != nil {
		return err
	}
	for side, row := range rows {
		row.take(samples[side])
		if cpu[side] != nil {
			row.metric("CPU per 1,000", *cpu[side]*1e6/float64(row.Samples), "ms")
		}
	}
	l.raw.metric("object", objectBytes(l.pool), "bytes")
	// The median, so that a disturbance of one round has no effect.
	for i := range rates[1] {
		rates[1][i] /= rates[0][i]
	}
	slices.Sort(rates[1])
	l.metric("rate to raw PUT", rates[1][len(rates[1])/2], "×")
	return nil
}

const (
	// streamLine is the size of a record line of the stream, in bytes.
	streamLine = 120
	// streamLines are written repeatedly. They exceed the window of the compressor, which would
	// otherwise find the repetition.
	streamLines = 40_000
	// streamWaiting limits the bytes of records that wait for an append, like the runtime's limit for
	// backpressure on a model.
	streamWaiting = 4 << 20
)

// saturated streams at most n bytes into one conversation at full speed. One append is in flight, and
// records that arrive during it leave with the next one.
func saturated(ctx context.Context, l *logJob) error {
	records := l.n / streamLine
	lines, err := deltas(min(records, streamLines), streamLine)
	if err != nil {
		return err
	}
	w := l.writer()
	if _, err := w.Append(ctx, bytes.Join(lines[:min(records, 100)], nil), conversation.TimeOf(time.Now())); err != nil { // the claim
		return err
	}
	waiting := make(chan time.Time, streamWaiting/streamLine) // arrival time of each record
	var samples []time.Duration
	var cpu *float64
	batches := 0
	g, ctx := errgroup.WithContext(ctx)
	start := time.Now()
	fill := func() error {
		defer close(waiting)
		for i, now := 0, start; i < records && now.Sub(start) < l.limits.long; i++ {
			now = time.Now()
			select {
			case waiting <- now:
			case <-ctx.Done():
				return nil
			}
		}
		return nil
	}
	drain := func() error {
		var batch []byte
		var since []time.Time
		for first := range waiting {
			since = append(since[:0], first)
			for range len(waiting) {
				since = append(since, <-waiting)
			}
			batch = batch[:0]
			for i := range since {
				batch = append(batch, lines[(len(samples)+i)%len(lines)]...)
			}
			if _, err := w.Append(ctx, batch, conversation.TimeOf(time.Now())); err != nil {
				return err
			}
			batches++
			now := time.Now()
			for _, t := range since {
				samples = append(samples, now.Sub(t))
			}
		}
		return nil
	}
	_, err = l.metered(map[**float64]int{&cpu: os.Getpid()}, func() error {
		g.Go(fill)
		g.Go(drain)
		return g.Wait()
	})
	if err != nil {
		return err
	}
	l.take(samples)
	durable := float64(l.Samples) * streamLine
	l.metric("durable", durable/1e6/l.Seconds, "MB/s")
	l.metric("batch", durable/1e3/float64(max(1, batches)), "kB")
	if cpu != nil {
		l.metric("CPU per GB", *cpu*1e9/durable, "s")
	}
	return nil
}
