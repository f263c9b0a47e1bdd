// Package events hands what happens on a node to sinks and observers, at once. Package actors
// has one [Fanout] for a node and a [Tap] for each conversation in memory, package work a
// [Live] for each piece of work.
//
// What leaves durably is shipped by package export, which is offered each batch. Nothing here
// waits for anybody, and nothing here is missed after a crash: durable events are found by the
// exporter, live ones are told if they can be.
//
// All types are safe for concurrent use, but a Tap, which belongs to its activation.
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

// Options are what a Fanout works with.
type Options struct {
	Observers []observability.Sink
	Logger    *slog.Logger // Required.
	// DurableOnly leaves live events alone.
	DurableOnly bool
	// Prompts shows what models are sent, whatever Content reports.
	Prompts bool
	// Addresses are those that this node knows. Required.
	Addresses *Addresses
	// Content reports whether events of an agent show what people and models say. Required.
	Content func(agent string) bool
}

// Fanout hands events of a node to its sinks and observers. Use New.
type Fanout struct {
	o         Options
	node      string           // in the ids of live events
	spool     *export.Exporter // nil without sinks
	observers []*observability.Buffer
	next      atomic.Int64
}

// New returns a fanout to observers alone, of a node that Export names.
func New(o Options) *Fanout {
	f := &Fanout{o: o}
	for _, s := range o.Observers {
		f.observers = append(f.observers, observability.NewBuffer(s, &observability.BufferOptions{Logger: o.Logger}))
	}
	return f
}

// Export names the node and adds its sinks, which x ships to; nil without any. It is called
// before Run.
func (f *Fanout) Export(node string, x *export.Exporter) { f.node, f.spool = node, x }

// Run starts what events go through, until ctx ends. Release is called when conversations
// may leave the pending-work journal whose events were behind.
func (f *Fanout) Run(ctx context.Context, wg *sync.WaitGroup, release func()) {
	for _, o := range f.observers {
		wg.Go(func() { _ = o.Run(ctx) }) // It returns nil.
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

// Nudge has the exporter look at once for journals of nodes that are gone.
func (f *Fanout) Nudge() {
	if f.spool != nil {
		f.spool.SweepSoon()
	}
}

// Status says how far the sinks are, nil without any, and what became of the events of each
// observer, by its name.
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

// ProjectOptions are those of an agent's events.
func (f *Fanout) ProjectOptions(agent string) observability.ProjectOptions {
	return observability.ProjectOptions{Content: f.o.Content(agent)}
}

// off reports whether nobody wants to know anything.
func (f *Fanout) off() bool { return f.spool == nil && len(f.observers) == 0 }

// wantsLive reports whether somebody wants live events.
func (f *Fanout) wantsLive() bool { return !f.o.DurableOnly && !f.off() }

// emit gives live events their identities and hands them over.
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
