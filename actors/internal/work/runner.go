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

// maxViewBytes bounds what a model is shown of a conversation, in bytes of text: several
// times what the largest context windows hold. Beyond it nobody is asked.
const maxViewBytes = 16 << 20

// NodeOptions are what the work of a node is done with. All are required.
type NodeOptions struct {
	Agents      map[string]*agent.Agent
	Providers   *providers.Registry
	Logger      *slog.Logger
	VendorWords bool // as in actors.Options
	Bucket      storage.Bucket
	History     *history.Store
	Prompt      *prompt.Renderer
	// Calls counts what models are being shown.
	Calls *memory.Account
	// Outputs counts what tools have returned that is not recorded yet.
	Outputs *memory.Account
	// FirstEvent, BetweenEvents and WholeCall bound a model call, HookTimeout a hook, and
	// StoreTimeout the storing of an image, or of a
	// piece of an output. RetryPause is that of a summary that failed for a
	// passing reason.
	FirstEvent, BetweenEvents, WholeCall, HookTimeout, StoreTimeout, RetryPause time.Duration
	// DispatchesAtOnce bounds the messages of tools and hooks that are admitted at once.
	DispatchesAtOnce int
	// Admit brings what they send to its conversation.
	Admit func(context.Context, conversation.Admission) (conversation.Receipt, error)
	// AskTree asks the conversation that began a tree of dispatches about it.
	AskTree func(ctx context.Context, root conversation.Address, q machine.Tree) (machine.TreeStatus, error)
	// Pending reports whether a submission of any conversation is unsettled, and what it was sent by.
	Pending func(context.Context, conversation.Sender) (by *conversation.Sender, pending bool, err error)
	// RunResult returns the result of a run that is completed.
	RunResult func(context.Context, conversation.RunID) (json.RawMessage, error)
	// Outbox says who gets posts.
	Outbox *outbox.Routes
	// Spawn runs what is begun here in a goroutine of the node, unless that is at its end.
	Spawn func(func())
	// Life is the context of what nobody waits for: a hook that is told of a settlement.
	Life context.Context
}

// Node is what the work of a node has in common. Use NewNode.
type Node struct {
	// ViewBytes is how much a model is shown, in bytes of text. It is set before use.
	ViewBytes int
	// PartBytes is how much is recorded of an output that is stored: what people are shown
	// of it, and once more at most as much for models. It is set before use.
	PartBytes int

	o       NodeOptions
	gate    *gate
	health  health
	oddness oddities
	storing chan struct{} // has an element for each output that is being stored
	outputs *toolOutputs
	desk    desk
	live    map[string]outbox.Live // targets that see drafts
}

// NewNode returns a node at which nothing is done yet.
func NewNode(o NodeOptions) *Node {
	return &Node{ViewBytes: maxViewBytes, PartBytes: partBytes, o: o, gate: newGate(o.DispatchesAtOnce), storing: make(chan struct{}, storesAtOnce), outputs: newToolOutputs(o.Outputs), desk: newDesk(), live: liveTargets(o.Outbox)}
}

// Dispatches returns how many messages of tools and hooks wait for their turn, and how many
// were refused because too many did.
func (n *Node) Dispatches() (waiting, refused int64) { return n.gate.counts() }

// SummaryTime bounds a compaction: the summarizer's model is asked at most twice.
func (n *Node) SummaryTime() time.Duration { return 2*n.o.WholeCall + time.Minute }

// Options are what a Runner knows of its activation. All are required; its functions may be
// called from any goroutine and do not block.
type Options struct {
	Key     conversation.Key
	Logger  *slog.Logger
	Archive *history.Archive
	Tap     *events.Tap
	// Life ends with the activation.
	Life context.Context
	// Now is the time that waits go by.
	Now func() time.Time
	// Emit brings what has come of the work to the machine.
	Emit func(machine.Input)
	// Ready has [Runner.Take] called for a model call, on the actor's goroutine.
	Ready func(gen int)
	// Run runs a function on the actor's goroutine.
	Run func(func())
	// Ask asks the machine, under a caller of its own, and has done called with its answer.
	Ask func(q machine.Question, done func(machine.Answer))
}

// Runner does the work of one activation. Its methods belong to the actor's goroutine; what
// they begin runs outside and knows only what was copied for it.
type Runner struct {
	node    *Node
	o       Options
	works   map[int]*work // by gen; nil while nothing runs
	author  *authorState  // of the newest work
	sender  *sender       // likewise
	starved bool          // a feed has events the machine has no room for
	drafts  drafts

	mu        sync.Mutex
	summaries map[int]context.CancelFunc // under way, by gen
}

// Runner returns the runner of an activation.
func (n *Node) Runner(o Options) *Runner {
	return &Runner{node: n, o: o, summaries: map[int]context.CancelFunc{}}
}

func (r *Runner) spawn(work func()) { r.node.o.Spawn(work) }

// work is what runs outside the actor for one gen of the machine: a model call, the
// tools it has called, or a hook.
type work struct {
	submission conversation.SubmissionID
	ctx        context.Context
	cancel     context.CancelFunc
	feed       *feed
	author     *author
	call       *modelCall // nil unless it is one
}

// begin returns the work gen of a submission. If it is new, it ends what ran for the
// submission before, and goes on with the same author.
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
	w.ctx, w.cancel = context.WithCancel(r.o.Life)
	if r.works == nil {
		r.works = map[int]*work{}
	}
	r.works[gen] = w
	return w
}

// end cancels what runs under gen, if anything does.
func (r *Runner) end(gen int) {
	if w := r.works[gen]; w != nil {
		w.cancel()
		delete(r.works, gen)
	}
	r.endSummary(gen)
}

// endSummary cancels a summary, or forgets one that is made.
func (r *Runner) endSummary(gen int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if end := r.summaries[gen]; end != nil {
		end()
		delete(r.summaries, gen)
	}
}

// Take returns what the model call gen has produced, unless the machine has no room: then
// [Runner.Starved] names the call again.
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

// Starved returns the calls whose events may wait since the machine had no room.
func (r *Runner) Starved() []int {
	if !r.starved {
		return nil
	}
	r.starved = false
	return slices.Sorted(maps.Keys(r.works))
}

// live tells of the work on a submission, which may be a subagent's.
func (r *Runner) live(v *view, turn conversation.TurnID) *events.Live {
	return r.o.Tap.Live(v.place(turn))
}
