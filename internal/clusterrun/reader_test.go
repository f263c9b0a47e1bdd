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
	rand   *rand.Rand // of the following goroutine
	id     string
}

func newReader(c *client, r *rand.Rand, id string, from conversation.Offset) *reader {
	return &reader{noderun.NewReader(c.Client, from, nil), c, r, id}
}

func (r *reader) follow(ctx context.Context) {
	if err := r.Follow(ctx, r.rand, func() string { return r.client.any(r.rand).url(r.id) }); err != nil {
		r.client.Fail("reader of %s: %v", r.id, err)
	}
}
