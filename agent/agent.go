package agent

import (
	"context"
	"slices"
	"time"
)

// Agent is the definition of one agent. Name and Model are required; every other
// field may be zero. It must not change once it is registered with a runtime.
type Agent struct {
	// Name is the agent's part of every conversation address and of storage keys:
	// 1 to 63 characters of a-z, 0-9 and "-", beginning with a letter. Renaming an
	// agent leaves its conversations behind.
	Name string

	// Description says what the agent is for, to people and to agents that may
	// delegate to it.
	Description string

	// Model is "provider/model", split at the first slash. The provider is a name
	// the program registered.
	Model string

	// Fallbacks are models like Model that are asked in this order when the calls of
	// the one before fail for good, after the retries each has. One that was given up is
	// not asked again in the same attempt.
	Fallbacks []string

	// ThinkingLevel is how much the model may reason before it answers; zero means
	// [ThinkingOff]. Models that cannot reason ignore it.
	ThinkingLevel ThinkingLevel

	// Generation says how the model writes its replies: temperature, length, where to stop,
	// whether to call a tool.
	Generation Generation

	// Instructions is the system prompt. At most one of Instructions and
	// InstructionsFunc may be set.
	Instructions string

	// InstructionsFunc computes the system prompt. It is called before every model
	// call, so what it returns should depend on the turn only where it must: a
	// prompt that stays the same is cached by vendors. An error ends the attempt.
	InstructionsFunc func(ctx context.Context, t *Turn) (string, error)

	// Prepare may change what holds for one model call: model, instructions, tools,
	// subagents. It is called before every one, after InstructionsFunc, with a setup
	// that says what the fields of the agent say. It reads state and writes none. An
	// error ends the attempt, as does a setup that cannot be.
	Prepare func(ctx context.Context, t *Turn, s *Setup) error

	// Tools are what the model may call. Names are unique within the agent.
	Tools []Tool

	// Renamed maps names that tools had in an earlier version of the program to their present names. A
	// call by the old name, such as a durable one that waits while the program is replaced, runs the tool
	// under its present name. Models are not shown the old names.
	Renamed map[string]string

	// Subagents are whom the model may hand tasks to, by the tool [TaskTool]. It
	// chooses by their Description, which they need, and names them by their Name,
	// unique among them. A subagent works in a conversation of its own that no client
	// sees, and what it says last is the task's result. It has its own instructions
	// and tools; without a Model it has its parent's. It may
	// have subagents, down to [MaxTaskDepth], and none of InitialData, State, Data,
	// Hooks, Durability, Limits and Events, which belong to conversations that callers
	// reach.
	Subagents []*Agent

	// Output is what a reply comes to, as [SchemaFor] has it from a Go type; nil is text. The model
	// gives it with the tool [FinishTool], whose input is checked like any other: a wrong one
	// it reads why, and tries again. One that ends without is reminded once, and then the
	// submission fails with submission_output_missing. Of a subagent it is the result of its
	// task: its model is reminded likewise, and then its last words stand in. Clients find it as
	// the output of that call.
	Output *Schema

	// ToolConcurrency bounds the calls of one turn that run at once; the others
	// wait for their turn, in call order; tasks of subagents are calls too. Zero means
	// [DefaultToolConcurrency], 1 runs one after the other.
	ToolConcurrency int

	// AnswerInOrder has messages wait that come while all that runs for one before them waits for
	// a time or for a signal, by [Sleep] or [Wait]. Without it they are answered first, each in
	// a response of its own, whose model sees that the call waits; the response with the
	// call goes on after.
	AnswerInOrder bool

	// Notify are the targets that are told of the settlement of each submission, as by [Post]: names of
	// targets of the program or of webhooks.targets in parley.yaml, or URLs at hosts of
	// webhooks.allow. The body is the JSON of type "submission.settled" that docs/posts.md shows.
	Notify []string

	// Notifiable are the targets that a caller may name for the notice of its own submission, such as by the header
	// Parley-Notify. Without it callers name none. An entry is the name of a target, a URL, or the origin of URLs:
	// "https://hooks.example.com", "https://*.example.org". A target that replies for a channel is never among them.
	// [Dispatch] and channels may name any target.
	Notifiable []string

	// Data are the data writers whose data may appear in responses. Names are
	// unique within the agent.
	Data []Data

	// State are the persistent values of each conversation. Names are unique within
	// the agent.
	State []StateDefinition

	// Hooks are called at moments of a submission.
	Hooks Hooks

	// InitialData is what the first delivery of a conversation must bring along;
	// nil accepts anything, also nothing. [NewInitialData] has it from a Go type, and reads
	// it. See [Schema.Validate] for what a schema means for a delivery without initial data.
	InitialData *Schema

	// Durability bounds the work on one submission.
	Durability Durability

	// Limits bound what the work on one submission brings forth.
	Limits Limits

	// Compaction says when the model's view of a long conversation is summarized.
	Compaction Compaction

	// Events says what observability events show.
	Events Events

	// function says that no model works on deliveries, but the one tool, as a function.
	function bool
}

// Events says what the observability events of an agent's conversations show.
type Events struct {
	// Content shows what people, models and tools have said, each piece up to 8 KiB.
	// Without it events tell how long that was, and no more. It holds for the subagents
	// that work in these conversations, too.
	Content bool
}

// DefaultToolConcurrency is how many calls of a turn run at once.
const DefaultToolConcurrency = 16

// Defaults of [Durability].
const (
	DefaultMaxAttempts = 10
	DefaultTimeout     = time.Hour
	DefaultPatience    = 10 * time.Minute
)

// Durability bounds the work on one submission. A submission over a bound is
// settled as failed; it is never dropped.
type Durability struct {
	// MaxAttempts counts the tries at one submission, the first included; an
	// attempt that was handed over in an orderly way does not count. Zero means
	// [DefaultMaxAttempts].
	MaxAttempts int

	// Timeout bounds the time worked on one submission, summed over its attempts
	// by a monotonic clock; waiting in the queue and between attempts is not
	// counted. A run counts from its last suspension, so that one which sleeps between its
	// steps may go on without end. Zero means [DefaultTimeout].
	Timeout time.Duration

	// Patience bounds the waits, for one reply, for model vendors who say when to come
	// back, by a rate limit or because they are overloaded. While a wait of more than 30 s
	// lasts the submission is put away: nothing of it runs, and the wait is no part of
	// Timeout. One that asks for more fails at once, unless a fallback answers. Zero means
	// [DefaultPatience].
	Patience time.Duration
}

// WithDefaults returns d with its zero fields replaced by the defaults.
func (d Durability) WithDefaults() Durability {
	if d.MaxAttempts == 0 {
		d.MaxAttempts = DefaultMaxAttempts
	}
	if d.Timeout == 0 {
		d.Timeout = DefaultTimeout
	}
	if d.Patience == 0 {
		d.Patience = DefaultPatience
	}
	return d
}

// ThinkingLevel is how much a model may reason before it answers. Vendors count
// differently; the levels are ordered, their meaning is the provider's.
type ThinkingLevel string

// The thinking levels in rising order. The empty string means ThinkingOff.
const (
	ThinkingOff     ThinkingLevel = "off"
	ThinkingMinimal ThinkingLevel = "minimal"
	ThinkingLow     ThinkingLevel = "low"
	ThinkingMedium  ThinkingLevel = "medium"
	ThinkingHigh    ThinkingLevel = "high"
	ThinkingXHigh   ThinkingLevel = "xhigh"
	ThinkingMax     ThinkingLevel = "max"
)

// Tool returns the tool of that name, present or [Agent.Renamed], and whether the agent has it.
func (a *Agent) Tool(name string) (Tool, bool) { return a.findTool(a.Tools, name) }

// findTool returns the tool of a name, present or former, in a list.
func (a *Agent) findTool(tools []Tool, name string) (Tool, bool) {
	for range len(a.Renamed) {
		if _, ok := findTool(tools, name); ok {
			break
		}
		to, ok := a.Renamed[name]
		if !ok {
			break
		}
		name = to
	}
	return findTool(tools, name)
}

func findTool(tools []Tool, name string) (Tool, bool) {
	i := slices.IndexFunc(tools, func(t Tool) bool { return t.Name() == name })
	if i < 0 {
		return Tool{}, false
	}
	return tools[i], true
}
