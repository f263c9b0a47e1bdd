package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/parleyrun/parley/agent/internal/seam"
	"github.com/parleyrun/parley/internal/contain"
)

// InitialData is what a conversation is created with, as a Go type: [Agent.InitialData] takes its
// schema, which decides about the first delivery, and tools, hooks, [Agent.Prepare] and
// [Agent.InstructionsFunc] read it by their context. It holds no value itself. It is immutable and safe
// for concurrent use.
type InitialData[T any] struct {
	schema  *Schema
	migrate func(old json.RawMessage) (T, error)
}

// InitialDataOptions are the optional facts of [InitialData].
type InitialDataOptions struct {
	// Schema replaces the schema derived from the type, for bounds and enumerations.
	Schema json.RawMessage

	// Open lets members through that are no field of the type, at any depth. They are kept with the
	// conversation and left out of what Get returns.
	Open bool
}

// ErrNoInitialData says that there is no conversation whose initial data could be meant: the context is
// not one that a tool, a hook, Prepare or InstructionsFunc was handed. Initial data that were not sent
// are another thing, see [InitialData.Get].
var ErrNoInitialData = errors.New("there is no conversation whose initial data could be meant: use the context of a tool, a hook, Prepare or InstructionsFunc")

// NewInitialData says that conversations begin with a T. The schema is derived from T as [NewTool] derives
// one, but T need not be an object; a pointer makes the data optional. NewInitialData panics for a type or
// schema that cannot be compiled: that is a mistake in the program.
func NewInitialData[T any](opts *InitialDataOptions) *InitialData[T] {
	if opts == nil {
		opts = &InitialDataOptions{}
	}
	s, err := schemaBy(reflect.TypeFor[T](), opts.Schema, reads, opts.Open)
	if err != nil {
		panic(fmt.Errorf("agent: initial data %v: %w", reflect.TypeFor[T](), err))
	}
	return &InitialData[T]{schema: s}
}

// Migrating returns the initial data with a function that reads data which do not fit T any more, nil if the conversation
// was created without any. Its value or error is that of Get; so is a panic of it. A field that T has got needs no
// function: it has its zero value.
func (d *InitialData[T]) Migrating(migrate func(old json.RawMessage) (T, error)) *InitialData[T] {
	with := *d
	with.migrate = migrate
	return &with
}

// Schema returns what [Agent.InitialData] takes.
func (d *InitialData[T]) Schema() *Schema { return d.schema }

// Get returns what the conversation was created with; the zero value of a pointer if that was nothing.
//
// A field that T has got since the conversation was created has its zero value. The error is [ErrNoInitialData], or a
// [*SchemaError] if the data do not fit otherwise, and no [InitialData.Migrating] reads them.
func (d *InitialData[T]) Get(ctx context.Context) (T, error) {
	var value T
	raw, ok := ctx.Value(seam.InitialData{}).(json.RawMessage)
	err := ErrNoInitialData
	if ok {
		err = d.schema.read(ctx, raw, &value)
		var unfit *SchemaError
		switch misfit := errors.As(err, &unfit); {
		case misfit && d.migrate != nil:
			value, err = contain.Do("migration of initial data", func() (T, error) { return d.migrate(raw) })
		case misfit:
			err = fmt.Errorf("%w; migrate them by InitialData.Migrating", err)
		}
	}
	if err != nil {
		return *new(T), fmt.Errorf("get initial data: %w", err)
	}
	return value, nil
}
