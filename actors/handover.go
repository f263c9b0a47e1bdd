package actors

import (
	"context"
	"fmt"
	"time"
)

// handOverPause is the interval between two checks for remaining work. After every handOverProbes of
// them, all pending work is probed again.
const (
	handOverPause  = 20 * time.Millisecond
	handOverProbes = 25
)

// HandOver moves this node's conversations to the other members. It returns when they have taken over
// all pending work, or when ctx or DrainTimeout ends. Until then the node forwards requests to the new
// owners. Call it before Run's context ends, while the edge's server is still open; then the other
// nodes need not detect a crash. Without other members it does nothing; the next start recovers the
// work. A second call during the first does nothing either. Conversations not handed over in time are
// recovered as after a crash.
func (r *Runtime) HandOver(ctx context.Context) error {
	if _, owners := r.nodes.members.others(); owners == 0 || r.nodes.peers == nil || !r.edge.serving.Load() || r.edge.leaving.Swap(true) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.opts.DrainTimeout)
	defer cancel()
	if err := r.nodes.members.table.Load().SetDraining(ctx, true); err != nil {
		r.edge.leaving.Store(false)
		return fmt.Errorf("hand over: %w", err)
	}
	r.opts.Logger.Info("handing over", "member", r.nodes.host.MemberID())
	for checks := 0; ; checks++ {
		active, _ := r.load()
		_, pending := r.sweeper.Journal.Size()
		if active == 0 && pending == 0 {
			return nil
		}
		if _, owners := r.nodes.members.others(); owners == 0 {
			r.opts.Logger.Info("handover stopped: no other owners", "active", active, "pending", pending)
			return nil
		}
		if checks%handOverProbes == 0 { // Ending activations probe the new owner themselves; this retries failed probes.
			r.sweeper.ProbeSoon()
		}
		select {
		case <-time.After(handOverPause):
		case <-ctx.Done():
			r.edge.leaving.Store(false)
			return fmt.Errorf("hand over: %d conversations active and %d pending: %w", active, pending, context.Cause(ctx))
		}
	}
}
