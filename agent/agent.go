package agent

import (
	"context"
	"slices"
	"time"
)

// Agent is the definition of one agent. Name and Model are required; every other
// field may be zero. It must not change once it is registered with a runtime.
type Agent struct {
	// Name is the agent's part of every conversation address and of storage keys: 1 to 63 characters
	// of a-z, 0-9 and "-", beginning with a letter. A renamed agent does not have the conversations of
	// its old name.
	Name string

	// Description states the purpose of the agent, for people and for agents that may delegate to it.
	Description string

	// Model is "provider/model", split at the first slash. The program registers the provider's name.
	Model string

	// Fallbacks are models in the form of Model. They are called in this order when the model before
	// has failed permanently or after all its retries. A failed model is not called again in the same
	// attempt.
	Fallbacks []string

	// ThinkingLevel bounds the model's reasoning before it answers; zero means [ThinkingOff]. Models
	// that cannot reason ignore it.
	ThinkingLevel ThinkingLevel

	// Generation has the sampling options of the model: temperature, length, stop sequences, tool
	// choice.
	Generation Generation

	// Instructions is the system prompt. At most one of Instructions and
	// InstructionsFunc may be set.
	Instructions string

	// InstructionsFunc computes the system prompt. It is called before every model call. Vendors cache
	// a prompt that stays the same, so the result should depend on the turn only where it must. An
	// error ends the attempt.
	InstructionsFunc func(ctx context.Context, t *Turn) (string, error)

	// Prepare may change the setup of one model call: model, instructions, tools, subagents. It is
	// called before every call, after InstructionsFunc, with a setup made from the fields of the
	// agent. It may read state but not write it. An error, or an invalid setup, ends the attempt.
	Prepare func(ctx context.Context, t *Turn, s *Setup) error

	// Tools are the tools that the model may call. Names are unique within the agent.
	Tools []Tool

	// Renamed maps names that tools had in an earlier version of the program to their present names. A
	// call by the old name, such as a durable one that waits while the program is replaced, runs the tool
	// under its present name. Models are not shown the old names.
	Renamed map[string]string

	// Subagents are the agents to which the model may delegate tasks, by the tool [TaskTool]. The
	// model chooses one by its Description, which is required, and names it by its Name, unique among
	// them. A subagent works in a conversation of its own that no client sees; its last text is the
	// task's result. It has its own instructions and tools; without a Model it uses its parent's. It
	// may have subagents, down to [MaxTaskDepth], and none of InitialData, State, Data, Hooks,
	// Durability, Limits and Events, which belong to conversations that callers reach.
	Subagents []*Agent

	// Output is the schema of the result of a reply, as returned by [SchemaFor]; nil means text. The
	// model submits the result with the tool [FinishTool]. Its input is validated like any other, and
	// the model may correct it. A reply that ends without a result is reminded once; then the
	// submission fails with submission_output_missing. For a subagent it is the result of the task:
	// after the reminder, its last text is used instead. Clients find the result as the output of the
	// tool call.
	Output *Schema

	// ToolConcurrency bounds the concurrent calls of one turn; further calls start in call order.
	// Tasks of subagents are calls too. Zero means [DefaultToolConcurrency]; 1 runs the calls one
	// after the other.
	ToolConcurrency int

	// AnswerInOrder makes a message wait while the submission before it is suspended by [Sleep] or
	// [Wait]. By default the message is answered at once, in a response of its own whose model sees
	// that the call waits; the suspended response continues afterwards.
	AnswerInOrder bool

	// Notify are the targets that receive the settlement of each submission, as by [Post]: names of
	// targets of the program or of webhooks.targets in parley.yaml, or URLs at hosts of
	// webhooks.allow. The body is the JSON of type "submission.settled" in docs/posts.md.
	Notify []string

	// Notifiable are the targets that a caller may name for the notice of its own submission, for
	// example in the header Parley-Notify. If it is empty, callers may name none. An entry is the name
	// of a target, a URL, or the origin of URLs: "https://hooks.example.com", "https://*.example.org".
	// The reply target of a channel is never allowed. [Dispatch] and channels may name any target.
	Notifiable []string

	// Data are the data writers whose data may appear in responses. Names are unique within the agent.
	Data []Data

	// State are the persistent values of each conversation. Names are unique within
	// the agent.
	State []StateDefinition

	// Hooks are called at defined moments of a submission.
	Hooks Hooks

	// InitialData is the schema of the data in the first delivery of a conversation; nil accepts any
	// data and none. [NewInitialData] derives it from a Go type and reads the data. See
	// [Schema.Validate] for a delivery without initial data.
	InitialData *Schema

	// Durability bounds the attempts and the time of one submission.
	Durability Durability

	// Limits bound the calls, tokens and cost of one submission.
	Limits Limits

	// Compaction configures when the model's view of a long conversation is summarized.
	Compaction Compaction

	// Events configures the content of observability events.
	Events Events

	// function is set if the one tool handles deliveries as a function, without a model.
	function bool
}

// Events configures the observability events of an agent's conversations.
type Events struct {
	// Content includes the text of users, models and tools in events, up to 8 KiB for each piece. By
	// default events have only its length. It also holds for subagents in these conversations.
	Content bool
}

// DefaultToolConcurrency is the number of concurrent calls of a turn.
const DefaultToolConcurrency = 16

// Defaults of [Durability].
const (
	DefaultMaxAttempts = 10
	DefaultTimeout     = time.Hour
	DefaultPatience    = 10 * time.Minute
)

// Durability bounds the work on one submission. A submission over a bound is settled as failed; it is
// never dropped.
type Durability struct {
	// MaxAttempts is the number of attempts at one submission, including the first. An attempt that
	// ended by an orderly handover is not counted. Zero means [DefaultMaxAttempts].
	MaxAttempts int

	// Timeout bounds the time worked on one submission, summed over its attempts by a monotonic clock.
	// Time in the queue and between attempts is not counted. For a run the sum restarts at each
	// suspension. Zero means [DefaultTimeout].
	Timeout time.Duration

	// Patience bounds the total time that one reply waits because a model server asked to retry later,
	// by a rate limit or overload. During a wait of more than 30 s the submission is suspended, and
	// the wait does not count for Timeout. A longer request fails at once unless a fallback answers.
	// Zero means [DefaultPatience].
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

// ThinkingLevel bounds a model's reasoning before it answers. The levels are ordered; their exact
// meaning depends on the provider.
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

// Tool returns the tool with a name, present or [Agent.Renamed], and whether it exists.
func (a *Agent) Tool(name string) (Tool, bool) { return a.findTool(a.Tools, name) }

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
