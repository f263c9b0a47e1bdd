package grain

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

// calls asks actors and waits for their replies. It stands in for the library's futures, which know
// no context and write their result without a lock when two answers meet.
//
// All calls are one process, which the library passes the request ID of a reply's PID: a process for
// each would cost the library's registry a table of its own for nearly every name it has ever seen.
type calls struct {
	system *actor.ActorSystem
	name   string                    // of the process
	isUp   func(address string) bool // whether address is in the current view
	closed chan struct{}             // closed when the cluster goes down

	mu     sync.Mutex
	last   uint32                        // request ID
	open   map[uint32]*call              // by request ID, never 0
	remote map[string]map[*call]struct{} // calls to other members, by address
}

var _ actor.Process = (*calls)(nil)

func newCalls(system *actor.ActorSystem, isUp func(address string) bool) *calls {
	c := &calls{
		system: system,
		// The member's ID keeps a late reply to an earlier process at this address from being taken for ours.
		name:   system.ID + "calls",
		isUp:   isUp,
		closed: make(chan struct{}),
		open:   make(map[uint32]*call),
		remote: make(map[string]map[*call]struct{}),
	}
	system.ProcessRegistry.Add(c, c.name)
	return c
}

// call is one question. The first reply counts.
type call struct {
	reply chan any    // capacity 1
	away  atomic.Bool // the message is in the endpoint that it was meant for
}

func (c *call) answer(m any) {
	select {
	case c.reply <- m:
	default:
	}
}

// SendUserMessage implements actor.Process: it brings a reply to its call, if that still waits.
func (c *calls) SendUserMessage(to *actor.PID, message any) {
	_, m, _ := actor.UnwrapEnvelope(message)
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.open[to.GetRequestId()]; k != nil {
		k.answer(m)
	}
}

// SendSystemMessage implements actor.Process.
func (c *calls) SendSystemMessage(*actor.PID, any) {}

// Stop implements actor.Process.
func (c *calls) Stop(*actor.PID) {}

// begin makes a call and the PID that its reply is addressed to. An ID comes back after 4 billion
// calls, when nobody can have kept a reply for so long.
func (c *calls) begin() (*call, *actor.PID) {
	k := &call{reply: make(chan any, 1)}
	pid := actor.NewPID(c.system.Address(), c.name)
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.last++; c.last == 0 || c.open[c.last] != nil; {
		c.last++
	}
	c.open[c.last] = k
	pid.RequestId = c.last
	return k, pid
}

func (c *calls) end(pid *actor.PID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, pid.RequestId)
}

// What is put into the calls to an address when no answer can be expected from there.
type (
	memberLeft struct{} // the member has left the view
	linkEnded  struct{} // what was sent may have been lost
	notSent    struct{} // no connection was made
)

// ask sends m to target and waits. It returns errDeadLetter, errNotSent or errNotMember when the target
// certainly did not see m; with errMemberLeft, errLinkEnded, errStopped and ctx's error that is unknown.
func (c *calls) ask(ctx context.Context, target *actor.PID, m any) (any, error) {
	k, pid := c.begin()
	defer c.end(pid)
	if target.Address != c.system.Address() {
		c.track(target.Address, k)
		defer c.untrack(target.Address, k)
		// The order matters: a member that leaves after this check finds the call and fails it.
		if !c.isUp(target.Address) {
			return nil, errNotMember
		}
	}
	c.system.Root.RequestWithCustomSender(target, m, pid)
	k.away.Store(true)
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
	case linkEnded:
		return nil, errLinkEnded
	case notSent:
		return nil, errNotSent
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

// answerAll puts m into every call to the member at address.
func (c *calls) answerAll(address string, m any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := range c.remote[address] {
		k.answer(m)
	}
}

// notSent ends the calls to address whose messages are in an endpoint that has never connected. One that
// is only about to be sent may still find the next endpoint: it is left to the end of this one.
func (c *calls) notSent(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := range c.remote[address] {
		if k.away.Load() {
			k.answer(notSent{})
		}
	}
}
