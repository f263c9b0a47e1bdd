package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"

	"github.com/parleyrun/parley/agent/internal/seam"
	"github.com/parleyrun/parley/internal/contain"
)

// Data is a kind of structured data that an agent shows to clients in addition to its text.
// [NewDataWriter] returns one.
type Data interface {
	// Name is the name of the data for clients: a part of type "data-<name>".
	Name() string
	// JSONSchema is the schema of every value. The bytes are shared and must not be changed.
	JSONSchema() json.RawMessage
}

// DataWriter writes data of one name and Go type. It is immutable and safe for concurrent use.
type DataWriter[T any] struct {
	name   string
	schema *Schema
}

// DataOptions are the options of [NewDataWriter].
type DataOptions struct {
	// Schema replaces the schema derived from the type, for bounds and enumerations.
	Schema json.RawMessage
}

// dataNamePattern matches names that are valid in a part's type and in the code of clients.
const dataNamePattern = `^[a-zA-Z][a-zA-Z0-9_-]{0,63}$`

// ErrNoResponse is returned by a write outside a tool call and the hook [Hooks.ResponseFinished], or
// after they returned.
var ErrNoResponse = errors.New("write data failed: no response is under way; write in a tool or in the hook ResponseFinished")

// ErrUndeclaredData is returned by a write with a writer that the agent does not list.
var ErrUndeclaredData = errors.New("the agent does not list the data writer: add it to Agent.Data; subagents cannot write data")

// NewDataWriter returns a writer. The agent lists it in [Agent.Data], and its tools list it in
// [ToolOptions.Data], so that a missing entry is found at start.
//
// The schema is derived from T as by [NewTool]. The name has 1 to 64 characters of letters, digits,
// "_" and "-", beginning with a letter. NewDataWriter panics for another name and for a type or schema
// that cannot be compiled, because each is a mistake in the program.
func NewDataWriter[T any](name string, opts *DataOptions) *DataWriter[T] {
	if opts == nil {
		opts = &DataOptions{}
	}
	w := &DataWriter[T]{name: name}
	err := error(nil)
	switch {
	case !regexp.MustCompile(dataNamePattern).MatchString(name):
		err = fmt.Errorf("name does not match %s", dataNamePattern)
	default:
		w.schema, err = schemaBy(reflect.TypeFor[T](), opts.Schema, writes, false)
	}
	if err != nil {
		panic(fmt.Errorf("agent: data %q: %w", name, err))
	}
	return w
}

// Name implements [Data].
func (w *DataWriter[T]) Name() string { return w.name }

// JSONSchema implements [Data].
func (w *DataWriter[T]) JSONSchema() json.RawMessage { return w.schema.JSON() }

// Write sets the data part of the writer's name in the current response: the first write appends the
// part, and a later one in the same response, also by another call, replaces its data in place. It
// returns when the data has its place in the conversation, before anything that its caller writes or
// returns later; clients see it as soon as it is durable. A durable call that runs again writes again,
// except within recorded steps.
//
// The error is [ErrNoResponse], [ErrUndeclaredData], a [*SchemaError] or [*SchemaBoundError], the
// reason why the data cannot be recorded, or that of ctx: then the data may have been recorded.
func (w *DataWriter[T]) Write(ctx context.Context, data T) error {
	raw, err := contain.Encode("data "+w.name, data)
	if err == nil {
		err = w.schema.Validate(ctx, raw)
	}
	if err == nil {
		write, ok := ctx.Value(seam.Data{}).(func(context.Context, string, json.RawMessage) error)
		if !ok {
			err = ErrNoResponse
		} else {
			err = write(ctx, w.name, raw)
		}
	}
	if err != nil {
		return fmt.Errorf("write data %s: %w", w.name, err)
	}
	return nil
}
