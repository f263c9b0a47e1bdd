package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/parleyrun/parley/agent/internal/seam"
	"github.com/parleyrun/parley/internal/contain"
)

// Tool is something a model may call. The zero value is not a tool; make one
// with [NewTool]. A Tool is immutable and safe for concurrent use, if its
// function is.
type Tool struct {
	name        string
	description string
	input       *Schema
	timeout     time.Duration
	durable     bool
	data        []Data
	call        func(ctx context.Context, input any) (any, error)
}

// ToolOptions are the optional facts of a tool.
type ToolOptions struct {
	// InputSchema replaces the schema derived from the input type, which must be
	// able to hold whatever the schema allows. Its type must be "object". Use it
	// for bounds, enumerations and types with a JSON form of their own.
	InputSchema json.RawMessage

	// Open lets members of the input through that are no field of the input type, at any depth, and
	// leaves them out of what the function receives: for models that add some of their own. Without it
	// such a call is an error that the model reads.
	Open bool

	// Timeout bounds one run of a call: the context of the function ends when it has
	// passed, and the model is told. Zero means [DefaultToolTimeout]. There is no call
	// without a limit: a longer one than [Durability.Timeout] is cut by it.
	Timeout time.Duration

	// Durable makes a call that a crash interrupts run again, from its start, with
	// the same input and [Call.ID]. What is in a [Step] and recorded is not run again.
	// Other tools are not run again: the model is told that the outcome is unknown.
	Durable bool

	// Data are the data writers that the function uses. An agent that has the tool and does not list
	// them in [Agent.Data] is refused when it starts; what is not named here is found when it is
	// written, by an [ErrUndeclaredData].
	Data []Data
}

// DefaultToolTimeout is how long one run of a call may take.
const DefaultToolTimeout = 10 * time.Minute

// NewTool makes a tool from a function. What the function returns is shown to the
// model as JSON; an error is shown to it by its text, and never ends a
// submission. A [Result] says more than a value: it can end the response and show
// images. Input, output and error text also stand in the transcript that
// clients of the conversation read: put nothing into them that they may not see.
//
// The input schema is derived from In, a struct or a map, by the rules of package
// encoding/json: names and options of tags, embedded structs, methods for JSON and text.
// Fields without omitempty or omitzero are required, those of an embedded pointer are not,
// and members that are no field are rejected unless the tool is Open. Pointers, maps and
// slices may be null. Types that refer to themselves do so by "$defs". A type with
// MarshalText or UnmarshalText is a string; one with MarshalJSON is what that writes of
// samples, as far as these show it, else anything. Its methods are called for samples
// when the tool is made.
//
// A tag `jsonschema:"…"` describes a field to the model, in words, or by keywords such as
// `jsonschema:"description=how urgent\\, if known,enum=low,enum=high"`: title, description,
// format, enum, default, example, minimum, maximum, exclusiveMinimum, exclusiveMaximum,
// multipleOf, minLength, maxLength, pattern, minItems, maxItems, uniqueItems,
// minProperties and maxProperties. A list passes what is for its items on to them.
//
// Numbers in fields of type any arrive as [json.Number]. Facts of the call are in the
// context, see [CallFrom].
//
// The name has 1 to 64 characters of letters, digits, "_" and "-", beginning with
// a letter or "_". NewTool panics for a name or description no vendor accepts, a
// nil function, a negative timeout, an input type or schema that is not an object, and
// an input type that would lose values; the error names the Go path of the field and a
// remedy. Each is a mistake in the program, and tools are usually part of a variable's
// value.
func NewTool[In, Out any](name, description string, fn func(ctx context.Context, in In) (Out, error), opts *ToolOptions) Tool {
	if opts == nil {
		opts = &ToolOptions{}
	}
	t, err := newTool(name, description, reflect.TypeFor[In](), opts)
	if err == nil && fn == nil {
		err = errors.New("function is nil")
	}
	if err != nil {
		panic(fmt.Errorf("agent: tool %q: %w", name, err))
	}
	t.call = calling(name, t.input, fn)
	return t
}

// calling calls a function with a validated input.
func calling[In, Out any](name string, schema *Schema, fn func(ctx context.Context, in In) (Out, error)) func(ctx context.Context, input any) (any, error) {
	return func(ctx context.Context, input any) (any, error) {
		var in In
		if issues := schema.fill("input of tool "+name, input, &in); len(issues) > 0 {
			return nil, &InputError{Tool: name, Issues: issues}
		}
		return fn(ctx, in)
	}
}

// newTool is the part of NewTool that does not depend on types.
func newTool(name, description string, in reflect.Type, opts *ToolOptions) (Tool, error) {
	t := Tool{name: name, description: description, timeout: cmp.Or(opts.Timeout, DefaultToolTimeout), durable: opts.Durable, data: opts.Data}
	if problem := toolNameProblem(name); problem != "" {
		return t, errors.New(problem)
	}
	if description == "" {
		return t, errors.New("description is empty; the model chooses by it")
	}
	if opts.Timeout < 0 {
		return t, fmt.Errorf("timeout is %v; use a positive duration, or 0 for the default of %v", opts.Timeout, DefaultToolTimeout)
	}
	var err error
	if t.input, err = schemaBy(in, opts.InputSchema, reads|objects, opts.Open); err != nil {
		return t, fmt.Errorf("input %v: %w", in, err)
	}
	var head struct {
		Type any `json:"type"`
	}
	if err := json.Unmarshal(t.input.JSON(), &head); err != nil || head.Type != "object" {
		return t, fmt.Errorf("input %v has no schema of type \"object\"; use a struct, or set InputSchema", in)
	}
	return t, nil
}

// Name returns what the model calls the tool.
func (t Tool) Name() string { return t.name }

// Description returns what the model is told about the tool.
func (t Tool) Description() string { return t.description }

// InputSchema returns the JSON schema of the input, always of type "object". The
// bytes are shared and must not be changed. It is nil for the zero Tool.
func (t Tool) InputSchema() json.RawMessage {
	if t.input == nil {
		return nil
	}
	return t.input.JSON()
}

// Timeout returns the time limit of one run of a call. It is zero for the zero Tool
// only.
func (t Tool) Timeout() time.Duration { return t.timeout }

// Durable reports whether a call that was interrupted runs again.
func (t Tool) Durable() bool { return t.durable }

// CheckInput reports whether an input, which is JSON, fits, without running the function. The error is that of
// [Schema.Validate].
func (t Tool) CheckInput(ctx context.Context, raw json.RawMessage) error {
	if t.input == nil {
		return errors.New("check input: the zero Tool has no schema")
	}
	return t.input.Validate(ctx, raw)
}

// Call is [Tool.Run] for whom the output is enough.
func (t Tool) Call(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
	out, err := t.Run(ctx, raw)
	if err != nil {
		return nil, err
	}
	return out.Output, nil
}

// Run checks the input, runs the function and returns what it came to. Empty input
// stands for an empty object, because some models send nothing to a tool without
// parameters. Steps are there only if the tool is durable and ctx has them, see
// agenthost.WithSteps.
//
// The error is an [*InputError], [*PanicError], [*ExitError], [*OutputError], [*ResultError] or
// [*TimeoutError], or stands for the function's own: it has its text, and errors.Is and errors.As
// find what that is and wraps. A function that ignores its context is
// not left behind: Run returns when the function does, and a caller that cannot wait runs
// Run in a goroutine.
func (t Tool) Run(ctx context.Context, raw json.RawMessage) (*Outcome, error) {
	if t.call == nil {
		return nil, errors.New("call tool: the zero Tool has no function")
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = json.RawMessage("{}")
	}
	decode := t.input.decode
	if ctx.Value(seam.Resumed{}) != nil { // The input was accepted by an earlier version of the tool, maybe.
		decode = t.input.decodeStored
	}
	input, issues, err := decode(ctx, raw, MaxSchemaSteps)
	var bound *SchemaBoundError
	switch {
	case errors.As(err, &bound):
		return nil, &InputError{Tool: t.name, Issues: []Issue{{Problem: bound.Problem}}}
	case err != nil:
		return nil, err
	case len(issues) > 0:
		if issue := malformedIssue(raw); issue != nil {
			issues = []Issue{*issue}
		}
		return nil, &InputError{Tool: t.name, Issues: issues}
	}
	c, _ := CallFrom(ctx)
	ctx = seam.WithOrigin(ctx, string(c.ID), "")
	if !t.durable {
		ctx = withoutSteps(ctx)
	}
	limit := &TimeoutError{Tool: t.name, Limit: t.timeout}
	ctx, cancel := context.WithTimeoutCause(ctx, t.timeout, limit)
	defer cancel()
	result, err := contain.Do(t.what(), func() (any, error) { return t.call(ctx, input) })
	if err != nil {
		// The bare context error would not tell the model whose limit it was.
		if errors.Is(err, context.DeadlineExceeded) && context.Cause(ctx) == error(limit) {
			return nil, limit
		}
		return nil, err
	}
	return t.outcome(ctx, result)
}

// what returns the name of the tool's function for errors.
func (t Tool) what() string { return "tool " + t.name }

// decodeInput fills dst from a validated value. The value is written out again
// first, so that the function sees what was checked and not a second reading of
// the bytes, which differs where a member stands twice.
func decodeInput(what string, v, dst any) error {
	return contain.Decode(what, appendValue(nil, v), dst)
}
