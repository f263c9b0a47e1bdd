package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"

	"github.com/parleyrun/parley/agent/internal/seam"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/contain"
)

// StateDefinition is a persistent value of every conversation of an agent. [NewState] returns one.
type StateDefinition interface {
	// Name is the storage key of the value. Values stored under a former name are not found.
	Name() string
	// JSONSchema is the schema of every stored value. The bytes are shared and must not be changed.
	JSONSchema() json.RawMessage
}

// State is a typed value that a conversation keeps between its submissions. It is a handle without a
// value of its own: the context selects the conversation. It is immutable and safe for concurrent use.
//
// Tools, outside of their steps, and hooks up to the settlement may read and write; [Agent.Prepare]
// and [Agent.InstructionsFunc] may only read. A write is visible at once to everything that runs in
// the conversation, and becomes durable
//
//   - with the outcome of the call if a tool wrote it, also when the tool returns an error;
//   - with the record of the hook if a hook wrote it, also when the hook returns an error.
//
// After a crash, a call without a recorded outcome has written nothing, and a call with an outcome has
// written everything. To ensure this, concurrent calls take turns: a write waits until earlier writing
// calls have their outcome. A slow tool should therefore write last.
type State[T any] struct {
	name    string
	schema  *Schema
	initial json.RawMessage
	migrate func(old json.RawMessage) (T, error)
}

var (
	// ErrNoState is returned for a context that is not that of a tool, a hook or Prepare, or whose
	// call is over.
	ErrNoState = errors.New("no conversation in the context: use the context of a tool, a hook or Prepare")
	// ErrStateFull is returned if a call or a hook writes more state than fits into the record of its
	// outcome, 8 MiB. The value is unchanged.
	ErrStateFull = errors.New("state quota exceeded: one call or hook may write at most 8 MiB")
	// ErrReadOnly is returned for a write where state may only be read.
	ErrReadOnly = errors.New("state is read-only here: write it in a tool outside its steps, or in a hook before the settlement")
)

// NewState defines a persistent value. The agent that uses it lists it in [Agent.State].
//
// A conversation that never wrote the value reads initial, decoded from its JSON. The schema is
// derived from T as by [NewTool]. A field that is added to T later has its zero value in older stored
// values; see [State.Migrating] for other changes. The name follows the rule of [NewDataWriter].
// NewState panics for another name, for a type without a schema, and for an invalid initial value,
// because each is a mistake in the program. An initial value must satisfy its type's schema and
// [conversation.CheckPayload].
func NewState[T any](name string, initial T) *State[T] {
	s := &State[T]{name: name}
	err := error(nil)
	if !regexp.MustCompile(dataNamePattern).MatchString(name) {
		err = fmt.Errorf("name does not match %s", dataNamePattern)
	} else if s.schema, err = schemaBy(reflect.TypeFor[T](), nil, reads|writes, false); err == nil {
		s.initial, err = s.write(context.Background(), initial)
	}
	if err == nil {
		_, err = s.read(context.Background(), s.initial)
	}
	if err != nil {
		panic(fmt.Errorf("agent: state %q: %w", name, err))
	}
	return s
}

// Migrating returns the state with a function that decodes stored values which do not fit T any more.
// An example is a value with a field whose type has changed. Get returns its result; the next Set or
// Update stores it. Its error or panic is an error of Get. A field added to T needs no function: it
// gets its zero value.
func (s *State[T]) Migrating(migrate func(old json.RawMessage) (T, error)) *State[T] {
	with := *s
	with.migrate = migrate
	return &with
}

// Name implements [StateDefinition].
func (s *State[T]) Name() string { return s.name }

// JSONSchema implements [StateDefinition].
func (s *State[T]) JSONSchema() json.RawMessage { return s.schema.JSON() }

// Get returns a copy of the value. The error is [ErrNoState], a [*StateError], or the store's.
func (s *State[T]) Get(ctx context.Context) (T, error) {
	var value T
	store, err := storeFrom(ctx)
	if err == nil {
		var raw json.RawMessage
		var ok bool
		if raw, ok, err = store.Get(s.name); err == nil {
			if !ok {
				raw = s.initial
			}
			value, err = s.read(ctx, raw)
		}
	}
	if err != nil {
		return *new(T), fmt.Errorf("get state %s: %w", s.name, err)
	}
	return value, nil
}

// Set replaces the value, also one that does not fit its type any more. A value whose JSON equals the
// stored one is not written again. The first Set is always written, also if it equals the initial
// value, because a later version of the program may change the initial value. One of two concurrent
// Sets is lost; see [State.Update].
//
// A value whose JSON is null, such as a nil map, removes the stored value. It is an error if the
// initial value is not null, because the next Get would return that. The error may also be
// [ErrNoState], [ErrReadOnly], [ErrStateFull], the reason why the value cannot be recorded, the
// store's, or that of ctx: then the value may have been written.
func (s *State[T]) Set(ctx context.Context, value T) error {
	raw, err := s.write(ctx, value)
	if err == nil {
		err = s.update(ctx, func(old json.RawMessage) (json.RawMessage, error) {
			return changed(old, raw), nil
		})
	}
	if err != nil {
		return fmt.Errorf("set state %s: %w", s.name, err)
	}
	return nil
}

// Update replaces the value by the result of change and returns it. No other write of the
// conversation's state runs concurrently, so change must be short and must not use state. It is called
// once and may modify its argument; a panic of it is a [*PanicError]. Otherwise it is like
// [State.Set], and an old value that does not fit is a [*StateError].
func (s *State[T]) Update(ctx context.Context, change func(T) T) (T, error) {
	var after T
	err := s.update(ctx, func(old json.RawMessage) (json.RawMessage, error) {
		current := old
		if current == nil {
			current = s.initial
		}
		before, err := s.read(ctx, current)
		if err != nil {
			return nil, err
		}
		now, err := contain.Do("update of state "+s.name, func() (T, error) { return change(before), nil })
		if err != nil {
			return nil, err
		}
		raw, err := s.write(ctx, now)
		if err != nil {
			return nil, err
		}
		if after, err = s.read(ctx, raw); err != nil {
			return nil, err
		}
		return changed(old, raw), nil
	})
	if err != nil {
		return *new(T), fmt.Errorf("update state %s: %w", s.name, err)
	}
	return after, nil
}

func (s *State[T]) update(ctx context.Context, fn func(old json.RawMessage) (json.RawMessage, error)) error {
	store, err := storeFrom(ctx)
	if err != nil {
		return err
	}
	if ctx.Value(seam.ReadOnly{}) != nil {
		return ErrReadOnly
	}
	return store.Update(ctx, s.name, fn)
}

// stateSteps replaces [MaxSchemaSteps] for state, so that every value that may be stored can be read.
const stateSteps = 8 * conversation.MaxPayloadBytes

// write returns a value's JSON if it may be stored.
func (s *State[T]) write(ctx context.Context, value T) (json.RawMessage, error) {
	raw, err := contain.Encode("value of state "+s.name, value)
	if err != nil {
		return nil, err
	}
	if err := conversation.CheckPayload(raw); err != nil {
		return nil, fmt.Errorf("value %w", err)
	}
	if err := s.schema.validate(ctx, raw, stateSteps); err != nil {
		return nil, err
	}
	if isNull(raw) && s.initial != nil && !isNull(s.initial) {
		return nil, fmt.Errorf("null cannot be stored with the initial value %s", shorten(string(s.initial)))
	}
	return raw, nil
}

// read decodes a stored value. It does not depend on ctx being alive.
func (s *State[T]) read(ctx context.Context, raw json.RawMessage) (value T, err error) {
	v, issues, err := s.schema.decodeStored(context.WithoutCancel(ctx), raw, stateSteps)
	if err != nil {
		return value, err
	}
	if len(issues) == 0 {
		issues = s.schema.fill("value of state "+s.name, v, &value)
	}
	if len(issues) == 0 {
		return value, nil
	}
	if s.migrate != nil {
		return contain.Do("migration of state "+s.name, func() (T, error) { return s.migrate(raw) })
	}
	return *new(T), &StateError{State: s.name, Issues: issues}
}

// changed returns the JSON for the store: nil if the new JSON equals the old one.
func changed(old, now json.RawMessage) json.RawMessage {
	switch {
	case old == nil && isNull(now), old != nil && equalJSON(old, now):
		return nil
	}
	return now
}

func isNull(raw json.RawMessage) bool { return string(raw) == "null" }

// equalJSON compares two values, ignoring the order of members.
func equalJSON(a, b json.RawMessage) bool {
	if string(a) == string(b) {
		return true
	}
	var x, y any
	return contain.Decode("", a, &x) == nil && contain.Decode("", b, &y) == nil && reflect.DeepEqual(x, y)
}

// StateError is returned for a stored value that does not fit its type any more. The stored value
// stays until the next Set.
type StateError struct {
	State  string
	Issues []Issue
}

// Error implements error.
func (e *StateError) Error() string {
	return fmt.Sprintf("stored value of state %s does not fit its type: %s; migrate it by State.Migrating, or set it anew", e.State, joinIssues(e.Issues))
}

// store is agenthost.Store.
type store interface {
	Get(name string) (json.RawMessage, bool, error)
	Update(ctx context.Context, name string, fn func(old json.RawMessage) (json.RawMessage, error)) error
}

func storeFrom(ctx context.Context) (store, error) {
	s, ok := ctx.Value(seam.State{}).(store)
	if !ok {
		return nil, ErrNoState
	}
	return s, nil
}
