// Package events delivers the events of a node to sinks and observers without delay. Package actors
// has one [Fanout] for each node and one [Tap] for each conversation in memory; package work has a
// [Live] for each piece of work.
//
// Package export ships durable events from the batches that it is offered. Nothing here blocks. After
// a crash the exporter finds the durable events; live events are best effort.
//
// All types are safe for concurrent use, except a Tap, which belongs to its activation.
package events

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/parleyrun/parley/actors/internal/export"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
)

// Options configures a Fanout.
type Options struct {
	Observers []observability.Sink
	Logger    *slog.Logger // Required.
	// DurableOnly disables live events.
	DurableOnly bool
	// Prompts includes the content of prompts, whatever Content reports.
	Prompts bool
	// Addresses are those that this node knows. Required.
	Addresses *Addresses
	// Content reports whether events of an agent include message content. Required.
	Content func(agent string) bool
}

// Fanout delivers the events of a node to its sinks and observers. Use New.
type Fanout struct {
	o         Options
	node      string           // in the ids of live events
	spool     *export.Exporter // nil without sinks
	observers []*observability.Buffer
	next      atomic.Int64
}

// New returns a fanout to observers only, until Export adds sinks.
func New(o Options) *Fanout {
	f := &Fanout{o: o}
	for _, s := range o.Observers {
		f.observers = append(f.observers, observability.NewBuffer(s, &observability.BufferOptions{Logger: o.Logger}))
	}
	return f
}

// Export sets the node's name and the exporter x to its sinks, nil without any. It is called before
// Run.
func (f *Fanout) Export(node string, x *export.Exporter) { f.node, f.spool = node, x }

// Run starts delivery until ctx ends. It calls release when conversations may leave the pending-work
// journal because their events are shipped.
func (f *Fanout) Run(ctx context.Context, wg *sync.WaitGroup, release func()) {
	for _, o := range f.observers {
		wg.Go(func() { _ = o.Run(ctx) }) // Run returns nil.
	}
	x := f.spool
	if x == nil {
		return
	}
	wg.Go(func() {
		if err := x.Run(ctx); err != nil {
			f.o.Logger.Error("exporter ended", "err", err)
		}
	})
	wg.Go(func() {
		for {
			select {
			case <-x.Moved():
				release()
			case <-ctx.Done():
				return
			}
		}
	})
}

// ScanNow makes the exporter scan for journals of departed nodes now.
func (f *Fanout) ScanNow() {
	if f.spool != nil {
		f.spool.SweepSoon()
	}
}

// Status returns the progress of the sinks, nil without any, and the event counts of each observer by
// name.
func (f *Fanout) Status() (*export.Status, map[string]observability.BufferCounts) {
	var observers map[string]observability.BufferCounts
	for _, o := range f.observers {
		if observers == nil {
			observers = map[string]observability.BufferCounts{}
		}
		observers[o.Name()] = o.Counts()
	}
	if f.spool == nil {
		return nil, observers
	}
	return new(f.spool.Status()), observers
}

// ProjectOptions returns the content options for an agent's events.
func (f *Fanout) ProjectOptions(agent string) observability.ProjectOptions {
	return observability.ProjectOptions{Content: f.o.Content(agent)}
}

func (f *Fanout) off() bool { return f.spool == nil && len(f.observers) == 0 }

func (f *Fanout) wantsLive() bool { return !f.o.DurableOnly && !f.off() }

// emit assigns ids to live events and delivers them.
func (f *Fanout) emit(key conversation.Key, list ...observability.Event) {
	if !f.wantsLive() || len(list) == 0 {
		return
	}
	last := f.next.Add(int64(len(list)))
	for i := range list {
		n := last - int64(len(list)) + int64(i)
		list[i].Index = n
		list[i].ID = string(key) + "/" + f.node + "/" + strconv.FormatInt(n, 10)
	}
	if f.spool != nil {
		f.spool.Emit(list...)
	}
	f.observe(list)
}

func (f *Fanout) observe(list []observability.Event) {
	for _, o := range f.observers {
		o.Put(list...)
	}
}
