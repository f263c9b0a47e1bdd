package agent

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/parleyrun/parley/conversation"
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

	// ThinkingLevel is how much the model may reason before it answers; zero means
	// [ThinkingOff]. Models that cannot reason ignore it.
	ThinkingLevel ThinkingLevel

	// Instructions is the system prompt. At most one of Instructions and
	// InstructionsFunc may be set.
	Instructions string

	// InstructionsFunc computes the system prompt. It is called before every model
	// call, so what it returns should depend on the turn only where it must: a
	// prompt that stays the same is cached by vendors. An error ends the attempt.
	InstructionsFunc func(ctx context.Context, t *Turn) (string, error)

	// Tools are what the model may call. Names are unique within the agent.
	Tools []Tool

	// ToolConcurrency bounds the calls of one step that run at once; the others
	// wait for their turn, in call order. Zero means [DefaultToolConcurrency], 1
	// runs one after the other.
	ToolConcurrency int

	// Data are the data writers whose data may appear in responses. Names are
	// unique within the agent.
	Data []Data

	// Hooks are called at moments of a response.
	Hooks Hooks

	// InitialData is what the first delivery of a conversation must bring along;
	// nil accepts anything, also nothing. See [Schema.Validate] for what a schema
	// means for a delivery without initial data.
	InitialData *Schema

	// Durability bounds the work on one submission.
	Durability Durability
}

// DefaultToolConcurrency is how many calls of a step run at once.
const DefaultToolConcurrency = 16

// Defaults of [Durability].
const (
	DefaultMaxAttempts = 10
	DefaultTimeout     = time.Hour
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
	// counted. Zero means [DefaultTimeout].
	Timeout time.Duration
}

// WithDefaults returns d with its zero fields replaced by the defaults.
func (d Durability) WithDefaults() Durability {
	if d.MaxAttempts == 0 {
		d.MaxAttempts = DefaultMaxAttempts
	}
	if d.Timeout == 0 {
		d.Timeout = DefaultTimeout
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

// Tool returns the tool of that name, and whether the agent has it.
func (a *Agent) Tool(name string) (Tool, bool) {
	for _, t := range a.Tools {
		if t.Name() == name {
			return t, true
		}
	}
	return Tool{}, false
}

// WritesData reports whether data of that name may appear in responses.
func (a *Agent) WritesData(name string) bool {
	return slices.ContainsFunc(a.Data, func(d Data) bool { return d.Name() == name })
}

// InstructionsFor returns the system prompt of a turn. An error is the author's,
// or a [*PanicError].
func (a *Agent) InstructionsFor(ctx context.Context, t *Turn) (text string, err error) {
	if a.InstructionsFunc == nil {
		return a.Instructions, nil
	}
	defer contain("instructions of agent "+a.Name, &err)
	return a.InstructionsFunc(ctx, t)
}

// CheckInitialData decides whether a conversation of this agent may be created
// with these initial data; nil means absent. The error is a [*conversation.Error]
// with code invalid_request whose details list what is wrong.
func (a *Agent) CheckInitialData(raw json.RawMessage) error {
	if a.InitialData == nil {
		return nil
	}
	if err := a.InitialData.Validate(raw); err != nil {
		return conversation.Errorf(conversation.CodeInvalidRequest, "initialData: %v", err)
	}
	return nil
}
