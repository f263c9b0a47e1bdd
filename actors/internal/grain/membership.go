package grain

import (
	"context"
	"strconv"

	"github.com/asynkron/protoactor-go/cluster"
)

// Member is one process of the cluster.
type Member struct {
	// ID is new for every process start. An ID that was missing from one view never comes back.
	ID string
	// Host and Port are where the member's node-to-node listener is reached.
	Host string
	Port int
}

// Address is host:port; activations are placed by it.
func (m Member) Address() string { return m.Host + ":" + strconv.Itoa(m.Port) }

// Membership says who is a member. It is all that differs between one member and many.
//
// An implementation publishes complete views only, never a partial one because of a read error:
// protoactor-go bars a member that is missing from a single view for as long as the process lives.
type Membership interface {
	// Join makes self a member and passes every view, from the first on, to publish. Start waits for
	// the first view that holds self. Publish does not block and may be called from any goroutine,
	// one call at a time. Join returns when self is registered; work that goes on afterwards belongs
	// to the Membership and ends in Leave. ctx bounds Join alone.
	Join(ctx context.Context, self Member, publish func(view []Member)) error

	// Leave withdraws self and returns when nothing that Join started runs any more. It is called
	// once, after every activation has stopped, and also when Join has failed.
	Leave(ctx context.Context) error
}

// Single is the Membership of a process that is alone: one view, itself.
type Single struct{}

// Join publishes the view of self alone.
func (Single) Join(_ context.Context, self Member, publish func(view []Member)) error {
	publish([]Member{self})
	return nil
}

// Leave has nobody to tell.
func (Single) Leave(context.Context) error { return nil }

// libraryMembers is view in the library's terms; all members run the same kinds.
func libraryMembers(view []Member, kind string) cluster.Members {
	ms := make(cluster.Members, 0, len(view))
	for _, m := range view {
		ms = append(ms, &cluster.Member{Id: m.ID, Host: m.Host, Port: int32(m.Port), Kinds: []string{kind}})
	}
	return ms
}
