package export

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/parleyrun/parley/internal/contain"
	"github.com/parleyrun/parley/internal/outage"
	"github.com/parleyrun/parley/observability"
)

// liveEvents bounds one write of live events to a sink. A database insert costs as much as thousands
// of rows and blocks its sender, too.
const liveEvents = 10_000

// group is one write to the sinks: the first items of the fifo.
type group struct {
	items  int
	events []observability.Event
	stored []bool // by outlet
}

// shipLoop ships one group after the other until ctx ends.
func (x *Exporter) shipLoop(ctx context.Context) {
	for ctx.Err() == nil {
		if x.group == nil {
			var wait time.Duration
			if x.group, wait = x.nextGroup(false); x.group == nil {
				x.await(ctx, x.fill, wait)
				continue
			}
		}
		if !x.deliver(ctx, x.group, (*outlet).store) {
			return
		}
		x.groupShipped()
	}
}

// groupShipped ends the current group, which all sinks have. The next group reuses its slice, because
// sinks do not keep it, unless a huge batch made it large.
func (x *Exporter) groupShipped() {
	x.shipped(x.group.items)
	if cap(x.group.events) <= 2*x.opts.FlushRows {
		clear(x.group.events)
		x.spare = x.group.events
	}
	x.group = nil
}

// await returns after a signal, after wait unless that is 0, or when ctx ends.
func (x *Exporter) await(ctx context.Context, c chan struct{}, wait time.Duration) {
	var after <-chan time.Time
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		after = t.C
	}
	select {
	case <-c:
	case <-after:
	case <-ctx.Done():
	}
}

// shipRest offers the waiting events to the sinks once, until one of them fails.
func (x *Exporter) shipRest(ctx context.Context) {
	for {
		if x.group == nil {
			if x.group, _ = x.nextGroup(true); x.group == nil {
				return
			}
		}
		if !x.deliver(ctx, x.group, (*outlet).try) {
			return
		}
		x.groupShipped()
	}
}

// nextGroup returns a group that is due, or with all set every waiting event. Otherwise it returns the
// time until one is due; 0 waits for a signal.
func (x *Exporter) nextGroup(all bool) (*group, time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.fifo) == 0 {
		return nil, 0
	}
	left := x.opts.FlushEvery - time.Since(x.fifo[0].came)
	if left > 0 && x.rows < x.opts.FlushRows && x.bytes < x.opts.FlushBytes && !all {
		return nil, left
	}
	g := &group{events: x.spare[:0], stored: make([]bool, len(x.outlets))}
	rows, bytes := 0, 0
	for _, i := range x.fifo {
		if g.items > 0 && (rows+len(i.events) > x.opts.FlushRows || bytes+i.bytes > x.opts.FlushBytes) {
			break
		}
		g.items++
		rows += len(i.events)
		bytes += i.bytes
	}
	g.events, x.spare = slices.Grow(g.events, rows), nil
	for _, i := range x.fifo[:g.items] {
		g.events = append(g.events, i.events...)
	}
	return g, 0
}

// deliver sends a group to the sinks that lack it and reports whether all have it.
func (x *Exporter) deliver(ctx context.Context, g *group, store func(*outlet, context.Context, []observability.Event) bool) bool {
	var wg sync.WaitGroup
	for i, o := range x.outlets {
		if !g.stored[i] {
			wg.Go(func() { g.stored[i] = store(o, ctx, g.events) })
		}
	}
	wg.Wait()
	for _, ok := range g.stored {
		if !ok {
			return false
		}
	}
	return true
}

// outlet is a sink with its own buffer of live events. It is the sink of that buffer, so that the sink
// gets one write at a time.
type outlet struct {
	sink observability.Sink
	name string
	opts *Options
	live *observability.Buffer
	slot chan struct{} // held during a write

	mu     sync.Mutex
	counts outletCounts
	outage *outage.Outage
}

type outletCounts struct {
	stored, failures int64
	rejected         observability.Rejections
	failing          bool
	last             string
	lastAt           time.Time
}

var _ observability.Sink = (*outlet)(nil)

func newOutlet(s observability.Sink, opts *Options) *outlet {
	name, _ := observability.NameOf(s) // checked before
	o := &outlet{sink: s, name: name, opts: opts, slot: make(chan struct{}, 1)}
	o.outage = outage.New(opts.Logger.With("sink", name), outage.Lines{
		Began: "sink unavailable; durable events wait", Continues: "sink still unavailable", Ended: "sink available again",
	}, 0)
	o.live = observability.NewBuffer(o, &observability.BufferOptions{
		MaxEvents: opts.LiveEvents, MaxBytes: opts.LiveBytes, BatchEvents: min(liveEvents, opts.LiveEvents),
		Linger: opts.FlushEvery, Backoff: opts.RetryPause, WriteTimeout: opts.WriteTimeout,
		DrainTimeout: finalTimeout / 2, Logger: opts.Logger,
	})
	return o
}

// Name implements observability.Sink.
func (o *outlet) Name() string { return o.name }

// Write implements observability.Sink for live events.
func (o *outlet) Write(ctx context.Context, events []observability.Event) error {
	if err := o.enter(ctx); err != nil {
		return err
	}
	defer o.exit()
	return contain.Run("sink "+o.name, func() error { return o.sink.Write(ctx, events) })
}

// enter waits until no other write is running.
func (o *outlet) enter(ctx context.Context) error {
	select {
	case o.slot <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for sink: %w", context.Cause(ctx))
	}
}

func (o *outlet) exit() { <-o.slot }

// store sends a group to the sink until it is stored or ctx ends, and reports whether it is stored.
func (o *outlet) store(ctx context.Context, events []observability.Event) bool {
	for wait := o.opts.RetryPause; ; wait = min(2*wait, o.opts.longestPause()) {
		if o.try(ctx, events) {
			return true
		}
		if !pause(ctx, wait) {
			return false
		}
	}
}

// try sends a group to the sink once and reports whether it is stored.
func (o *outlet) try(ctx context.Context, events []observability.Event) bool {
	err := o.enter(ctx)
	if err == nil {
		err = <-observability.Attempt(ctx, o.sink, events, o.opts.WriteTimeout)
		o.exit()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	c := &o.counts
	stored, err := c.rejected.Take(err, len(events))
	switch {
	case err == nil:
		o.outage.Succeeded()
		c.stored += int64(stored)
		c.failing = false
		return true
	case ctx.Err() != nil: // canceled
		return false
	}
	c.failures++
	c.last, c.lastAt = err.Error(), time.Now()
	c.failing = true
	o.outage.Report(err)
	return false
}
