package actors

import (
	"context"
	"fmt"
	"time"
)

// handOverPause is the pause between two looks at what is left to hand over, and
// handOverLooks after how many of them what is owed is poked again.
const (
	handOverPause = 20 * time.Millisecond
	handOverLooks = 25
)

// HandOver gives this node's conversations to the other members and returns when they
// have taken over whatever is owed, or when ctx or DrainTimeout ends. It goes on to
// serve requests, by asking the new owners. Call it before Run's context ends, with the
// server of the edge still open: then nobody has to wait for the others to notice. It
// does nothing for a node without others, which the next start recovers, and while
// another call is under way. What was not handed over in time is taken over as after a
// crash.
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
	for looks := 0; ; looks++ {
		active, _ := r.load()
		_, owed := r.sweeper.Journal.Size()
		if active == 0 && owed == 0 {
			return nil
		}
		if _, owners := r.nodes.members.others(); owners == 0 {
			r.opts.Logger.Info("nobody is left to hand over to; the next start carries on", "active", active, "owed", owed)
			return nil
		}
		if looks%handOverLooks == 0 { // What ends asks by itself; this is for pokes that went wrong.
			r.sweeper.ProbeSoon()
		}
		select {
		case <-time.After(handOverPause):
		case <-ctx.Done():
			r.edge.leaving.Store(false)
			return fmt.Errorf("hand over: %d conversations active and %d owed: %w", active, owed, context.Cause(ctx))
		}
	}
}
