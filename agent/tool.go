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

// Tool is a function that a model may call. The zero value is not a tool; [NewTool] returns one. A
// Tool is immutable and safe for concurrent use if its function is.
type Tool struct {
	name        string
	description string
	input       *Schema
	timeout     time.Duration
	durable     bool
	data        []Data
	call        func(ctx context.Context, input any) (any, error)
}

// ToolOptions are the options of [NewTool].
type ToolOptions struct {
	// InputSchema replaces the schema derived from the input type, which must be able to hold all
	// valid values. Its type must be "object". Use it for bounds, enumerations and types with a JSON
	// form of their own.
	InputSchema json.RawMessage

	// Open accepts members of the input that are not fields of the input type, at any depth, and omits
	// them from the function's input, for models that add members. Without it such a call is an error
	// for the model.
	Open bool

	// Timeout bounds one run of a call: the context of the function ends, and the model gets an error.
	// Zero means [DefaultToolTimeout]. [Durability.Timeout] bounds it too.
	Timeout time.Duration

	// Durable makes a call that was interrupted by a crash run again from its start, with the same
	// input and [Call.ID]. A recorded [Step] is not run again. Calls of other tools are not repeated:
	// the model gets "outcome unknown".
	Durable bool

	// Data are the data writers that the function uses. An agent with the tool that does not list them
	// in [Agent.Data] is refused at start; a write by a writer that is missing here fails with
	// [ErrUndeclaredData].
	Data []Data
}

// DefaultToolTimeout bounds one run of a call by default.
const DefaultToolTimeout = 10 * time.Minute

// NewTool returns a tool that calls a function. The model gets the function's result as JSON, or the
// text of its error, which never ends a submission. A [Result] can also end the response and show
// images. Input, output and error text are part of the transcript that clients read, so they must not
// contain secrets.
//
// The input schema is derived from In, a struct or a map, by the rules of package encoding/json: names
// and options of tags, embedded structs, methods for JSON and text. Fields without omitempty or
// omitzero are required, except those of an embedded pointer. Members that are not fields are rejected
// unless the tool is Open. Pointers, maps and slices may be null. Recursive types use "$defs". A type
// with MarshalText or UnmarshalText is a string. A type with MarshalJSON has the JSON types that it
// writes for samples, or any if samples do not show them; its methods are called for samples when the
// tool is made.
//
// A tag `jsonschema:"…"` describes a field to the model, by a text, or by keywords such as
// `jsonschema:"description=how urgent\\, if known,enum=low,enum=high"`: title, description, format,
// enum, default, example, minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, minLength,
// maxLength, pattern, minItems, maxItems, uniqueItems, minProperties and maxProperties. A list passes
// keywords of items on to its items.
//
// Numbers in fields of type any are [json.Number]. [CallFrom] returns the facts of the call.
//
// The name has 1 to 64 characters of letters, digits, "_" and "-", beginning with a letter or "_".
// NewTool panics for a name or description that no vendor accepts, a nil function, a negative timeout,
// an input type or schema that is not an object, and an input type that would lose values; the error
// names the Go path of the field and a remedy. Each is a mistake in the program.
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

// newTool is the part of NewTool that is independent of types.
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

// Name returns the tool's name for the model.
func (t Tool) Name() string { return t.name }

// Description returns the tool's description for the model.
func (t Tool) Description() string { return t.description }

// InputSchema returns the JSON schema of the input, always of type "object". The
// bytes are shared and must not be changed. It is nil for the zero Tool.
func (t Tool) InputSchema() json.RawMessage {
	if t.input == nil {
		return nil
	}
	return t.input.JSON()
}

// Timeout returns the time limit of one run of a call. It is zero for the zero Tool only.
func (t Tool) Timeout() time.Duration { return t.timeout }

// Durable reports whether a call that was interrupted runs again.
func (t Tool) Durable() bool { return t.durable }

// CheckInput validates a JSON input without running the function. The error is that of
// [Schema.Validate].
func (t Tool) CheckInput(ctx context.Context, raw json.RawMessage) error {
	if t.input == nil {
		return errors.New("check input: the zero Tool has no schema")
	}
	return t.input.Validate(ctx, raw)
}

// Call is [Tool.Run] without the rest of the outcome.
func (t Tool) Call(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
	out, err := t.Run(ctx, raw)
	if err != nil {
		return nil, err
	}
	return out.Output, nil
}

// Run validates the input, runs the function and returns its outcome. Empty input means an empty
// object, because some models send nothing to a tool without parameters. Steps are recorded only if
// the tool is durable and ctx has a recorder, see agenthost.WithSteps.
//
// The error is an [*InputError], [*PanicError], [*ExitError], [*OutputError], [*ResultError] or
// [*TimeoutError], or stands for the function's own: it has its text, and errors.Is and errors.As see
// its chain. Run returns when the function does, also if the function ignores its context; a caller
// that cannot wait calls Run in a goroutine.
func (t Tool) Run(ctx context.Context, raw json.RawMessage) (*Outcome, error) {
	if t.call == nil {
		return nil, errors.New("call tool: the zero Tool has no function")
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = json.RawMessage("{}")
	}
	decode := t.input.decode
	if ctx.Value(seam.Resumed{}) != nil { // An earlier version of the tool may have accepted the input.
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
		// The bare context error would not name the limit.
		if errors.Is(err, context.DeadlineExceeded) && context.Cause(ctx) == error(limit) {
			return nil, limit
		}
		return nil, err
	}
	return t.outcome(ctx, result)
}

// what returns the name of the tool's function for errors.
func (t Tool) what() string { return "tool " + t.name }

// decodeInput decodes a validated value into dst. The value is encoded again first, because a second
// reading of the original bytes could differ from the validated value, for example with duplicate
// members.
func decodeInput(what string, v, dst any) error {
	return contain.Decode(what, appendValue(nil, v), dst)
}
