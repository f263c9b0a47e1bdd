package work

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/parleyrun/parley/actors/internal/events"
	"github.com/parleyrun/parley/actors/internal/history"
	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/actors/internal/prompt"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/memory"
	"github.com/parleyrun/parley/outbox"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage"
)

// maxViewBytes bounds the text of a model's view, in bytes. It is several times the largest context
// windows; a longer view is refused without a call.
const maxViewBytes = 16 << 20

// NodeOptions configures a Node. All fields are required.
type NodeOptions struct {
	Agents         map[string]*agent.Agent
	Providers      *providers.Registry
	Logger         *slog.Logger
	VendorMessages bool // as in actors.Options
	Bucket         storage.Bucket
	History        *history.Store
	Prompt         *prompt.Renderer
	// Calls accounts for the text of requests under way.
	Calls *memory.Account
	// Outputs accounts for tool outputs that are not recorded yet.
	Outputs *memory.Account
	// FirstEvent, BetweenEvents and WholeCall limit a model call, HookTimeout a hook, and StoreTimeout
	// the storing of an image or of a piece of an output. RetryPause precedes the retry of a summary
	// after a transient failure.
	FirstEvent, BetweenEvents, WholeCall, HookTimeout, StoreTimeout, RetryPause time.Duration
	// DispatchesAtOnce bounds concurrent admissions of messages from tools and hooks.
	DispatchesAtOnce int
	// Admit admits a message of a tool or hook to its conversation.
	Admit func(context.Context, conversation.Admission) (conversation.Receipt, error)
	// AskTree asks the root of a dispatch tree.
	AskTree func(ctx context.Context, root conversation.Address, q machine.Tree) (machine.TreeStatus, error)
	// Pending reports whether a submission of any conversation is unsettled, and its sender.
	Pending func(context.Context, conversation.Sender) (by *conversation.Sender, pending bool, err error)
	// RunResult returns the result of a completed run.
	RunResult func(context.Context, conversation.RunID) (json.RawMessage, error)
	// Outbox routes posts to their targets.
	Outbox *outbox.Routes
	// Spawn runs a function in a goroutine of the node, unless the node is shutting down.
	Spawn func(func())
	// BaseContext is the context of detached work, such as settlement hooks.
	BaseContext context.Context
}

// Node holds the state that the runners of a node share. Use NewNode.
type Node struct {
	// ViewBytes bounds the text of a model's view, in bytes. It is set before use.
	ViewBytes int
	// PartBytes bounds the recorded part of a stored output: the part for people, and once more for
	// models. It is set before use.
	PartBytes int

	o          NodeOptions
	gate       *gate
	health     health
	oddities   oddities
	storing    chan struct{} // holds an element for each output being stored
	outputs    *toolOutputs
	deliveries deliveries
	live       map[string]outbox.Live // targets that accept drafts
}

// NewNode returns a node without work.
func NewNode(o NodeOptions) *Node {
	return &Node{ViewBytes: maxViewBytes, PartBytes: partBytes, o: o, gate: newGate(o.DispatchesAtOnce), storing: make(chan struct{}, storesAtOnce), outputs: newToolOutputs(o.Outputs), deliveries: newDeliveries(), live: liveTargets(o.Outbox)}
}

// Dispatches returns the numbers of queued and of refused messages of tools and hooks.
func (n *Node) Dispatches() (waiting, refused int64) { return n.gate.counts() }

// SummaryTime bounds a compaction, which calls its model at most twice.
func (n *Node) SummaryTime() time.Duration { return 2*n.o.WholeCall + time.Minute }

// Options configures a Runner. All fields are required. The functions may be called from any goroutine
// and do not block.
type Options struct {
	Key     conversation.Key
	Logger  *slog.Logger
	Archive *history.Archive
	Tap     *events.Tap
	// BaseContext is the context of the activation.
	BaseContext context.Context
	// Now is the clock for waits.
	Now func() time.Time
	// Emit sends an input to the machine.
	Emit func(machine.Input)
	// Ready requests a call of [Runner.Take] for a model call, on the actor's goroutine.
	Ready func(gen int)
	// Run runs a function on the actor's goroutine.
	Run func(func())
	// Ask sends a question to the machine and calls done with its answer.
	Ask func(q machine.Question, done func(machine.Answer))
}

// Runner performs the effects of one activation. Its methods belong to the actor's goroutine. The work
// that they start runs outside and uses only copied state.
type Runner struct {
	node    *Node
	o       Options
	works   map[int]*work // by gen; nil while nothing runs
	author  *authorState  // author state for the newest work
	sender  *sender       // sender of the newest work
	starved bool          // a feed has events that the machine had no room for
	drafts  drafts

	mu        sync.Mutex
	summaries map[int]context.CancelFunc // under way, by gen
}

// Runner returns the runner of an activation.
func (n *Node) Runner(o Options) *Runner {
	return &Runner{node: n, o: o, summaries: map[int]context.CancelFunc{}}
}

func (r *Runner) spawn(work func()) { r.node.o.Spawn(work) }

// work is the running work of one gen of the machine: a model call and its tools, or a hook.
type work struct {
	submission conversation.SubmissionID
	ctx        context.Context
	cancel     context.CancelFunc
	feed       *feed
	author     *author
	call       *modelCall // nil unless it is a model call
}

// begin returns the work gen of a submission. New work cancels the submission's previous work and
// inherits its author.
func (r *Runner) begin(gen int, v *view) *work {
	if w := r.works[gen]; w != nil {
		return w
	}
	w := &work{submission: v.id, feed: &feed{ready: func() { r.o.Ready(gen) }}}
	for old, before := range r.works {
		if before.submission == v.id {
			w.author = before.author
			r.end(old)
		}
	}
	if w.author == nil {
		w.author = r.authorOf(v)
	}
	w.ctx, w.cancel = context.WithCancel(r.o.BaseContext)
	if r.works == nil {
		r.works = map[int]*work{}
	}
	r.works[gen] = w
	return w
}

func (r *Runner) end(gen int) {
	if w := r.works[gen]; w != nil {
		w.cancel()
		delete(r.works, gen)
	}
	r.endSummary(gen)
}

func (r *Runner) endSummary(gen int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if end := r.summaries[gen]; end != nil {
		end()
		delete(r.summaries, gen)
	}
}

// Take returns the queued events of the model call gen. If the machine is full it returns none, and
// [Runner.Starved] reports the call later.
func (r *Runner) Take(gen int, full bool) (in machine.Model, ok bool) {
	w := r.works[gen]
	if w == nil {
		return in, false
	}
	if full {
		r.starved = true
		return in, false
	}
	in = w.feed.take()
	in.Gen = gen
	return in, true
}

// Starved returns the calls whose events may have waited for room in the machine.
func (r *Runner) Starved() []int {
	if !r.starved {
		return nil
	}
	r.starved = false
	return slices.Sorted(maps.Keys(r.works))
}

// live returns the event emitter for the work on a submission, which may be a subagent's.
func (r *Runner) live(v *view, turn conversation.TurnID) *events.Live {
	return r.o.Tap.Live(v.place(turn))
}
