package observability

import (
	"embed"
	"maps"
	"slices"
)

// schemaFiles holds schema/v3.json, which a test compares with the structs.
//
//go:embed schema/v3.json
var schemaFiles embed.FS

// Schema returns the JSON Schema (draft 2020-12) of every event of [Version]. It allows additional
// fields, because later releases may add some. The caller owns the bytes.
func Schema() []byte {
	b, err := schemaFiles.ReadFile("schema/v3.json")
	if err != nil {
		panic(err) // embedded file
	}
	return b
}

// Types returns the types of events in alphabetical order. The caller owns the slice.
func Types() []Type { return slices.Sorted(maps.Keys(payloads())) }
