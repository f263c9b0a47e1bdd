package providers

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Bounds on the output for one schema.
const (
	// maxSchemaNodes bounds the number of schemas, since references are inlined.
	maxSchemaNodes = 10_000
	// maxSchemaHops bounds chains of references and nested choices.
	maxSchemaHops = 32
)

// schemaWriter converts a schema to one dialect. It is used once.
type schemaWriter struct {
	to    SchemaDialect
	whole schemaNode
	// ids maps identifiers to the parts that have one.
	ids map[string]schemaNode
	// under is the stack of references being inlined.
	under []string
	// defs are the remaining definitions, by the names of their references.
	defs  map[string]schemaNode
	names map[string]string
	left  int
	notes []SchemaNote
}

func newSchemaWriter(to SchemaDialect, schema any) *schemaWriter {
	w := &schemaWriter{to: to, ids: map[string]schemaNode{}, defs: map[string]schemaNode{}, names: map[string]string{}, left: maxSchemaNodes}
	w.whole, _ = schema.(schemaNode)
	w.identify(w.whole)
	return w
}

// identify collects the parts of a schema that references can name without a pointer.
func (w *schemaWriter) identify(v any) {
	switch v := v.(type) {
	case schemaNode:
		if id := v.text("$id"); id != "" {
			w.ids[id] = v
		}
		for _, anchor := range []string{v.text("$anchor"), v.text("$dynamicAnchor")} {
			if anchor != "" {
				w.ids["#"+anchor] = v
			}
		}
		for _, m := range v {
			w.identify(m.value)
		}
	case []any:
		for _, item := range v {
			w.identify(item)
		}
	}
}

func (w *schemaWriter) note(path, keyword, format string, args ...any) {
	w.notes = append(w.notes, SchemaNote{Path: path, Keyword: keyword, Problem: fmt.Sprintf(format, args...)})
}

// write returns the whole schema, of type object.
func (w *schemaWriter) write() []byte {
	root := w.flat(w.whole)
	if types := root.texts("type"); len(types) > 0 && !slices.Contains(types, "object") {
		w.note("", "type", "the input is of type %s, and servers take objects alone; use an object with one property", strings.Join(types, " or "))
		root = root.only("description")
	}
	if jsonText(root.get("type")) != "object" {
		root = append(schemaNode{{"type", plainJSON("object")}}, root.without("type")...)
	}
	out, _ := w.schema(root, "")
	if w.to == SchemaConverse {
		out = out.only("type", "properties", "required")
	}
	return appendSchema(nil, w.define(out))
}

// define adds the referenced definitions, those of the schema first.
func (w *schemaWriter) define(out schemaNode) schemaNode {
	var defs schemaNode
	for _, m := range w.whole.node("$defs") {
		if def, ok := w.defs[m.name]; ok {
			defs = append(defs, schemaMember{m.name, def})
		}
	}
	for _, name := range sortedKeys(w.defs) {
		if !defs.has(name) {
			defs = append(defs, schemaMember{name, w.defs[name]})
		}
	}
	if len(defs) == 0 {
		return out.without("$defs")
	}
	return out.with("$defs", defs)
}

// schema converts a schema. ok is false if the schema accepts no value.
func (w *schemaWriter) schema(v any, path string) (out schemaNode, ok bool) {
	if raw, isRaw := v.(json.RawMessage); isRaw && string(raw) == "false" {
		return nil, false
	}
	n, _ := v.(schemaNode)
	if w.left--; w.left < 0 {
		if w.left == -1 {
			w.note(path, formRef, "the schema has more than %d parts with its references inlined, and the rest lets anything through; make it smaller", maxSchemaNodes)
		}
		return w.anything(nil), true
	}
	depth := len(w.under)
	defer func() { w.under = w.under[:depth] }()
	if ref := n.text("$ref"); ref != "" {
		return w.reference(n, ref, path)
	}
	n = w.arrange(n, path)
	return w.finish(w.members(n, path), n, path), true
}

// reference converts a schema that refers to another.
func (w *schemaWriter) reference(n schemaNode, ref, path string) (schemaNode, bool) {
	siblings := n.without("$ref", "$defs", "definitions")
	target, found := w.find(ref)
	switch {
	case !found:
		w.note(path, formRef, "%q leads nowhere, and the place lets anything through; put the definition under $defs", ref)
		return w.schema(siblings, path)
	case !w.to.changes(formRef):
		out := schemaNode{}
		for _, m := range w.members(n, path) {
			if m.name == "$ref" {
				m.value = plainJSON(w.name(ref))
			}
			out = append(out, m)
		}
		return out, true
	case w.loops(ref) && !w.to.changes(formLoop):
		return schemaNode{{"$ref", plainJSON(w.name(ref))}}, true
	case slices.Contains(w.under, ref):
		w.note(path, formLoop, "the server takes no recursive type, so the model sees %s one level deep; describe the deeper levels", refName(ref))
		return w.schema(w.cut(target, siblings, ref), path)
	}
	w.under = append(w.under, ref)
	return w.schema(merged(target, siblings), path)
}

// cut replaces a definition inside itself.
func (w *schemaWriter) cut(target, siblings schemaNode, ref string) schemaNode {
	out := siblings.only("description", "title")
	if t := target.get("type"); t != nil {
		out = out.with("type", t)
	}
	return describe(out, "as "+refName(ref))
}

// refName returns the last part of a reference, for messages.
func refName(ref string) string {
	if ref == "#" {
		return "the input"
	}
	return ref[strings.LastIndexAny(ref, "/#")+1:]
}

// find returns the target of a reference.
func (w *schemaWriter) find(ref string) (schemaNode, bool) {
	if ref == "#" {
		return w.whole, true
	}
	if n, ok := w.ids[ref]; ok {
		return n, true
	}
	pointer, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil, false
	}
	if plain, err := url.PathUnescape(pointer); err == nil {
		pointer = plain
	}
	switch v := w.whole.at(pointer).(type) {
	case schemaNode:
		return v, true
	case json.RawMessage:
		return schemaNode{}, string(v) == "true"
	}
	return nil, false
}

// loops reports whether a reference leads back to itself.
func (w *schemaWriter) loops(ref string) bool {
	seen := map[string]bool{}
	var leads func(v any) bool
	leads = func(v any) bool {
		switch v := v.(type) {
		case schemaNode:
			if next := v.text("$ref"); next != "" && (next == ref || w.follow(next, seen, leads)) {
				return true
			}
			return slices.ContainsFunc(v, func(m schemaMember) bool {
				return m.name != "$defs" && m.name != "definitions" && leads(m.value)
			})
		case []any:
			return slices.ContainsFunc(v, leads)
		}
		return false
	}
	target, _ := w.find(ref)
	return leads(target)
}

func (w *schemaWriter) follow(ref string, seen map[string]bool, leads func(any) bool) bool {
	if seen[ref] {
		return false
	}
	seen[ref] = true
	target, ok := w.find(ref)
	return ok && leads(target)
}

var notInDefs = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// name returns the reference to a remaining definition in the output.
func (w *schemaWriter) name(ref string) string {
	if ref == "#" {
		return ref
	}
	name, ok := w.names[ref]
	if !ok {
		base := notInDefs.ReplaceAllString(refName(ref), "_")
		name = base
		for i := 2; w.taken(name); i++ {
			name = fmt.Sprintf("%s_%d", base, i)
		}
		w.names[ref] = name
		target, _ := w.find(ref)
		depth := len(w.under)
		w.defs[name] = nil
		def, _ := w.schema(target, "/$defs/"+name)
		w.defs[name], w.under = def, w.under[:depth]
	}
	return "#/$defs/" + name
}

func (w *schemaWriter) taken(name string) bool {
	_, ok := w.defs[name]
	return ok
}

// deref returns a schema with its references merged into it. A recursive reference is cut at its
// second occurrence.
func (w *schemaWriter) deref(v any) schemaNode {
	n, _ := v.(schemaNode)
	for range maxSchemaHops {
		ref := n.text("$ref")
		if ref == "" {
			break
		}
		target, found := w.find(ref)
		siblings := n.without("$ref")
		switch {
		case !found:
			n = siblings
		case slices.Contains(w.under, ref):
			n = w.cut(target, siblings, ref)
		default:
			w.under = append(w.under, ref)
			n = merged(target, siblings)
		}
	}
	return n.without("$ref")
}

// subschemas are the keywords whose value is a schema.
var subschemas = []string{
	"not", "if", "then", "else", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties", "additionalItems", "contentSchema",
	"additionalProperties", "items",
}

// members converts the members of a schema and omits those that the dialect does not accept.
func (w *schemaWriter) members(n schemaNode, path string) schemaNode {
	out := make(schemaNode, 0, len(n))
	var bounds []string
	for _, m := range n {
		at := path + "/" + pointerEscapes.Replace(m.name)
		if use := schemaUses[w.to][m.name]; use == SchemaOmitted || use == SchemaRewritten && slices.Contains(boundKeywords, m.name) {
			if m.name != "default" || !w.keepsDefault(n, m.value) {
				bounds = appendBound(bounds, m)
				continue
			}
		}
		switch {
		case m.name == "$defs" || m.name == "definitions":
			if path != "" || m.name == "definitions" {
				continue
			}
		case m.name == "properties" || m.name == "patternProperties" || m.name == "dependentSchemas":
			m.value = w.named(m.value, at, m.name == "properties")
		case slices.Contains(subschemas, m.name):
			m.value = w.subschema(m, at)
		case m.name == "anyOf" || m.name == "oneOf" || m.name == "allOf" || m.name == "prefixItems":
			m.value = w.choices(m.value, at)
		}
		if m.value != nil {
			out = append(out, m)
		}
	}
	if len(bounds) > 0 {
		out = describe(out, strings.Join(bounds, ", "))
	}
	return out
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// subschema converts the value of a keyword in subschemas; nil omits it.
func (w *schemaWriter) subschema(m schemaMember, at string) any {
	_, isBool := boolean(m.value)
	switch {
	case isBool && strings.HasSuffix(m.name, "Properties"):
		return m.value
	case m.name == "additionalProperties" && len(asNode(m.value)) == 0 && w.to.changes(formTypeless):
		return json.RawMessage("true")
	}
	out, ok := w.schema(m.value, at)
	switch {
	case ok:
		return out
	case m.name == "items" || m.name == "not":
		return nil
	case w.to.changes("not"):
		return nil
	}
	return schemaNode{{"not", schemaNode{}}}
}

func asNode(v any) schemaNode {
	n, _ := v.(schemaNode)
	return n
}

func boolean(v any) (value, ok bool) {
	raw, isRaw := v.(json.RawMessage)
	return string(raw) == "true", isRaw && (string(raw) == "true" || string(raw) == "false")
}

// named converts schemas by name and omits those that accept no value.
func (w *schemaWriter) named(v any, at string, properties bool) any {
	n, ok := v.(schemaNode)
	if !ok {
		return schemaNode{}
	}
	out := make(schemaNode, 0, len(n))
	for _, m := range n {
		here := at + "/" + pointerEscapes.Replace(m.name)
		if problem := w.to.nameProblem(m.name); properties && problem != "" {
			w.note(here, formName, "the server refuses the name %q of a property: %s", m.name, problem)
		}
		if s, ok := w.schema(m.value, here); ok {
			out = append(out, schemaMember{m.name, s})
		}
	}
	return out
}

// claudeName matches a property name that Anthropic accepts.
var claudeName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

// nameProblem returns why a dialect rejects a property name, or "".
func (d SchemaDialect) nameProblem(name string) string {
	switch {
	case (d == SchemaClaude || d == SchemaConverse) && !claudeName.MatchString(name):
		return "use 1 to 64 characters of letters, digits, \"_\", \".\" and \"-\""
	case d == SchemaMoonshot && slices.Contains([]string{"$defs", "$ref", "anyOf", "required", "additionalProperties"}, name):
		return "it is a keyword there; use another"
	}
	return ""
}

// choices converts a list of schemas and omits those that accept no value.
func (w *schemaWriter) choices(v any, at string) any {
	var out []any
	list, _ := v.([]any)
	for i, item := range list {
		if s, ok := w.schema(item, fmt.Sprintf("%s/%d", at, i)); ok {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}
