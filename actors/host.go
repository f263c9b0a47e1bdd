package actors

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/parleyrun/parley/actors/internal/grain"
	"github.com/parleyrun/parley/actors/internal/relay"
)

// host finds the owner of a conversation, activates it if necessary and delivers messages to it. The
// cluster implements it; single-node simulations have their own.
type host interface {
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
	// Request returns the owner's reply. Its errors are those of package grain.
	Request(ctx context.Context, id string, m proto.Message) (proto.Message, error)
	// MemberID returns this node's incarnation, new at each process start.
	MemberID() string
}

// peers gives access to the other nodes. A host without it serves the bucket alone.
type peers interface {
	relay.Peers
	// Release returns once no other node runs the conversation. The error names the node that may
	// still run it.
	Release(ctx context.Context, id string) error
	// Reachable returns the incarnations of the other nodes that answer, and the number of other
	// nodes.
	Reachable() (reached []string, others int)
}

// certified is implemented by hosts that authenticate with certificates.
type certified interface {
	// Expiry returns when the certificates expire, false if there are none.
	Expiry() (grain.Expiry, bool)
}

var (
	_ peers     = (*grain.Cluster)(nil)
	_ certified = (*grain.Cluster)(nil)
)
