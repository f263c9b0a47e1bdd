package grain

import (
	"context"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// calls asks actors and waits for their replies. It stands in for the library's futures, which know
// no context and write their result without a lock when two answers meet.
type calls struct {
	system *actor.ActorSystem
	isUp   func(address string) bool // whether address is in the current view
	closed chan struct{}             // closed when the cluster goes down

	mu     sync.Mutex
	remote map[string]map[*call]struct{} // calls to other members, by address
}

func newCalls(system *actor.ActorSystem, isUp func(address string) bool) *calls {
	return &calls{
		system: system,
		isUp:   isUp,
		closed: make(chan struct{}),
		remote: make(map[string]map[*call]struct{}),
	}
}

// call is the process that one question's reply is addressed to. The first reply counts.
type call struct {
	reply chan any // capacity 1
}

var _ actor.Process = (*call)(nil)

func (c *call) SendUserMessage(_ *actor.PID, message any) {
	_, m, _ := actor.UnwrapEnvelope(message)
	select {
	case c.reply <- m:
	default:
	}
}

func (c *call) SendSystemMessage(*actor.PID, any) {}

func (c *call) Stop(*actor.PID) {}

// memberLeft is put into a call when its target's member has left the view.
type memberLeft struct{}

// ask sends m to target and waits. It returns errDeadLetter or errNotMember when the target certainly
// did not see m; with errMemberLeft, errStopped and ctx's error that is unknown.
func (c *calls) ask(ctx context.Context, target *actor.PID, m any) (any, error) {
	k := &call{reply: make(chan any, 1)}
	// The member's ID keeps a late reply to an earlier process at this address from being taken for ours.
	pid, _ := c.system.ProcessRegistry.Add(k, c.system.ID+c.system.ProcessRegistry.NextID())
	defer c.system.ProcessRegistry.Remove(pid)
	if target.Address != c.system.Address() {
		c.track(target.Address, k)
		defer c.untrack(target.Address, k)
		// The order matters: a member that leaves after this check finds the call and fails it.
		if !c.isUp(target.Address) {
			return nil, errNotMember
		}
	}
	c.system.Root.RequestWithCustomSender(target, m, pid)
	select {
	case r := <-k.reply:
		return verdict(r)
	case <-ctx.Done():
	case <-c.closed:
	}
	select {
	case r := <-k.reply:
		return verdict(r)
	default:
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return nil, errStopped
}

func verdict(reply any) (any, error) {
	switch reply.(type) {
	case *actor.DeadLetterResponse:
		return nil, errDeadLetter
	case memberLeft:
		return nil, errMemberLeft
	}
	return reply, nil
}

func (c *calls) track(address string, k *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.remote[address] == nil {
		c.remote[address] = make(map[*call]struct{})
	}
	c.remote[address][k] = struct{}{}
}

func (c *calls) untrack(address string, k *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.remote[address], k)
	if len(c.remote[address]) == 0 {
		delete(c.remote, address)
	}
}

// left ends every call to the member at address; nothing will answer it in time.
func (c *calls) left(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := range c.remote[address] {
		k.SendUserMessage(nil, memberLeft{})
	}
}
