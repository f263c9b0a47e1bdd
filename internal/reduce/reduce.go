// Package reduce maintains a conversation like a client without Go types: a snapshot of plain JSON,
// changed by chunks as docs/protocol.md specifies. Tests compare the result with the server's fold.
//
// The caller decodes the JSON, in the same way for both sides of a comparison. A Document belongs to
// one goroutine.
package reduce

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Object is a JSON object.
type Object = map[string]any

// Document is the state of a conversation, maintained by the rules for clients. It is strict: anything
// that a client would ignore or could not parse is an error.
type Document struct {
	Root  Object
	batch int64
	index int64
}

// New returns a Document of a snapshot, or an empty one for nil.
func New(root Object) *Document {
	if root == nil {
		root = Object{"v": json.Number("1"), "messages": []any{}, "settlements": []any{}}
	}
	return &Document{Root: root, batch: -1}
}

// Members lists the members of each type of chunk in addition to type, conversationId and position; a
// question mark marks an optional member.
var Members = map[string]string{
	"conversation-reset": "snapshot",
	"message-appended":   "message",
	"message-started":    "messageId submissionId? turnId? metadata? timestamp?",
	"message-metadata":   "messageId metadata",
	"data-part":          "messageId name data",
	"message-delta":      "messageId kind delta",
	"tool-input":         "messageId toolCallId toolName input timestamp?",
	"tool-output":        "toolCallId output durationMs? timestamp?",
	"tool-output-error":  "toolCallId errorText durationMs? timestamp?",
	"message-completed":  "messageId timestamp?",
	"submission-settled": "submissionId outcome error? timestamp?",
}

// CheckMembers returns an error if a chunk lacks a member or has an unknown one.
func CheckMembers(chunk Object) error {
	list, ok := Members[fmt.Sprint(chunk["type"])]
	if !ok {
		return fmt.Errorf("unknown chunk type %v", chunk["type"])
	}
	allowed := strings.Fields("type conversationId position " + list)
	for _, name := range allowed {
		if _, ok := chunk[name]; !ok && !strings.HasSuffix(name, "?") {
			return fmt.Errorf("%v lacks %s", chunk["type"], name)
		}
	}
	for name := range chunk {
		if !slices.Contains(allowed, name) && !slices.Contains(allowed, name+"?") {
			return fmt.Errorf("%v has %s", chunk["type"], name)
		}
	}
	return nil
}

// Page applies the chunks of one read that ended at the offset next.
func (d *Document) Page(chunks []any, next string) error {
	for _, v := range chunks {
		chunk := v.(Object)
		if err := d.Apply(chunk); err != nil {
			return fmt.Errorf("chunk %v: %w", chunk["position"], err)
		}
		at := chunk["position"].(Object)
		batch, _ := at["batch"].(json.Number).Int64()
		index, _ := at["index"].(json.Number).Int64()
		if batch < d.batch || batch == d.batch && index <= d.index {
			return fmt.Errorf("position %d/%d is not after %d/%d", batch, index, d.batch, d.index)
		}
		d.batch, d.index = batch, index
		if chunk["conversationId"] != d.Root["conversationId"] {
			return fmt.Errorf("conversationId is %v", chunk["conversationId"])
		}
	}
	d.Root["offset"] = next
	return nil
}

// Apply applies one chunk.
func (d *Document) Apply(chunk Object) error {
	if err := CheckMembers(chunk); err != nil {
		return err
	}
	switch chunk["type"] {
	case "conversation-reset":
		d.Root = chunk["snapshot"].(Object)
		return nil
	case "message-appended":
		m := chunk["message"].(Object)
		if d.message(m["id"]) != nil {
			return fmt.Errorf("message %v exists", m["id"])
		}
		d.add("messages", m)
		return nil
	case "submission-settled":
		d.add("settlements", only(chunk, "submissionId", "outcome", "error"))
		return nil
	case "tool-output", "tool-output-error":
		return d.output(chunk)
	case "message-started":
		if d.message(chunk["messageId"]) == nil {
			m := only(chunk, "submissionId", "turnId", "metadata")
			m["id"], m["role"], m["purpose"], m["display"] = chunk["messageId"], "assistant", "assistant", "visible"
			m["parts"] = []any{}
			d.add("messages", m)
		}
		return nil
	}
	m := d.message(chunk["messageId"])
	if m == nil {
		return fmt.Errorf("message %v is unknown", chunk["messageId"])
	}
	change(m, chunk)
	return nil
}

// change applies a chunk to a known response.
func change(m, chunk Object) {
	parts := m["parts"].([]any)
	open := streaming(parts)
	closed := func() {
		if open != nil {
			open["state"] = "done"
		}
	}
	switch chunk["type"] {
	case "message-metadata":
		old, _ := m["metadata"].(Object)
		m["metadata"] = deepMerge(old, chunk["metadata"].(Object))
	case "data-part":
		part := Object{"type": "data-" + chunk["name"].(string), "data": chunk["data"]}
		same := func(p any) bool { return p.(Object)["type"] == part["type"] }
		if i := slices.IndexFunc(parts, same); i >= 0 {
			parts[i] = part
			return
		}
		m["parts"] = append(parts, part)
	case "message-delta":
		if open != nil && open["type"] == chunk["kind"] {
			open["text"] = open["text"].(string) + chunk["delta"].(string)
			return
		}
		closed()
		m["parts"] = append(parts, Object{"type": chunk["kind"], "text": chunk["delta"], "state": "streaming"})
	case "tool-input":
		closed()
		p := only(chunk, "toolCallId", "toolName", "input")
		p["type"], p["state"] = "dynamic-tool", "input-available"
		m["parts"] = append(parts, p)
	case "message-completed":
		for _, p := range parts {
			if p := p.(Object); p["state"] == "streaming" {
				p["state"] = "done"
			}
		}
	}
}

func (d *Document) output(chunk Object) error {
	for _, m := range slices.Backward(d.Root["messages"].([]any)) {
		for _, v := range m.(Object)["parts"].([]any) {
			p := v.(Object)
			if p["toolCallId"] == nil || p["toolCallId"] != chunk["toolCallId"] {
				continue
			}
			if p["state"] != "input-available" {
				return fmt.Errorf("call %v is %v", p["toolCallId"], p["state"])
			}
			p["state"] = "output-available"
			if chunk["type"] == "tool-output-error" {
				p["state"] = "output-error"
			}
			maps.Copy(p, only(chunk, "output", "errorText", "durationMs"))
			return nil
		}
	}
	return fmt.Errorf("call %v is unknown", chunk["toolCallId"])
}

func (d *Document) add(list string, o Object) { d.Root[list] = append(d.Root[list].([]any), o) }

func (d *Document) message(id any) Object {
	for _, m := range slices.Backward(d.Root["messages"].([]any)) {
		if m.(Object)["id"] == id {
			return m.(Object)
		}
	}
	return nil
}

func streaming(parts []any) Object {
	if len(parts) == 0 {
		return nil
	}
	if p := parts[len(parts)-1].(Object); p["state"] == "streaming" {
		return p
	}
	return nil
}

// only returns the members of o that have one of the names.
func only(o Object, names ...string) Object {
	out := Object{}
	for _, name := range names {
		if v, ok := o[name]; ok {
			out[name] = v
		}
	}
	return out
}

func deepMerge(dst, src Object) Object {
	out := Object{}
	maps.Copy(out, dst)
	for k, v := range src {
		if k == "__proto__" || k == "constructor" || k == "prototype" {
			continue
		}
		if o, ok := v.(Object); ok {
			old, _ := out[k].(Object)
			v = deepMerge(old, o)
		}
		out[k] = v
	}
	return out
}
