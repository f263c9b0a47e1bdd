package observability

import (
	"embed"
	"maps"
	"slices"
)

// schemaFiles holds schema/v3.json, which a test holds against the structs.
//
//go:embed schema/v3.json
var schemaFiles embed.FS

// Schema returns the JSON Schema (draft 2020-12) of every event of [Version]. It allows
// fields that it does not name, because later releases may add some. The bytes are the
// caller's.
func Schema() []byte {
	b, err := schemaFiles.ReadFile("schema/v3.json")
	if err != nil {
		panic(err) // it is part of the program
	}
	return b
}

// Types returns the types of events in alphabetical order. The slice is the caller's.
func Types() []Type { return slices.Sorted(maps.Keys(payloads())) }
