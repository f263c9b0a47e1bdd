package work

import (
	"context"
	"sync"
	"time"

	"github.com/parleyrun/parley/memory"
)

const (
	// smallOutput is the size, in bytes, up to which an output is encoded without a turn. It is then
	// recorded whole even if memory is low.
	smallOutput = 256 << 10
	// unknownOutput is the memory, in bytes, that is reserved for a tool that has not returned yet on this node, for at most
	// unknownWait. A slower tool does not return faster if others wait.
	unknownOutput = 16 << 20
	unknownWait   = 2 * time.Second
	// encodeWait is the longest wait of an output for its turn to be encoded.
	encodeWait = 30 * time.Second
	// maxTools bounds the tools with an estimate.
	maxTools = 4096
)

// toolOutputs bounds the memory of tool outputs between the return of a function and the record. It is
// safe for concurrent use.
type toolOutputs struct {
	account  *memory.Account
	encoding chan struct{} // holds an element for each large output being encoded

	mu    sync.Mutex
	sizes map[toolName]int64 // estimated output sizes
}

type toolName struct{ agent, tool string }

func newToolOutputs(account *memory.Account) *toolOutputs {
	return &toolOutputs{account: account, encoding: make(chan struct{}, memory.Turns()), sizes: map[toolName]int64{}}
}

// estimate returns the expected output size of a tool in bytes, and whether it has returned before.
func (o *toolOutputs) estimate(name toolName) (size int64, known bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	size, known = o.sizes[name]
	return size, known
}

// learn records the size of an output. Estimates grow at once and shrink slowly.
func (o *toolOutputs) learn(name toolName, size int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.sizes) >= maxTools {
		clear(o.sizes)
	}
	o.sizes[name] = max(size, o.sizes[name]*7/8)
}

// costOf returns the memory of an output: the returned value and its JSON.
func costOf(size int64) int64 { return 2 * size }

// whole returns the maximum size, in bytes, of an output that is recorded whole, within the room of
// its response. A recorded output stays in memory with its conversation, so a node with little free
// memory stores more outputs.
func (o *toolOutputs) whole(room int) int {
	if o.account.Ample() {
		return room
	}
	return min(room, smallOutput)
}

// outputRoom is the memory reserved for the output of one call.
type outputRoom struct {
	outputs *toolOutputs
	name    toolName

	mu   sync.Mutex
	held int64
	over bool
}

// reserve waits for memory for the output of a tool. The wait ends after the tool's time limit, and
// the function is then called anyway. The error is that of ctx.
func (o *toolOutputs) reserve(ctx context.Context, name toolName, most time.Duration) (*outputRoom, error) {
	room := &outputRoom{outputs: o, name: name}
	if !waitsForRoom() {
		return room, ctx.Err()
	}
	size, known := o.estimate(name)
	if !known {
		size, most = unknownOutput, min(most, unknownWait)
	}
	n := costOf(size)
	if share := o.account.Share(); share > 0 {
		n = min(n, share) // leave room for others
	}
	within, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	switch err := o.account.Wait(within, n); {
	case err == nil:
		room.held = n
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case !known:
		o.learn(name, 0) // so that the next call does not wait
	}
	return room, nil
}

// returned accounts for an output that a function has returned.
func (r *outputRoom) returned(size int64) {
	r.outputs.learn(r.name, size)
	r.set(costOf(size))
}

// encode waits for the turn to encode an output; done ends the turn. Concurrency is limited because
// encoding copies the output. The error is that of ctx.
func (r *outputRoom) encode(ctx context.Context, size int64) (done func(), err error) {
	r.returned(size)
	if size <= smallOutput {
		return func() {}, ctx.Err()
	}
	patience := time.NewTimer(encodeWait)
	defer patience.Stop()
	select {
	case r.outputs.encoding <- struct{}{}:
		return func() { <-r.outputs.encoding }, nil
	case <-patience.C: // an author's encoder may be slow
		return func() {}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// small reports whether the output is too small to be held until the machine has it.
func (r *outputRoom) small() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held <= costOf(smallOutput)
}

func (r *outputRoom) set(bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return // returned after the end of its call
	}
	r.outputs.account.Add(bytes - r.held)
	r.held = bytes
}

// release frees the held memory. It may be called more than once.
func (r *outputRoom) release() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outputs.account.Add(-r.held)
	r.held, r.over = 0, true
}
