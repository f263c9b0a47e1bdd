package analyst

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/stats"
	"github.com/parleyrun/parley/storage"
)

// replay derives the durable events of a bucket again. Its memory is bounded by the events that its
// readers have collected and one more group.
type replay struct {
	bucket   storage.Bucket // retries reads
	logs     *storage.Logs
	sink     observability.Sink // nil counts only
	agent    string
	filter   stats.Filter
	contents map[string]bool // agents whose events include content
	errOut   io.Writer
	quiet    bool

	conversations, stored atomic.Int64
	mu                    sync.Mutex
	corrupt               []string
}

// conversation derives the events of a log. A corrupt log is recorded and is not an error.
func (r *replay) conversation(ctx context.Context, key conversation.Key, groups chan<- []observability.Event) error {
	c := &collector{groups: groups, size: replayBytes / replayReaders}
	src := observability.Source{Key: key}
	for batch, err := range r.logs.Batches(ctx, key, storage.Start()) {
		if err != nil {
			return r.unreadable(ctx, key, err, c)
		}
		records, err := conversation.DecodeRecords(batch.Lines)
		if err != nil {
			return r.unreadable(ctx, key, &storage.CorruptError{Conv: key, Seq: batch.Seq, Err: err}, c)
		}
		b := conversation.Batch{Offset: conversation.Offset(batch.Seq), Records: records}
		next := src.After(b)
		if r.agent != "" && next.Agent != "" && next.Agent != r.agent {
			return nil // All incarnations of a conversation have the same agent.
		}
		if batch.Seq == 0 || src.Agent == "" && next.Agent != "" {
			r.conversations.Add(1)
		}
		events := observability.Project(src, b, &observability.ProjectOptions{Content: r.contents[next.Agent]})
		for i := range events {
			if r.filter.Includes(&events[i].Envelope) {
				if err := c.add(ctx, events[i]); err != nil {
					return err
				}
			}
		}
		src = next
	}
	return c.flush(ctx)
}

// unreadable records a corrupt log and keeps the events read so far.
func (r *replay) unreadable(ctx context.Context, key conversation.Key, err error, c *collector) error {
	if !storage.IsCorrupt(err) {
		return fmt.Errorf("read conversation %s: %w", key, err)
	}
	r.mu.Lock()
	r.corrupt = append(r.corrupt, fmt.Sprintf("%s: %v", key, err))
	r.mu.Unlock()
	return c.flush(ctx)
}

// collector groups the events of a log.
type collector struct {
	groups chan<- []observability.Event
	size   int // size of a group, in bytes
	events []observability.Event
	bytes  int
}

func (c *collector) add(ctx context.Context, e observability.Event) error {
	c.events = append(c.events, e)
	c.bytes += observability.Size(e)
	if len(c.events) < replayGroup/replayReaders && c.bytes < c.size {
		return nil
	}
	return c.flush(ctx)
}

func (c *collector) flush(ctx context.Context) error {
	if len(c.events) == 0 {
		return nil
	}
	select {
	case c.groups <- c.events:
		c.events, c.bytes = nil, 0
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// store writes the collected events, several groups at once.
func (r *replay) store(ctx context.Context, groups <-chan []observability.Event) error {
	tick := time.NewTicker(replayProgress)
	defer tick.Stop()
	var waiting []observability.Event
	bytes := 0
	for {
		select {
		case group, ok := <-groups:
			if !ok {
				return r.write(ctx, waiting)
			}
			for _, e := range group {
				bytes += observability.Size(e)
			}
			waiting = append(waiting, group...)
			if len(waiting) < replayGroup && bytes < replayBytes {
				continue
			}
			if err := r.write(ctx, waiting); err != nil {
				return err
			}
			waiting, bytes = nil, 0
		case <-tick.C:
			r.printf("%s of %s\n", cli.Count(r.stored.Load(), "event"), cli.Count(r.conversations.Load(), "conversation"))
		}
	}
}

func (r *replay) write(ctx context.Context, events []observability.Event) error {
	if len(events) == 0 {
		return context.Cause(ctx)
	}
	if r.sink != nil {
		if err := r.sink.Write(ctx, events); err != nil {
			return err
		}
	}
	r.stored.Add(int64(len(events)))
	return nil
}
