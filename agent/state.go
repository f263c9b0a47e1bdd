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

// StateDefinition is one persistent value of every conversation of an agent.
// [NewState] makes one.
type StateDefinition interface {
	// Name is what the value is stored under. Renaming it leaves the stored values
	// behind.
	Name() string
	// JSONSchema is what every stored value fits. The bytes are shared and must not
	// be changed.
	JSONSchema() json.RawMessage
}

// State is a value that a conversation keeps between its submissions, typed and
// checked. It is a handle and holds no value itself: the context says which
// conversation is meant. It is immutable and safe for concurrent use.
//
// Tools, outside of their steps, and hooks up to the settlement read and write;
// [Agent.Prepare] and [Agent.InstructionsFunc] only read. A write is seen at once
// by everything that runs in the conversation, and becomes durable
//
//   - with the outcome of the call if a tool wrote it, also when the tool returns
//     an error;
//   - with what is recorded of the hook if a hook wrote it, also when the hook
//     returns an error.
//
// So after a crash a call without a recorded outcome has written nothing, and one
// with an outcome has written everything. For that, calls that run side by side take
// turns: a write waits until a call that has written before it has its outcome. A tool
// that takes long writes last.
type State[T any] struct {
	name    string
	schema  *Schema
	initial json.RawMessage
	migrate func(old json.RawMessage) (T, error)
}

var (
	// ErrNoState says that there is no conversation whose state could be meant: the
	// context is not one that a tool, a hook or Prepare was handed, or their call is
	// over.
	ErrNoState = errors.New("there is no conversation to keep state: use the context of a tool, a hook or Prepare")
	// ErrStateFull says that a call or a hook has written more state than is recorded with
	// its outcome: 8 MiB. Nothing of the value was taken.
	ErrStateFull = errors.New("more state is written than is recorded together: at most 8 MiB by one call or hook")
	// ErrReadOnly says that state may only be read here.
	ErrReadOnly = errors.New("state is only read here: write it in a tool, outside of its steps, or in a hook before the settlement")
)

// NewState names a persistent value. The agent that uses it lists it in
// [Agent.State].
//
// A conversation that never wrote the value reads initial, as JSON brings it back.
// The schema is derived from T as [NewTool] derives one. A field that is added to T later
// has its zero value where a stored value lacks it; see [State.Migrating] for other changes. The name
// follows the rule of [NewDataWriter]. NewState panics for another name, for a type
// without a schema, and for an initial value that does not fit its own type's
// schema or [conversation.CheckPayload]: each is a mistake in the program.
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

// Migrating returns the state with a function that reads stored values which do not fit T any more, such as those of a
// field that has another type now. What it returns is what Get returns; it is stored by the next Set or Update. An
// error or a panic of it is that of Get. A field that T has got needs no function: it has its zero value.
func (s *State[T]) Migrating(migrate func(old json.RawMessage) (T, error)) *State[T] {
	with := *s
	with.migrate = migrate
	return &with
}

// Name implements [StateDefinition].
func (s *State[T]) Name() string { return s.name }

// JSONSchema implements [StateDefinition].
func (s *State[T]) JSONSchema() json.RawMessage { return s.schema.JSON() }

// Get returns the value, which the caller may change: it is a copy. The error is
// [ErrNoState], a [*StateError], or the store's.
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

// Set replaces the value, also one that no longer fits its type. A value whose
// JSON equals the stored one is not written again; the first Set is, even if it
// equals the initial value, which a later version of the program may change. Of
// two Sets at the same time one is lost; see [State.Update].
//
// A value whose JSON is null, such as a nil map, removes what is stored. It is an
// error where the initial value is another one, because that is what would be read
// next. The error may also be [ErrNoState], [ErrReadOnly], [ErrStateFull], one that
// says why the value cannot be recorded, the store's, or that of ctx: then it is not
// known whether the value was taken.
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

// Update replaces the value by what change makes of it and returns that, as the
// next Get would. Nothing else writes the conversation's state meanwhile, so
// change is short and does not use state itself. It is called once and may change
// what it is handed; a panic of it is a [*PanicError]. Everything else is as for [State.Set], and an old value that
// no longer fits is a [*StateError].
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

// stateSteps is what checking a value may take instead of [MaxSchemaSteps]: its schema is
// that of a type, and whatever may be stored can be read again.
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
		return nil, fmt.Errorf("null cannot be stored beside the initial value %s", shorten(string(s.initial)))
	}
	return raw, nil
}

// read returns the value of stored JSON. That is there also when ctx has ended.
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

// changed returns what a store has to take: nil where the new JSON says what the
// old one said.
func changed(old, now json.RawMessage) json.RawMessage {
	switch {
	case old == nil && isNull(now), old != nil && equalJSON(old, now):
		return nil
	}
	return now
}

func isNull(raw json.RawMessage) bool { return string(raw) == "null" }

// equalJSON compares two values without regard to the order of members.
func equalJSON(a, b json.RawMessage) bool {
	if string(a) == string(b) {
		return true
	}
	var x, y any
	return contain.Decode("", a, &x) == nil && contain.Decode("", b, &y) == nil && reflect.DeepEqual(x, y)
}

// StateError says that a stored value does not fit its type any more. What is
// stored stays until it is set anew.
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
