package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"

	infer "github.com/google/jsonschema-go/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Schema is a compiled JSON schema of draft 2020-12, or of the draft its
// "$schema" names. Unlike the draft's default, "format" is checked. A Schema is
// immutable and safe for concurrent use.
type Schema struct {
	source   json.RawMessage
	compiled *jsonschema.Schema
}

// schemaURL is the base address of a schema while it is compiled, and stands in
// errors; it is absolute, so that it names no folder of this machine. Nothing is ever
// loaded from it.
const schemaURL = "agent:///schema.json"

// NewSchema compiles a schema. References may point into the schema itself; one
// that points elsewhere is an error, because nothing is loaded.
func NewSchema(source json.RawMessage) (*Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(source))
	if err != nil {
		return nil, fmt.Errorf("parse schema: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(refuse{})
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
	return &Schema{source: compact.Bytes(), compiled: compiled}, nil
}

// refuse is a loader that knows no address.
type refuse struct{}

// Load implements the library's loader.
func (refuse) Load(string) (any, error) {
	return nil, errors.New("references to other documents are not loaded; put the definition under $defs")
}

// SchemaFor returns the schema of a Go type, as [NewTool] derives it. A pointer
// type also accepts null, which makes the value optional. It panics for a type
// that has no JSON form, such as a channel: that is a mistake in the program, and
// the call usually initializes a variable.
func SchemaFor[T any]() *Schema {
	s, err := schemaOf(reflect.TypeFor[T]())
	if err != nil {
		panic(fmt.Errorf("agent: schema for %v: %w", reflect.TypeFor[T](), err))
	}
	return s
}

// schemaOf derives and compiles the schema of a type. Types whose JSON form is
// not the one of their kind are listed here.
func schemaOf(t reflect.Type) (*Schema, error) {
	s, err := infer.ForType(t, &infer.ForOptions{TypeSchemas: map[reflect.Type]*infer.Schema{
		reflect.TypeFor[json.RawMessage](): {},
		reflect.TypeFor[json.Number]():     {Type: "number"},
		reflect.TypeFor[big.Int]():         {Type: "integer"},
		reflect.TypeFor[[]byte]():          {Type: "string", ContentEncoding: "base64"},
	}})
	if err != nil {
		return nil, err
	}
	source, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	return NewSchema(source)
}

// JSON returns the schema as one line of JSON. The bytes are shared and must not
// be changed.
func (s *Schema) JSON() json.RawMessage { return s.source }

// Validate checks one JSON value. The error is a [*SchemaError].
//
// Absence is validated too: nil stands for a value that was not sent. It is valid
// exactly where null is valid, so a schema with required members rejects it, and
// an author who wants the value to be optional allows null (see [SchemaFor]).
func (s *Schema) Validate(raw json.RawMessage) error {
	absent := raw == nil
	if absent {
		raw = json.RawMessage("null")
	}
	_, issues := s.decode(raw)
	switch {
	case len(issues) == 0:
		return nil
	case absent:
		return &SchemaError{Issues: []Issue{{Problem: "is required, but was not sent"}}}
	}
	return &SchemaError{Issues: issues}
}

// decode parses, normalizes and validates a value. Without issues the first
// result is valid.
func (s *Schema) decode(raw json.RawMessage) (any, []Issue) {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, []Issue{{Problem: "is not valid JSON: " + err.Error()}}
	}
	v, issues := normalize(v, "")
	if len(issues) > 0 {
		return nil, sortIssues(issues)
	}
	if err := s.compiled.Validate(v); err != nil {
		var invalid *jsonschema.ValidationError
		if !errors.As(err, &invalid) {
			return nil, []Issue{{Problem: err.Error()}}
		}
		return nil, sortIssues(leaves(invalid, nil))
	}
	return v, nil
}
