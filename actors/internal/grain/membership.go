package grain

import (
	"context"
	"net"
	"strconv"
)

// Member is one process of the cluster.
type Member struct {
	// ID is new for every process start. An ID that was missing from one view never returns.
	ID string
	// Host and Port are the address of the member's node-to-node listener.
	Host string
	Port int
	// Weight determines the member's share of the identities, relative to the other weights. A member
	// with weight 0 owns none.
	Weight int
	// Draining marks a member that owns no identities any more and hands over its activations.
	Draining bool
}

// Address returns host:port. Placement hashes it.
func (m Member) Address() string { return net.JoinHostPort(m.Host, strconv.Itoa(m.Port)) }

func (m Member) owns() bool { return m.Weight > 0 && !m.Draining }

// Membership determines the members. It is the only difference between one member and many.
//
// An implementation publishes complete views only. It must not publish a partial view after a read
// error, because the identities of a missing member move immediately.
type Membership interface {
	// Join registers self and passes every view, from the first on, to publish. It returns when self
	// is registered. Start waits for the first view that contains self's address. publish does not
	// block and may be called from any goroutine, one call at a time. Background work belongs to the
	// Membership and ends in Leave. ctx bounds Join only. Self has weight 1; the Membership may
	// publish another.
	Join(ctx context.Context, self Member, publish func(view []Member)) error

	// Leave deregisters self and returns when all work started by Join has ended. It is called once,
	// after every activation has stopped, and also if Join has failed.
	Leave(ctx context.Context) error
}

// Single is the Membership of a single process. Its view contains only that process.
type Single struct{}

// Join publishes a view that contains only self.
func (Single) Join(_ context.Context, self Member, publish func(view []Member)) error {
	self.Weight = 1
	publish([]Member{self})
	return nil
}

// Leave does nothing.
func (Single) Leave(context.Context) error { return nil }
