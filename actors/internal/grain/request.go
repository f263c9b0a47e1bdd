package grain

import (
	"context"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
)

// Backoff between attempts of one request, doubled from the first to the last value.
const (
	minBackoff = 5 * time.Millisecond
	maxBackoff = 200 * time.Millisecond
)

// reasonPanicked marks the reply of an actor that panicked. It is sent in a message of the library,
// because both ends of a call know those.
const reasonPanicked = "panicked"

// requester locates the activation of an identity and delivers a message to it. It also implements the
// library's cluster.Context, so that library code uses the same path.
type requester struct {
	kind   string
	lib    *cluster.Cluster
	lookup *lookup
	calls  *calls
	cache  *pidCache
	wait   time.Duration // time to look for an owner
}

var _ cluster.Context = (*requester)(nil)

// request repeats m until an activation accepts it, the wait expires or ctx ends; see Cluster.Request.
func (r *requester) request(ctx context.Context, id string, m any) (any, error) {
	lookupCtx, cancel := context.WithTimeoutCause(ctx, r.wait, errOwnerWait)
	defer cancel()
	last := errNoMember
	for backoff := minBackoff; ; backoff = min(2*backoff, maxBackoff) {
		if lookupCtx.Err() != nil {
			return nil, fmt.Errorf("%w: %w: %w", ErrNoOwner, context.Cause(lookupCtx), last)
		}
		pid, err := r.locate(lookupCtx, id)
		if err == nil {
			var reply any
			if reply, err = r.calls.ask(ctx, pid, m); err == nil {
				return checkReply(reply)
			}
			r.cache.remove(id, pid)
			if !unseen(err) {
				return nil, fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
			}
		}
		last = err
		if err := r.pause(lookupCtx, backoff); err != nil {
			return nil, fmt.Errorf("%w: %w: %w", ErrNoOwner, err, last)
		}
	}
}

// locate returns the activation's PID from the cache or from the owner, which activates if necessary.
func (r *requester) locate(ctx context.Context, id string) (*actor.PID, error) {
	if pid, ok := r.cache.get(id); ok {
		return pid, nil
	}
	pid, err := r.lookup.activate(ctx, cluster.NewClusterIdentity(id, r.kind))
	if err != nil {
		return nil, err
	}
	r.cache.put(id, pid)
	return pid, nil
}

func (r *requester) pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-r.calls.closed:
		return errStopped
	}
}

func checkReply(reply any) (any, error) {
	if e, ok := reply.(*cluster.GrainErrorResponse); ok && e.GetReason() == reasonPanicked {
		return nil, ErrPanicked
	}
	return reply, nil
}

// Request implements cluster.Context. Of the options only the timeout is used. The retry policy is not
// configurable by the caller.
func (r *requester) Request(id, kind string, m any, opts ...cluster.GrainCallOption) (any, error) {
	if kind != r.kind {
		return nil, fmt.Errorf("request %q: kind %q is not served", id, kind)
	}
	cfg := callConfig(r.lib, opts)
	ctx, cancel := context.WithTimeout(context.Background(), cfg.Timeout)
	defer cancel()
	reply, err := r.request(ctx, id, m)
	if err != nil {
		return nil, fmt.Errorf("request %q: %w", id, err)
	}
	return reply, nil
}

// RequestFuture implements cluster.Context. It makes one delivery attempt. The future ends with
// actor.ErrDeadLetter if the activation was stopping.
func (r *requester) RequestFuture(id, kind string, m any, opts ...cluster.GrainCallOption) (actor.Future, error) {
	if kind != r.kind {
		return nil, fmt.Errorf("request %q: kind %q is not served", id, kind)
	}
	cfg := callConfig(r.lib, opts)
	ctx, cancel := context.WithTimeout(context.Background(), cfg.Timeout)
	defer cancel()
	pid, err := r.locate(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("request %q: %w: %w", id, ErrNoOwner, err)
	}
	return cfg.Context.RequestFuture(pid, m, cfg.Timeout), nil
}

func callConfig(lib *cluster.Cluster, opts []cluster.GrainCallOption) *cluster.GrainCallConfig {
	cfg := cluster.NewGrainCallOptions(lib)
	for _, o := range opts {
		o(cfg)
	}
	return cfg
}
