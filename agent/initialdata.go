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

// InitialData defines the Go type of a conversation's initial data. [Agent.InitialData] takes its
// schema, which validates the first delivery; tools, hooks, [Agent.Prepare] and
// [Agent.InstructionsFunc] read the data from their context. It holds no value itself. It is immutable
// and safe for concurrent use.
type InitialData[T any] struct {
	schema  *Schema
	migrate func(old json.RawMessage) (T, error)
}

// InitialDataOptions are the options of [NewInitialData].
type InitialDataOptions struct {
	// Schema replaces the schema derived from the type, for bounds and enumerations.
	Schema json.RawMessage

	// Open accepts members that are not fields of the type, at any depth. They are stored with the
	// conversation and omitted from the result of Get.
	Open bool
}

// ErrNoInitialData is returned for a context that is not one of a tool, a hook, Prepare or
// InstructionsFunc. A conversation without initial data is not an error, see [InitialData.Get].
var ErrNoInitialData = errors.New("no conversation in the context: use the context of a tool, a hook, Prepare or InstructionsFunc")

// NewInitialData defines initial data of type T. The schema is derived from T as by [NewTool], but T
// need not be an object; a pointer makes the data optional. NewInitialData panics for a type or schema
// that cannot be compiled, because that is a mistake in the program.
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

// Migrating returns the initial data with a function that decodes data which do not fit T any more,
// nil if the conversation has none. Get returns its value or error; a panic of it is an error too. A
// field added to T needs no function: it gets its zero value.
func (d *InitialData[T]) Migrating(migrate func(old json.RawMessage) (T, error)) *InitialData[T] {
	with := *d
	with.migrate = migrate
	return &with
}

// Schema returns the schema for [Agent.InitialData].
func (d *InitialData[T]) Schema() *Schema { return d.schema }

// Get returns the initial data of the conversation; the zero value of a pointer if there is none.
//
// A field added to T since the conversation was created has its zero value. The error is
// [ErrNoInitialData], or a [*SchemaError] if the data do not fit otherwise and there is no
// [InitialData.Migrating].
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
