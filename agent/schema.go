package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/parleyrun/parley/internal/contain"
)

// Schema is a compiled JSON schema of draft 2020-12, or of the draft its
// "$schema" names. Unlike the draft's default, "format" is checked. A Schema is
// immutable and safe for concurrent use.
type Schema struct {
	source   json.RawMessage
	compiled *jsonschema.Schema

	typ  reflect.Type // that values are decoded to, nil if they are not
	open bool         // members that are no field of it are left out

	finish func() (Tool, error) // the tool whose input it is, made once
}

// schemaURL is the base address of a schema while it is compiled, and stands in
// errors; it is absolute, so that it names no folder of this machine. Nothing is ever
// loaded from it.
const schemaURL = "agent:///schema.json"

// NewSchema compiles a schema. References may point into the schema itself; one
// that points elsewhere is an error, because nothing is loaded. So is a dynamic one
// ("$dynamicRef", "$recursiveRef") in a schema of which parts have an "$id".
func NewSchema(source json.RawMessage) (*Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(source))
	if err != nil {
		return nil, fmt.Errorf("parse schema: %w", err)
	}
	if dynamic, ids := survey(doc, true); dynamic && ids {
		return nil, errors.New("compile schema: \"$dynamicRef\" and \"$recursiveRef\" are not followed into definitions with an \"$id\" of their own; use \"$ref\"")
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(refuse{})
	c.UseRegexpEngine(newPattern)
	c.AssertFormat()
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, fmt.Errorf("compile schema: %w", err)
	}
	compiled, err := c.Compile(schemaURL)
	if err != nil {
		return nil, fmt.Errorf("compile schema: %w", err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, source); err != nil {
		return nil, fmt.Errorf("parse schema: %w", err)
	}
	s := &Schema{source: compact.Bytes(), compiled: compiled}
	s.finish = sync.OnceValues(func() (Tool, error) { return finishTool(s) })
	return s, nil
}

// survey reports whether a schema has references that depend on how it was reached, and
// whether parts of it, or schemas that it refers to, are resources of their own. Without
// the one or the other every reference leads to one place. What looks like either counts,
// wherever it stands.
func survey(doc any, root bool) (dynamic, ids bool) {
	add := func(v any) {
		d, i := survey(v, false)
		dynamic, ids = dynamic || d, ids || i
	}
	switch doc := doc.(type) {
	case []any:
		for _, v := range doc {
			add(v)
		}
	case map[string]any:
		for name, v := range doc {
			text, ok := v.(string)
			switch {
			case !ok:
				add(v)
			case name == "$dynamicRef", name == "$recursiveRef":
				dynamic = true
			case name == "$id":
				ids = ids || !root
			case name == "$ref" && strings.HasPrefix(text, "https://json-schema.org/draft/20"):
				dynamic, ids = true, true // as those are
			}
		}
	}
	return dynamic, ids
}

// refuse is a loader that knows no address.
type refuse struct{}

// Load implements the library's loader.
func (refuse) Load(string) (any, error) {
	return nil, errors.New("references to other documents are not loaded; put the definition under $defs")
}

// SchemaFor returns the schema of a Go type, as [NewTool] derives it. A pointer, map or
// slice type also accepts null, which makes the value optional. A value that fits the schema
// and that the type cannot hold does not fit either. SchemaFor panics for a type that JSON
// cannot be decoded to, such as a channel: that is a mistake in the program, and the call
// usually initializes a variable.
func SchemaFor[T any]() *Schema { return mustSchema(reflect.TypeFor[T](), false) }

// OpenSchemaFor is [SchemaFor] for a schema that lets members through which are no field of T, at any
// depth.
func OpenSchemaFor[T any]() *Schema { return mustSchema(reflect.TypeFor[T](), true) }

func mustSchema(t reflect.Type, open bool) *Schema {
	s, err := schemaBy(t, nil, reads, open)
	if err != nil {
		panic(fmt.Errorf("agent: schema for %v: %w", t, err))
	}
	return s
}

// schemaBy returns the schema that an author has written, or else that of a type.
func schemaBy(t reflect.Type, source json.RawMessage, does direction, open bool) (*Schema, error) {
	if source != nil && open {
		return nil, errors.New("the option Open is set beside a schema, which says itself what it lets through; keep one of the two")
	}
	if source == nil {
		doc, err := derive(t, does, open)
		if err == nil {
			source, err = contain.Encode("schema", doc)
		}
		if err != nil {
			return nil, err
		}
	}
	s, err := NewSchema(source)
	if err == nil && does&reads != 0 {
		s.typ, s.open = t, open
	}
	return s, err
}

// JSON returns the schema as one line of JSON. The bytes are shared and must not
// be changed.
func (s *Schema) JSON() json.RawMessage { return s.source }

// Validate checks one JSON value. The error is a [*SchemaError]; a
// [*SchemaBoundError] if checking it would take too much; or that of ctx, with which
// a check ends that takes more than a moment.
//
// Absence is validated too: nil stands for a value that was not sent. It is valid
// exactly where null is valid, so a schema with required members rejects it, and
// an author who wants the value to be optional allows null (see [SchemaFor]).
func (s *Schema) Validate(ctx context.Context, raw json.RawMessage) error {
	return s.validate(ctx, raw, MaxSchemaSteps)
}

func (s *Schema) validate(ctx context.Context, raw json.RawMessage, steps int) error {
	absent := raw == nil
	if absent {
		raw = json.RawMessage("null")
	}
	v, issues, err := s.decode(ctx, raw, steps)
	if err == nil && len(issues) == 0 {
		issues, err = s.fits(v)
	}
	switch {
	case err != nil:
		return err
	case len(issues) == 0:
		return nil
	case absent:
		return &SchemaError{Issues: []Issue{{Problem: "is required, but was not sent"}}}
	}
	return &SchemaError{Issues: issues}
}

// read fills dst with a stored value; nil stands for one that was not sent. The error is that of
// Validate.
func (s *Schema) read(ctx context.Context, raw json.RawMessage, dst any) error {
	if raw == nil {
		return s.Validate(ctx, nil)
	}
	v, issues, err := s.decodeStored(ctx, raw, MaxSchemaSteps)
	if err != nil {
		return err
	}
	if len(issues) == 0 {
		issues = s.fill("value", v, dst)
	}
	if len(issues) > 0 {
		return &SchemaError{Issues: issues}
	}
	return nil
}

// decodeStored is decode of a value that an earlier version of the program has stored. Members that the schema
// requires may be missing: fields that the type has got since have their zero value.
func (s *Schema) decodeStored(ctx context.Context, raw json.RawMessage, steps int) (v any, issues []Issue, err error) {
	v, issues, err = s.decode(ctx, raw, steps)
	if err != nil || len(issues) == 0 {
		return v, issues, err
	}
	c, done := newCheck(ctx, steps)
	defer done()
	c.stored = true
	err = contain.Run("check against a schema", func() (err error) {
		v, issues, err = c.run(s.compiled, raw)
		return err
	})
	return v, issues, err
}

// decode parses, normalizes and validates a value in so many steps. Without issues and an error the
// first result is valid. The error is a [*SchemaBoundError] or that of ctx; or a
// [*PanicError], since a value from outside must not end a process by a flaw in here.
func (s *Schema) decode(ctx context.Context, raw json.RawMessage, steps int) (v any, issues []Issue, err error) {
	c, done := newCheck(ctx, steps)
	defer done()
	err = contain.Run("check against a schema", func() (err error) {
		v, issues, err = c.run(s.compiled, raw)
		return err
	})
	return v, issues, err
}
