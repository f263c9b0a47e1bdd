package actors

import (
	"context"

	"google.golang.org/protobuf/proto"
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
