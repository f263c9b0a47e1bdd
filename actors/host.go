package actors

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/parleyrun/parley/actors/internal/grain"
	"github.com/parleyrun/parley/actors/internal/relay"
)

// host finds the owner of a conversation, activates it if need be and brings it
// messages. It is the cluster; simulations of one node bring their own.
type host interface {
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
	// Request returns the owner's reply. Its errors are those of package grain.
	Request(ctx context.Context, id string, m proto.Message) (proto.Message, error)
	// MemberID is this node's incarnation, new at every start of the process.
	MemberID() string
}

// peers are the other nodes. A host that implements it is one of several; a host that
// does not is alone.
type peers interface {
	relay.Peers
	// Release returns once no other node runs the conversation. An error says which one
	// may still do.
	Release(ctx context.Context, id string) error
	// Reachable returns the other nodes that answer, by incarnation, and counts all others.
	Reachable() (reached []string, others int)
}

// certified are hosts that prove themselves to others by certificates.
type certified interface {
	// Expiry returns when the certificates end, false if there are none.
	Expiry() (grain.Expiry, bool)
}

var (
	_ peers     = (*grain.Cluster)(nil)
	_ certified = (*grain.Cluster)(nil)
)
