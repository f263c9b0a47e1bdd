package grain

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

// calls sends requests to actors and waits for their replies. It replaces the library's futures, which
// do not support contexts and race when two replies arrive at once.
//
// All calls share one process; the library passes it the request ID in a reply's PID. One process per
// call would make the library's registry allocate a table for nearly every name it has seen.
type calls struct {
	system *actor.ActorSystem
	name   string                    // name of the process
	isUp   func(address string) bool // reports whether address is in the current view
	closed chan struct{}             // closed when the cluster stops

	mu     sync.Mutex
	last   uint32                        // last request ID
	open   map[uint32]*call              // by request ID, never 0
	remote map[string]map[*call]struct{} // calls to other members, by address
}

var _ actor.Process = (*calls)(nil)

func newCalls(system *actor.ActorSystem, isUp func(address string) bool) *calls {
	c := &calls{
		system: system,
		// The member ID in the name keeps late replies to an earlier process at this address out.
		name:   system.ID + "calls",
		isUp:   isUp,
		closed: make(chan struct{}),
		open:   make(map[uint32]*call),
		remote: make(map[string]map[*call]struct{}),
	}
	system.ProcessRegistry.Add(c, c.name)
	return c
}

// call is one pending request. The first reply counts.
type call struct {
	reply chan any    // capacity 1
	sent  atomic.Bool // the endpoint has the message
}

func (c *call) answer(m any) {
	select {
	case c.reply <- m:
	default:
	}
}

// SendUserMessage implements actor.Process. It delivers a reply to its call if the call is still
// pending.
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

// begin registers a call and returns it with its reply PID. Request IDs wrap after 4 billion calls,
// long after any late reply.
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

// Answers put into the calls to an address that can send no reply.
type (
	memberLeft struct{} // the member has left the view
	linkEnded  struct{} // sent messages may be lost
	notSent    struct{} // no connection was made
)

// ask sends m to target and waits for the reply. After errDeadLetter, errNotSent or errNotMember the
// target has not seen m. After errMemberLeft, errLinkEnded, errStopped or ctx's error it may have.
func (c *calls) ask(ctx context.Context, target *actor.PID, m any) (any, error) {
	k, pid := c.begin()
	defer c.end(pid)
	if target.Address != c.system.Address() {
		c.track(target.Address, k)
		defer c.untrack(target.Address, k)
		// Check after track: a member that leaves after this check fails the tracked call.
		if !c.isUp(target.Address) {
			return nil, errNotMember
		}
	}
	c.system.Root.RequestWithCustomSender(target, m, pid)
	k.sent.Store(true)
	select {
	case r := <-k.reply:
		return result(r)
	case <-ctx.Done():
	case <-c.closed:
	}
	select {
	case r := <-k.reply:
		return result(r)
	default:
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return nil, errStopped
}

func result(reply any) (any, error) {
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

// notSent fails the calls to address whose messages are in an endpoint that has never connected. A
// call that is about to be sent may use the next endpoint; the end of this endpoint fails it.
func (c *calls) notSent(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := range c.remote[address] {
		if k.sent.Load() {
			k.answer(notSent{})
		}
	}
}
