package chaos

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/parleyrun/parley/conversation"
)

type object = map[string]any

// document is a conversation as a client keeps it: the snapshot, changed by chunks.
type document struct{ root object }

func decodeDocument(data []byte) (*document, error) {
	d := &document{}
	if err := json.Unmarshal(data, &d.root); err != nil {
		return nil, fmt.Errorf("decode snapshot: %w", err)
	}
	return d, nil
}

func (d *document) setOffset(o conversation.Offset) { d.root["offset"] = o.String() }

func (d *document) list(name string) []any {
	l, _ := d.root[name].([]any)
	return l
}

// apply changes the document as the protocol tells clients to.
func (d *document) apply(raw json.RawMessage) error {
	var c object
	if err := json.Unmarshal(raw, &c); err != nil {
		return err
	}
	switch c["type"] {
	case "conversation-reset":
		d.root = c["snapshot"].(object)
	case "message-appended":
		m := c["message"].(object)
		if d.message(m["id"]) != nil {
			return fmt.Errorf("message %v exists", m["id"])
		}
		d.root["messages"] = append(d.list("messages"), m)
	case "submission-settled":
		d.root["settlements"] = append(d.list("settlements"), only(c, "submissionId", "outcome", "error"))
	case "tool-output", "tool-output-error":
		return d.output(c)
	case "message-started":
		if d.message(c["messageId"]) == nil {
			m := only(c, "submissionId", "turnId", "metadata")
			m["id"], m["role"], m["purpose"], m["display"] = c["messageId"], "assistant", "assistant", "visible"
			m["parts"] = []any{}
			d.root["messages"] = append(d.list("messages"), m)
		}
	default:
		return d.change(c)
	}
	return nil
}

// change applies a chunk about one known response.
func (d *document) change(c object) error {
	m := d.message(c["messageId"])
	if m == nil {
		return fmt.Errorf("message %v is unknown", c["messageId"])
	}
	parts := m["parts"].([]any)
	last := open(parts)
	switch c["type"] {
	case "message-delta":
		if last != nil && last["type"] == c["kind"] {
			last["text"] = last["text"].(string) + c["delta"].(string)
			return nil
		}
		closePart(last)
		m["parts"] = append(parts, object{"type": c["kind"], "text": c["delta"], "state": "streaming"})
	case "tool-input":
		closePart(last)
		p := only(c, "toolCallId", "toolName", "input")
		p["type"], p["state"] = "dynamic-tool", "input-available"
		m["parts"] = append(parts, p)
	case "data-part":
		closePart(last)
		m["parts"] = append(parts, object{"type": "data-" + c["name"].(string), "data": c["data"]})
	case "message-metadata":
		old, _ := m["metadata"].(object)
		m["metadata"] = merge(old, c["metadata"].(object))
	case "message-completed":
		for _, p := range parts {
			closePart(p.(object))
		}
	default:
		return fmt.Errorf("chunk of type %v", c["type"])
	}
	return nil
}

func (d *document) output(c object) error {
	for _, m := range slices.Backward(d.list("messages")) {
		for _, v := range m.(object)["parts"].([]any) {
			p := v.(object)
			if p["toolCallId"] == nil || p["toolCallId"] != c["toolCallId"] {
				continue
			}
			if p["state"] != "input-available" {
				return fmt.Errorf("call %v is %v", p["toolCallId"], p["state"])
			}
			p["state"] = "output-available"
			if c["type"] == "tool-output-error" {
				p["state"] = "output-error"
			}
			for k, v := range only(c, "output", "errorText", "durationMs") {
				p[k] = v
			}
			return nil
		}
	}
	return fmt.Errorf("call %v is unknown", c["toolCallId"])
}

func (d *document) message(id any) object {
	for _, m := range slices.Backward(d.list("messages")) {
		if m.(object)["id"] == id {
			return m.(object)
		}
	}
	return nil
}

// open returns the last part if it is streaming.
func open(parts []any) object {
	if len(parts) == 0 {
		return nil
	}
	if p := parts[len(parts)-1].(object); p["state"] == "streaming" {
		return p
	}
	return nil
}

func closePart(p object) {
	if p != nil && (p["type"] == "text" || p["type"] == "reasoning") {
		p["state"] = "done"
	}
}

func only(o object, names ...string) object {
	out := object{}
	for _, n := range names {
		if v, ok := o[n]; ok {
			out[n] = v
		}
	}
	return out
}

// merge merges objects deeply.
func merge(dst, src object) object {
	if dst == nil {
		dst = object{}
	}
	for k, v := range src {
		if sub, ok := v.(object); ok {
			old, _ := dst[k].(object)
			v = merge(old, sub)
		}
		dst[k] = v
	}
	return dst
}
