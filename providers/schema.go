package providers

import (
	"encoding/json"
	"fmt"
	"strings"
)

// SchemaDialect is the subset of JSON Schema that a server accepts: Compat.ToolSchemas, or derived
// from the model.
type SchemaDialect string

// The dialects.
const (
	// SchemaPlain is accepted by OpenAI, and is the default for other servers.
	SchemaPlain SchemaDialect = "plain"
	// SchemaClaude is for Claude, at Anthropic and on Amazon Bedrock.
	SchemaClaude SchemaDialect = "claude"
	// SchemaConverse is for the other models on Amazon Bedrock.
	SchemaConverse SchemaDialect = "converse"
	// SchemaGemini is for Gemini. SchemaOpenAPI is for other models at Google and for Google's chat
	// completions.
	SchemaGemini  SchemaDialect = "gemini"
	SchemaOpenAPI SchemaDialect = "openapi"
	// SchemaMoonshot is for Moonshot, and for Kimi behind a gateway.
	SchemaMoonshot SchemaDialect = "moonshot"
	// SchemaFireworks is for Fireworks.
	SchemaFireworks SchemaDialect = "fireworks"
)

// SchemaDialects returns the dialects in the column order of SchemaTable.
func SchemaDialects() []SchemaDialect {
	return []SchemaDialect{SchemaPlain, SchemaClaude, SchemaConverse, SchemaGemini, SchemaOpenAPI, SchemaMoonshot, SchemaFireworks}
}

// SchemaUse is the treatment of a schema keyword in a dialect.
type SchemaUse string

// The uses.
const (
	// SchemaSent sends a keyword unchanged.
	SchemaSent SchemaUse = "sent"
	// SchemaRewritten replaces it by other keywords that accept the same values or more.
	SchemaRewritten SchemaUse = "rewritten"
	// SchemaOmitted omits it. Bounds of values are added to the description.
	SchemaOmitted SchemaUse = "omitted"
	// SchemaNamed is SchemaRewritten with a loss of meaning, or SchemaSent although the server rejects
	// it. CheckTool returns a SchemaNote for it.
	SchemaNamed SchemaUse = "named"
)

// SchemaRow is the treatment of one keyword, or one form of a schema, in each dialect.
type SchemaRow struct {
	// Keyword contains the keywords of the row, separated by ", ", or a phrase for a form.
	Keyword string
	// Uses is in the order of SchemaDialects.
	Uses []SchemaUse
}

// Rows of forms, referenced by name below.
const (
	formRoot     = "choices at the root"
	formBoolean  = "`true`, `false` as a schema"
	formRef      = "$ref"
	formLoop     = "$ref of a recursive type"
	formTypeless = "no type"
	formTypes    = "a list of types"
	formSiblings = "keywords next to anyOf"
	formMixed    = "enum of several types"
	formTuple    = "a list in items"
	formNoItems  = "an array without items"
	formName     = "names of properties"
	formRequired = "no required"
)

// SchemaTable returns the treatment of tool schemas by server. A keyword without a row is SchemaSent.
// A sent schema accepts every value that the original accepts. Input is validated against the original
// before a tool runs, so a weaker schema costs a call but never admits a wrong value.
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
		{formSiblings, "= = = = = ~ ~"},
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

// schemaUses contains the columns of SchemaTable by dialect and keyword.
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

// changes reports whether a dialect does not accept a keyword unchanged.
func (d SchemaDialect) changes(keyword string) bool {
	use := schemaUses[d][keyword]
	return use != "" && use != SchemaSent
}

// DialectOf returns the dialect of a model in the wire format of an API.
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

// SchemaNote reports a part of a schema that a server does not accept and that has no equivalent.
type SchemaNote struct {
	// Path is a JSON pointer to the part, "" for the root.
	Path string
	// Keyword is that of the row of SchemaTable.
	Keyword string
	// Problem describes the loss and a remedy.
	Problem string
}

// String returns path and problem.
func (n SchemaNote) String() string {
	if n.Path == "" {
		return n.Problem
	}
	return n.Path + ": " + n.Problem
}

// noParameters is the schema of a tool without arguments.
const noParameters = `{"type":"object","properties":{}}`

// ToolSchema returns the input schema of a tool in the form that the model's server accepts, and the
// losses. A schema that needs no change is returned unchanged. Invalid JSON is an error.
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

// CheckTool returns the parts of a tool that the model's server does not accept. It makes no network
// calls.
func CheckTool(m Model, t Tool) []SchemaNote {
	_, notes, err := ToolSchema(m.API, m, t.InputSchema)
	if err != nil {
		return []SchemaNote{{Problem: fmt.Sprintf("invalid schema: %v", err)}}
	}
	return notes
}

// SentTools returns tools with the schemas of ToolSchema.
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
