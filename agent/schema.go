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

// Schema is a compiled JSON schema of draft 2020-12, or of the draft in its "$schema". Unlike the
// draft's default, "format" is validated. A Schema is immutable and safe for concurrent use.
type Schema struct {
	source   json.RawMessage
	compiled *jsonschema.Schema

	typ  reflect.Type // the Go type of values, nil if there is none
	open bool         // omit members that are not fields of typ

	finish func() (Tool, error) // the finish tool with this input, made once
}

// schemaURL is the base address of a schema during compilation and appears in errors; it is absolute,
// so that it names no folder of this machine. Nothing is loaded from it.
const schemaURL = "agent:///schema.json"

// NewSchema compiles a schema. References may point into the schema itself; a reference to another
// document is an error, because nothing is loaded. So is a dynamic reference ("$dynamicRef",
// "$recursiveRef") in a schema whose parts have an "$id".
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

// survey reports whether a schema has dynamic references, and whether parts of it, or schemas that it
// refers to, have an "$id". Without one of the two every reference resolves to one place. Any member
// of such a name counts, at any place.
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
				dynamic, ids = true, true // Older drafts have both.
			}
		}
	}
	return dynamic, ids
}

// refuse is a loader that rejects all addresses.
type refuse struct{}

// Load implements the library's loader.
func (refuse) Load(string) (any, error) {
	return nil, errors.New("references to other documents are not loaded; put the definition under $defs")
}

// SchemaFor returns the schema of a Go type, as derived by [NewTool]. A pointer, map or slice type
// also accepts null, which makes the value optional. A value that fits the schema but that the type
// cannot hold is invalid too. SchemaFor panics for a type that JSON cannot be decoded into, such as a
// channel, because that is a mistake in the program.
func SchemaFor[T any]() *Schema { return mustSchema(reflect.TypeFor[T](), false) }

// OpenSchemaFor returns a schema like [SchemaFor] that also accepts members which are not fields of T,
// at any depth.
func OpenSchemaFor[T any]() *Schema { return mustSchema(reflect.TypeFor[T](), true) }

func mustSchema(t reflect.Type, open bool) *Schema {
	s, err := schemaBy(t, nil, reads, open)
	if err != nil {
		panic(fmt.Errorf("agent: schema for %v: %w", t, err))
	}
	return s
}

// schemaBy returns the author's schema, or else that of a type.
func schemaBy(t reflect.Type, source json.RawMessage, does direction, open bool) (*Schema, error) {
	if source != nil && open {
		return nil, errors.New("the option Open and a schema are set, and the schema defines which members it accepts; keep one of the two")
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

// Validate validates one JSON value. The error is a [*SchemaError], a [*SchemaBoundError] if the
// validation exceeds a bound, or that of ctx.
//
// Absence is validated too: nil stands for an absent value, which is valid exactly where null is
// valid. A schema with required members rejects it; a schema that allows null makes the value optional
// (see [SchemaFor]).
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

// read decodes a stored value into dst; nil stands for an absent one. The error is that of Validate.
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

// decodeStored decodes a value that an earlier version of the program stored. Members that the schema
// requires may be missing: new fields of the type get their zero value.
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

// decode parses, normalizes and validates a value in at most steps. Without issues and an error the
// first result is valid. The error is a [*SchemaBoundError], that of ctx, or a [*PanicError], because
// a panic over input from outside must not end the process.
func (s *Schema) decode(ctx context.Context, raw json.RawMessage, steps int) (v any, issues []Issue, err error) {
	c, done := newCheck(ctx, steps)
	defer done()
	err = contain.Run("check against a schema", func() (err error) {
		v, issues, err = c.run(s.compiled, raw)
		return err
	})
	return v, issues, err
}
