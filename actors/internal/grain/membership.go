package grain

import (
	"context"
	"net"
	"strconv"
)

// Member is one process of the cluster.
type Member struct {
	// ID is new for every process start. An ID that was missing from one view never comes back.
	ID string
	// Host and Port are where the member's node-to-node listener is reached.
	Host string
	Port int
	// Weight is the member's share of the identities, in proportion to the others' weights. One without
	// weight owns none.
	Weight int
	// Draining says that the member owns nothing any more and hands over what it runs.
	Draining bool
}

// Address is host:port; activations are placed by it.
func (m Member) Address() string { return net.JoinHostPort(m.Host, strconv.Itoa(m.Port)) }

func (m Member) owns() bool { return m.Weight > 0 && !m.Draining }

// Membership says who is a member. It is all that differs between one member and many.
//
// An implementation publishes complete views only, never a partial one because of a read error: what
// belonged to a member that is missing goes to others at once.
type Membership interface {
	// Join makes self a member and passes every view, from the first on, to publish. Start waits for
	// the first view that holds self's address. Publish does not block and may be called from any
	// goroutine, one call at a time. Join returns when self is registered; work that goes on
	// afterwards belongs to the Membership and ends in Leave. ctx bounds Join alone. Self has weight
	// 1; the Membership may publish another.
	Join(ctx context.Context, self Member, publish func(view []Member)) error

	// Leave withdraws self and returns when nothing that Join started runs any more. It is called
	// once, after every activation has stopped, and also when Join has failed.
	Leave(ctx context.Context) error
}

// Single is the Membership of a process that is alone: one view, itself.
type Single struct{}

// Join publishes the view of self alone.
func (Single) Join(_ context.Context, self Member, publish func(view []Member)) error {
	self.Weight = 1
	publish([]Member{self})
	return nil
}

// Leave has nobody to tell.
func (Single) Leave(context.Context) error { return nil }
