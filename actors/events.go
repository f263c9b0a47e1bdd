package actors

import (
	"fmt"
	"slices"

	"github.com/parleyrun/parley/actors/internal/export"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
)

// checkSinks validates sinks and observers. Their names must be unique because logs and metrics use
// them.
func (o *Options) checkSinks() error {
	names := map[string]bool{}
	for i, s := range slices.Concat(o.Events.Sinks, o.Events.Observers) {
		if s == nil {
			return fmt.Errorf("sink or observer %d is nil", i)
		}
		name, err := observability.NameOf(s)
		if err != nil {
			return fmt.Errorf("sink or observer %d, %T: %w", i, s, err)
		}
		if name == "" || names[name] {
			return fmt.Errorf("two sinks or observers are named %q, or one has no name", name)
		}
		names[name] = true
	}
	return nil
}

// export creates the exporter of this node, if there are sinks.
func (r *Runtime) export() error {
	o := &r.opts.Events
	if len(o.Sinks) == 0 {
		r.events.Export(r.nodes.host.MemberID(), nil)
		return nil
	}
	x, err := export.New(r.logs, r.bucket, &export.Options{
		FlushRows: o.GroupEvents, FlushBytes: o.GroupBytes, FlushEvery: o.GroupEvery,
		Memory: r.accounts.events, Logger: r.opts.Logger, Member: r.nodes.host.MemberID(), Sinks: o.Sinks, SweepEvery: r.opts.SweepEvery, Live: r.nodes.incarnations,
		Skip: func(key conversation.Key) bool {
			return r.sweeper.Quarantine.Refused(key) != nil || r.sweeper.Quarantine.Suspects(key)
		},
		Reading: r.sweeper.AnnounceReading,
		Project: func(src observability.Source, b conversation.Batch) []observability.Event {
			opts := r.events.ProjectOptions(src.Agent)
			return observability.Project(src, b, &opts)
		},
	})
	if err != nil {
		return err
	}
	r.events.Export(r.nodes.host.MemberID(), x)
	r.sweeper.Journal.HoldUntil(x.MayLeave)
	return nil
}
