package clusterrun_test

import (
	"context"
	"math/rand/v2"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/noderun"
)

// reader follows a conversation by SSE over all nodes.
type reader struct {
	*noderun.Reader
	client *client
	rand   *rand.Rand // Of the goroutine that follows.
	id     string
}

func newReader(c *client, r *rand.Rand, id string, from conversation.Offset) *reader {
	return &reader{noderun.NewReader(c.http, from, nil), c, r, id}
}

// follow reads until ctx ends.
func (r *reader) follow(ctx context.Context) {
	for ctx.Err() == nil {
		n := r.client.any(r.rand)
		err := r.Stream(ctx, n.url(r.id))
		if ctx.Err() != nil {
			return
		}
		// The message that creates it may be less than a heartbeat old.
		young := noderun.Missing(err) && r.At() == conversation.Start
		if noderun.Broken(err) && !young {
			r.client.fail("reader of %s at %v: %v", r.id, n, err)
			return
		}
		if noderun.Pause(ctx, milliseconds(r.rand, 5, 100)) != nil {
			return
		}
	}
}
