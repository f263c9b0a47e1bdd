package work

import (
	"context"
	"sync"
	"time"

	"github.com/parleyrun/parley/memory"
)

const (
	// smallOutput is how many bytes an output may have without a turn to be encoded, and to be recorded whatever
	// memory the node has left.
	smallOutput = 256 << 10
	// unknownOutput is reserved for a tool that has not returned yet on this node, for at most unknownWait: a tool
	// that runs for longer than that returns no faster if the others wait.
	unknownOutput = 16 << 20
	unknownWait   = 2 * time.Second
	// encodeWait is for how long an output waits for its turn to be encoded.
	encodeWait = 30 * time.Second
	// maxTools bounds the tools whose outputs are estimated.
	maxTools = 4096
)

// toolOutputs bounds the memory that outputs of tools take between the return of a function and the record. It is
// safe for concurrent use.
type toolOutputs struct {
	account  *memory.Account
	encoding chan struct{} // has an element for each large output that is being encoded

	mu    sync.Mutex
	sizes map[toolName]int64 // estimates of what a function returns
}

// toolName names a tool on a node.
type toolName struct{ agent, tool string }

func newToolOutputs(account *memory.Account) *toolOutputs {
	return &toolOutputs{account: account, encoding: make(chan struct{}, memory.Turns()), sizes: map[toolName]int64{}}
}

// estimate returns about how many bytes a function of a tool returns, and whether any has returned yet.
func (o *toolOutputs) estimate(name toolName) (size int64, known bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	size, known = o.sizes[name]
	return size, known
}

// learn takes note of the size of an output. Estimates follow larger outputs at once, and smaller ones slowly.
func (o *toolOutputs) learn(name toolName, size int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.sizes) >= maxTools {
		clear(o.sizes)
	}
	o.sizes[name] = max(size, o.sizes[name]*7/8)
}

// costOf is what an output takes: the value that a function returned, and its JSON.
func costOf(size int64) int64 { return 2 * size }

// whole returns how long an output may be, in bytes, to be recorded as a whole if the response has so much room.
// A recorded output stays in memory with its conversation, so a node with little memory left stores more of them.
func (o *toolOutputs) whole(room int) int {
	if o.account.Ample() {
		return room
	}
	return min(room, smallOutput)
}

// outputRoom is what the output of one call holds of the memory of tool outputs.
type outputRoom struct {
	outputs *toolOutputs
	name    toolName

	mu   sync.Mutex
	held int64
	over bool
}

// reserve waits for room for what the function of a tool is going to return. A wait that takes as long as the
// function may run ends, and the function is called. The error is that of ctx.
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
		n = min(n, share) // alone it leaves the others theirs
	}
	within, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	switch err := o.account.Wait(within, n); {
	case err == nil:
		room.held = n
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case !known:
		o.learn(name, 0) // the next call does not wait for it
	}
	return room, nil
}

// returned counts an output that a function has returned, which the call holds from now on.
func (r *outputRoom) returned(size int64) {
	r.outputs.learn(r.name, size)
	r.set(costOf(size))
}

// encode waits until an output may be encoded; done ends that. Few are encoded at a time, so that the copies which
// that makes do not add up. The error is that of ctx.
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
	case <-patience.C: // an author's encoder may take any time
		return func() {}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// small reports whether what is held is not worth waiting until the machine has it.
func (r *outputRoom) small() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held <= costOf(smallOutput)
}

// set changes how many bytes are held.
func (r *outputRoom) set(bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return // the function returned after its call was over
	}
	r.outputs.account.Add(bytes - r.held)
	r.held = bytes
}

// release gives back what is held. It may be called again.
func (r *outputRoom) release() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outputs.account.Add(-r.held)
	r.held, r.over = 0, true
}
