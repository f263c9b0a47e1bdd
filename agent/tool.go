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

// Tool is a function that a model may call; [NewTool] makes one. The zero value is not a tool. A Tool
// is immutable, and safe for concurrent use if its function is.
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
	// InputSchema replaces the schema that is derived from the input type. It must have type "object",
	// and the input type must be able to hold every valid value. Use it for bounds, enumerations and
	// types with a JSON form of their own.
	InputSchema json.RawMessage

	// Open ignores members of the input that are not fields of the input type, at any depth. Without
	// it, such a call fails and the model gets the error. Use it for models that add members.
	Open bool

	// Timeout bounds one run of a call: the context of the function ends, and the model gets an error.
	// Zero means [DefaultToolTimeout]. The run also ends with the timeout of the submission,
	// [Durability.Timeout].
	Timeout time.Duration

	// Durable runs a call again from its start if a crash interrupted it, with the same input and
	// [Call.ID]. Its recorded steps ([Step]) are not run again. Without Durable the call is not
	// repeated, and the model gets the error "outcome unknown".
	Durable bool

	// Data are the data writers that the function uses. The start fails for an agent that has the tool
	// and does not list them in [Agent.Data]. A write by a writer that is missing here returns
	// [ErrUndeclaredData].
	Data []Data
}

// DefaultToolTimeout is the default of [ToolOptions.Timeout].
const DefaultToolTimeout = 10 * time.Minute

// NewTool returns a tool that calls a function. The model gets the function's result as JSON, or the
// text of its error, which never ends a submission. A [Result] can also end the response and show
// images. Input, output and error text are part of the transcript that clients read, so they must not
// contain secrets.
//
// The input schema is derived from In, a struct or a map, by the rules of package encoding/json: names
// and options of tags, embedded structs, methods for JSON and text. Fields without omitempty or
// omitzero are required, except those of an embedded pointer. Members that are not fields are rejected
// unless the tool is Open. Pointers, maps and slices may be null. Recursive types use "$defs".
//
// A type with MarshalText or UnmarshalText is a string. For a type with MarshalJSON, NewTool calls its
// methods on sample values. The schema then permits the JSON types of the results, or any type if the
// samples show none.
//
// A tag `jsonschema:"…"` describes a field to the model, by a text, or by keywords such as
// `jsonschema:"description=how urgent\\, if known,enum=low,enum=high"`. The keywords are title,
// description, format, enum, default, example, minimum, maximum, exclusiveMinimum, exclusiveMaximum,
// multipleOf, minLength, maxLength, pattern, minItems, maxItems, uniqueItems, minProperties and
// maxProperties. On a list, keywords for items apply to its items.
//
// Numbers in fields of type any are [json.Number]. [CallFrom] returns the facts of the call.
//
// The name has 1 to 64 characters of letters, digits, "_" and "-", beginning with a letter or "_".
// NewTool panics for a mistake in the program:
//
//   - a name or description that no vendor accepts
//   - a nil function, or a negative timeout
//   - an input type or schema that is not an object
//   - an input type that would lose values
//
// The panic value is an error with the Go path of the field and a remedy.
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

// calling returns a function that decodes a validated input into In and calls fn with it.
func calling[In, Out any](name string, schema *Schema, fn func(ctx context.Context, in In) (Out, error)) func(ctx context.Context, input any) (any, error) {
	return func(ctx context.Context, input any) (any, error) {
		var in In
		if issues := schema.fill("input of tool "+name, input, &in); len(issues) > 0 {
			return nil, &InputError{Tool: name, Issues: issues}
		}
		return fn(ctx, in)
	}
}

// newTool makes a tool without its function, which is the part of NewTool that needs no type
// parameters.
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

// CheckInput validates a JSON input without running the function. Its errors are those of
// [Schema.Validate].
func (t Tool) CheckInput(ctx context.Context, raw json.RawMessage) error {
	if t.input == nil {
		return errors.New("check input: the zero Tool has no schema")
	}
	return t.input.Validate(ctx, raw)
}

// Call runs the tool like [Tool.Run] and returns only the output.
func (t Tool) Call(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
	out, err := t.Run(ctx, raw)
	if err != nil {
		return nil, err
	}
	return out.Output, nil
}

// Run validates the input, runs the function and returns its outcome. Empty input means an empty
// object, because some models send nothing to a tool without parameters. Steps are recorded only if
// the tool is durable and ctx has a recorder; see agenthost.WithSteps.
//
// The error is an [*InputError], [*PanicError], [*ExitError], [*OutputError], [*ResultError] or
// [*TimeoutError]. Any other error wraps the function's own: it has the same text, and errors.Is and
// errors.As match its chain.
//
// Run returns only when the function returns, even if the function ignores its context. A caller that
// cannot wait calls Run in a goroutine.
func (t Tool) Run(ctx context.Context, raw json.RawMessage) (*Outcome, error) {
	if t.call == nil {
		return nil, errors.New("call tool: the zero Tool has no function")
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = json.RawMessage("{}")
	}
	decode := t.input.decode
	if ctx.Value(seam.Resumed{}) != nil { // A stored input may be valid only for an earlier version of the tool.
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
	result, err := contain.Do(t.desc(), func() (any, error) { return t.call(ctx, input) })
	if err != nil {
		// Name the limit, which the bare context error does not.
		if errors.Is(err, context.DeadlineExceeded) && context.Cause(ctx) == error(limit) {
			return nil, limit
		}
		return nil, err
	}
	return t.outcome(ctx, result)
}

// desc names the tool's function in errors.
func (t Tool) desc() string { return "tool " + t.name }

// decodeInput decodes a validated value into dst. It encodes the value again instead of reading the
// original bytes, because a second decoder could read those differently, for example with duplicate
// members.
func decodeInput(desc string, v, dst any) error {
	return contain.Decode(desc, appendValue(nil, v), dst)
}
