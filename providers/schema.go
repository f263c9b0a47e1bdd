package providers

import (
	"encoding/json"
	"fmt"
	"strings"
)

// SchemaDialect names what a server takes of JSON schemas: Compat.ToolSchemas, or what is derived of a
// model without it.
type SchemaDialect string

// The dialects.
const (
	// SchemaPlain is what OpenAI takes, and is sent to servers without a dialect of their own.
	SchemaPlain SchemaDialect = "plain"
	// SchemaClaude is of Claude, at Anthropic's and on Amazon Bedrock.
	SchemaClaude SchemaDialect = "claude"
	// SchemaConverse is of the other models on Amazon Bedrock.
	SchemaConverse SchemaDialect = "converse"
	// SchemaGemini is of Gemini, SchemaOpenAPI of other models at Google's and of Google's
	// chat-completions.
	SchemaGemini  SchemaDialect = "gemini"
	SchemaOpenAPI SchemaDialect = "openapi"
	// SchemaMoonshot is of Moonshot, and of Kimi behind a gateway.
	SchemaMoonshot SchemaDialect = "moonshot"
	// SchemaFireworks is of Fireworks.
	SchemaFireworks SchemaDialect = "fireworks"
)

// SchemaDialects lists the dialects in the order of the columns of SchemaTable.
func SchemaDialects() []SchemaDialect {
	return []SchemaDialect{SchemaPlain, SchemaClaude, SchemaConverse, SchemaGemini, SchemaOpenAPI, SchemaMoonshot, SchemaFireworks}
}

// SchemaUse is how a keyword of a schema reaches a server.
type SchemaUse string

// The uses.
const (
	// SchemaSent sends a keyword as it is.
	SchemaSent SchemaUse = "sent"
	// SchemaRewritten states it by other keywords, which let the same values through, or more.
	SchemaRewritten SchemaUse = "rewritten"
	// SchemaOmitted leaves it out. Bounds of values stand in the description.
	SchemaOmitted SchemaUse = "left out"
	// SchemaNamed is SchemaRewritten where that loses a part of the meaning, or SchemaSent where the
	// server refuses it: CheckSchema has a SchemaNote on it.
	SchemaNamed SchemaUse = "named"
)

// SchemaRow is what becomes of one keyword, or one form of a schema, in each dialect.
type SchemaRow struct {
	// Keyword has the keywords of the row, separated by ", ", or a phrase for a form.
	Keyword string
	// Uses is in the order of SchemaDialects.
	Uses []SchemaUse
}

// The rows of forms, which the code below asks for by name.
const (
	formRoot     = "choices at the root"
	formBoolean  = "`true`, `false` as a schema"
	formRef      = "$ref"
	formLoop     = "$ref of a recursive type"
	formTypeless = "no type"
	formTypes    = "a list of types"
	formBeside   = "keywords beside anyOf"
	formMixed    = "enum of several types"
	formTuple    = "a list in items"
	formNoItems  = "an array without items"
	formName     = "names of properties"
	formRequired = "no required"
)

// SchemaTable is the one table of what servers take of the schemas of tools. A keyword without a row is
// SchemaSent. What is sent lets every value through that the schema does: input is checked against the
// schema itself before a tool runs, so a server that knows less of it costs a call, and no value.
func SchemaTable() []SchemaRow {
	const (
		sent = "="
		turn = "~"
		omit = "-"
		name = "!"
	)
	uses := map[string]SchemaUse{sent: SchemaSent, turn: SchemaRewritten, omit: SchemaOmitted, name: SchemaNamed}
	var rows []SchemaRow
	for _, r := range []struct{ keyword, uses string }{
		// In the order of SchemaDialects: plain, claude, converse, gemini, openapi, moonshot, fireworks.
		{formRoot, "~ ~ ~ ~ ~ ~ ~"},
		{formBoolean, "~ ~ ~ ~ ~ ~ ~"},
		{formRef, "= = ~ ~ ~ ~ ~"},
		{formLoop, "= = ! = ! = !"},
		{formTypeless, "= = = = = ~ ~"},
		{formTypes, "= = = = ~ ~ ~"},
		{formBeside, "= = = = = ~ ~"},
		{formMixed, "= = = ~ ~ ~ ~"},
		{formTuple, "~ ~ ~ ~ ~ ~ ~"},
		{formNoItems, "~ ~ ~ ~ ~ = ="},
		{formRequired, "= = = = = ~ ="},
		{formName, "= ! ! = = ! ="},
		{"const", "= = = ~ ~ ~ ~"},
		{"oneOf", "= = = = ~ ~ ~"},
		{"allOf", "= = = = ~ ~ ~"},
		{"not, if, then, else", "= = = = - - -"},
		{"additionalProperties", "= = = = - = ="},
		{"patternProperties, propertyNames, minProperties, maxProperties", "= = = = - - -"},
		{"dependencies, dependentRequired, dependentSchemas, unevaluatedProperties, unevaluatedItems", "= = = = - - -"},
		{"prefixItems", "= = = = ~ ~ ~"},
		{"contains, minContains, maxContains, additionalItems", "= = = = - - -"},
		{"minItems, maxItems, minimum, maximum, minLength, maxLength, pattern", "= = = = = - ="},
		{"exclusiveMinimum, exclusiveMaximum, multipleOf, uniqueItems", "= = = = - - ="},
		{"format", "= = = = - - ="},
		{"default", "= = = = = ~ ="},
		{"examples, example, deprecated, readOnly, writeOnly, contentEncoding, contentMediaType, contentSchema", "= = = = - - -"},
		{"$schema, $id, id, $comment, $anchor, $dynamicAnchor, $vocabulary", "- - - - - - -"},
	} {
		row := SchemaRow{Keyword: r.keyword}
		for _, u := range strings.Fields(r.uses) {
			row.Uses = append(row.Uses, uses[u])
		}
		rows = append(rows, row)
	}
	return rows
}

// schemaUses are the columns of SchemaTable by dialect and keyword.
var schemaUses = func() map[SchemaDialect]map[string]SchemaUse {
	out := map[SchemaDialect]map[string]SchemaUse{}
	for column, dialect := range SchemaDialects() {
		out[dialect] = map[string]SchemaUse{}
		for _, row := range SchemaTable() {
			for _, keyword := range strings.Split(row.Keyword, ", ") {
				out[dialect][keyword] = row.Uses[column]
			}
			out[dialect][row.Keyword] = row.Uses[column]
		}
	}
	return out
}()

// changes reports whether a dialect does not take a keyword as it is.
func (d SchemaDialect) changes(keyword string) bool {
	use := schemaUses[d][keyword]
	return use != "" && use != SchemaSent
}

// DialectOf returns the dialect of a model that is called in the wire format of an API.
func DialectOf(api string, m Model) SchemaDialect {
	if d := SchemaDialect(m.Compat.ToolSchemas); schemaUses[d] != nil {
		return d
	}
	id := strings.ToLower(m.ID)
	switch api {
	case "google-generative-ai", "google-vertex":
		bare := id[strings.LastIndexByte(id, '/')+1:]
		if strings.HasPrefix(bare, "claude-") || strings.HasPrefix(bare, "gpt-oss-") {
			return SchemaOpenAPI
		}
		return SchemaGemini
	case "bedrock-converse-stream":
		if strings.Contains(id, "claude") {
			return SchemaClaude
		}
		return SchemaConverse
	}
	switch host := Host(m); {
	case Under(host, "fireworks.ai"), m.Provider == "fireworks":
		return SchemaFireworks
	case Under(host, "moonshot.ai"), Under(host, "moonshot.cn"), Under(host, "kimi.com"), strings.HasPrefix(m.Provider, "moonshotai"),
		m.Provider == "kimi-coding", strings.Contains(id, "kimi"):
		return SchemaMoonshot
	case Under(host, "googleapis.com"):
		return SchemaOpenAPI
	case api == "anthropic-messages", strings.Contains(id, "claude"):
		return SchemaClaude
	}
	return SchemaPlain
}

// SchemaNote is a part of a schema that a server does not take and that has no equal form.
type SchemaNote struct {
	// Path is a JSON pointer to the part, "" for the whole.
	Path string
	// Keyword is that of the row of SchemaTable.
	Keyword string
	// Problem states what is lost, and a remedy.
	Problem string
}

// String returns place and problem.
func (n SchemaNote) String() string {
	if n.Path == "" {
		return n.Problem
	}
	return n.Path + ": " + n.Problem
}

// noParameters is the schema of a tool without arguments.
const noParameters = `{"type":"object","properties":{}}`

// ToolSchema returns the schema of a tool's input as the server of a model takes it in the wire format of
// an API, and what is lost by that. A schema that needs no change is returned as it is. The error is of
// what is no JSON.
func ToolSchema(api string, m Model, schema json.RawMessage) (json.RawMessage, []SchemaNote, error) {
	if len(schema) == 0 {
		schema = json.RawMessage(noParameters)
	}
	v, err := parseSchema(schema)
	if err != nil {
		return nil, nil, err
	}
	r := newSchemaWriter(DialectOf(api, m), v)
	sent := r.write()
	if was := appendSchema(nil, v); string(was) == string(sent) {
		return schema, r.notes, nil
	}
	return sent, r.notes, nil
}

// CheckTool returns what the server of a model does not take of a tool, in sentences. It contacts no
// server.
func CheckTool(m Model, t Tool) []SchemaNote {
	_, notes, err := ToolSchema(m.API, m, t.InputSchema)
	if err != nil {
		return []SchemaNote{{Problem: fmt.Sprintf("the schema cannot be read: %v", err)}}
	}
	return notes
}

// SentTools returns tools with the schemas that ToolSchema returns.
func SentTools(api string, m Model, tools []Tool) ([]Tool, error) {
	if len(tools) == 0 {
		return nil, nil
	}
	out := make([]Tool, len(tools))
	for i, t := range tools {
		sent, _, err := ToolSchema(api, m, t.InputSchema)
		if err != nil {
			return nil, fmt.Errorf("encode tool %q: %w", t.Name, err)
		}
		t.InputSchema = sent
		out[i] = t
	}
	return out, nil
}
