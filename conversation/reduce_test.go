package conversation_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
)

// object is a JSON object as a client that knows nothing of Go sees it.
type object = map[string]any

func decodeJSON[T any](t *testing.T, b []byte) T {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v T
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("decode %s: %v", b, err)
	}
	return v
}

// reducer keeps a conversation the way the protocol tells clients to. It is
// strict: whatever a client would ignore or could not parse is an error.
type reducer struct {
	doc   object
	batch int64
	index int64
}

func newReducer(doc object) *reducer {
	if doc == nil {
		doc = object{"v": json.Number("1"), "messages": []any{}, "settlements": []any{}}
	}
	return &reducer{doc: doc, batch: -1}
}

// members lists what a chunk has beside type, conversationId and position; a
// question mark is an optional member.
var members = map[string]string{
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

func checkMembers(chunk object) error {
	list, ok := members[fmt.Sprint(chunk["type"])]
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

// page applies the chunks of one read that ended at the offset next.
func (c *reducer) page(chunks []any, next string) error {
	for _, v := range chunks {
		chunk := v.(object)
		if err := checkMembers(chunk); err != nil {
			return err
		}
		at := chunk["position"].(object)
		batch, _ := at["batch"].(json.Number).Int64()
		index, _ := at["index"].(json.Number).Int64()
		if batch < c.batch || batch == c.batch && index <= c.index {
			return fmt.Errorf("position %d/%d is not after %d/%d", batch, index, c.batch, c.index)
		}
		c.batch, c.index = batch, index
		if err := c.apply(chunk); err != nil {
			return fmt.Errorf("chunk %d/%d: %w", batch, index, err)
		}
		if chunk["conversationId"] != c.doc["conversationId"] {
			return fmt.Errorf("conversationId is %v", chunk["conversationId"])
		}
	}
	c.doc["offset"] = next
	return nil
}

func (c *reducer) apply(chunk object) error {
	switch chunk["type"] {
	case "conversation-reset":
		c.doc = chunk["snapshot"].(object)
		return nil
	case "message-appended":
		m := chunk["message"].(object)
		if c.message(m["id"]) != nil {
			return fmt.Errorf("message %v exists", m["id"])
		}
		c.doc["messages"] = append(c.doc["messages"].([]any), m)
		return nil
	case "submission-settled":
		c.doc["settlements"] = append(c.doc["settlements"].([]any), only(chunk, "submissionId", "outcome", "error"))
		return nil
	case "tool-output", "tool-output-error":
		return c.output(chunk)
	case "message-started":
		if c.message(chunk["messageId"]) == nil {
			m := only(chunk, "submissionId", "turnId", "metadata")
			m["id"], m["role"], m["purpose"], m["display"] = chunk["messageId"], "assistant", "assistant", "visible"
			m["parts"] = []any{}
			c.doc["messages"] = append(c.doc["messages"].([]any), m)
		}
		return nil
	}
	m := c.message(chunk["messageId"])
	if m == nil {
		return fmt.Errorf("message %v is unknown", chunk["messageId"])
	}
	c.change(m, chunk)
	return nil
}

// change applies a chunk that is about one known response.
func (c *reducer) change(m, chunk object) {
	parts := m["parts"].([]any)
	switch chunk["type"] {
	case "message-metadata":
		old, _ := m["metadata"].(object)
		m["metadata"] = deepMerge(old, chunk["metadata"].(object))
	case "data-part":
		m["parts"] = append(parts, object{"type": "data-" + chunk["name"].(string), "data": chunk["data"]})
	case "message-delta":
		last := streaming(parts)
		if last != nil && last["type"] == chunk["kind"] {
			last["text"] = last["text"].(string) + chunk["delta"].(string)
			return
		}
		closePart(last)
		m["parts"] = append(parts, object{"type": chunk["kind"], "text": chunk["delta"], "state": "streaming"})
	case "tool-input":
		closePart(streaming(parts))
		p := only(chunk, "toolCallId", "toolName", "input")
		p["type"], p["state"] = "dynamic-tool", "input-available"
		m["parts"] = append(parts, p)
	case "message-completed":
		for _, p := range parts {
			closePart(p.(object))
		}
	}
}

func (c *reducer) output(chunk object) error {
	for _, m := range slices.Backward(c.doc["messages"].([]any)) {
		for _, v := range m.(object)["parts"].([]any) {
			p := v.(object)
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
			for k, v := range only(chunk, "output", "errorText", "durationMs") {
				p[k] = v
			}
			return nil
		}
	}
	return fmt.Errorf("call %v is unknown", chunk["toolCallId"])
}

func (c *reducer) message(id any) object {
	for _, m := range slices.Backward(c.doc["messages"].([]any)) {
		if m.(object)["id"] == id {
			return m.(object)
		}
	}
	return nil
}

// streaming returns the last part if it is streaming.
func streaming(parts []any) object {
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

// only returns the members of o that have one of the names.
func only(o object, names ...string) object {
	out := object{}
	for _, name := range names {
		if v, ok := o[name]; ok {
			out[name] = v
		}
	}
	return out
}

func deepMerge(dst, src object) object {
	out := object{}
	for k, v := range dst {
		out[k] = v
	}
	for k, v := range src {
		if k == "__proto__" || k == "constructor" || k == "prototype" {
			continue
		}
		if o, ok := v.(object); ok {
			old, _ := out[k].(object)
			v = deepMerge(old, o)
		}
		out[k] = v
	}
	return out
}

// history is everything the wire shows of a list of batches.
type history struct {
	snapshots [][]byte // by batch; nil while no conversation exists
	chunks    [][]byte // JSON arrays by batch
	docs      []object // the snapshots decoded, never changed
}

// play folds the batches and encodes what clients see of each. The snapshot
// handed to a boundary is the one of its own batch.
func play(t *testing.T, batches []conversation.Batch) history {
	t.Helper()
	var h history
	s := conversation.NewState()
	var id conversation.ConversationID
	for _, b := range batches {
		if err := s.Apply(b); err != nil {
			t.Fatal(err)
		}
		if s.Exists() {
			id = s.Created().ConversationID
		}
		chunks, err := conversation.Project(id, b, func() (*conversation.Snapshot, error) { return s.Snapshot(), nil })
		if err != nil {
			t.Fatal(err)
		}
		line, err := conversation.AppendChunks([]byte{'['}, chunks)
		if err != nil {
			t.Fatal(err)
		}
		h.chunks = append(h.chunks, append(line, ']'))
		var snap []byte
		var doc object
		if s.Exists() {
			if snap, err = conversation.EncodeJSON(s.Snapshot()); err != nil {
				t.Fatal(err)
			}
			doc = decodeJSON[object](t, snap)
		}
		h.docs = append(h.docs, doc)
		h.snapshots = append(h.snapshots, snap)
	}
	return h
}

// reread encodes the batches and decodes them again, as a reader of the log does.
func reread(t *testing.T, batches []conversation.Batch) []conversation.Batch {
	t.Helper()
	var out []conversation.Batch
	for _, b := range batches {
		lines, err := conversation.EncodeRecords(nil, b.Records)
		if err != nil {
			t.Fatal(err)
		}
		records, err := conversation.DecodeRecords(lines)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, conversation.Batch{Offset: b.Offset, Records: records})
	}
	return out
}

// checkFrom reduces what follows batch k and compares with the snapshot at every
// later batch, at most as far as the limit.
func checkFrom(t *testing.T, h history, seed uint64, k, limit int) {
	t.Helper()
	c := newReducer(nil)
	if k >= 0 && h.snapshots[k] != nil {
		c = newReducer(decodeJSON[object](t, h.snapshots[k]))
	}
	for n := k + 1; n < len(h.chunks) && limit > 0; n++ {
		if err := c.page(decodeJSON[[]any](t, h.chunks[n]), conversation.Offset(n).String()); err != nil {
			t.Fatalf("seed %d, from %d: %v", seed, k, err)
		}
		if h.snapshots[n] == nil {
			continue
		}
		limit--
		// The diff is for people and costs much more than the comparison.
		if !reflect.DeepEqual(h.docs[n], c.doc) {
			t.Fatalf("seed %d: snapshot at %d and chunks through %d differ from the snapshot (-) at %d:\n%s",
				seed, k, n, n, cmp.Diff(h.docs[n], c.doc))
		}
	}
}

// What a client holds is the document alone, so a reduction that meets the next
// snapshot from every k meets every later one too. A few histories are reduced to
// their end from every k all the same.
func TestSnapshotPlusChunksIsLaterSnapshot(t *testing.T) {
	const histories = 300
	records, chunkTypes := map[conversation.RecordType]int{}, map[string]int{}
	for seed := range uint64(histories) {
		batches := generate(seed)
		h, again := play(t, batches), play(t, reread(t, batches))
		if !reflect.DeepEqual(h.chunks, again.chunks) {
			t.Fatalf("seed %d: chunks before and after the log differ:\n%s", seed, cmp.Diff(toStrings(h.chunks), toStrings(again.chunks)))
		}
		if !reflect.DeepEqual(h.snapshots, again.snapshots) {
			t.Fatalf("seed %d: snapshots before and after the log differ:\n%s", seed, cmp.Diff(toStrings(h.snapshots), toStrings(again.snapshots)))
		}
		checkFrom(t, h, seed, -1, len(batches))
		limit := 1
		if seed < 3 {
			limit = len(batches)
		}
		for k := range batches {
			checkFrom(t, h, seed, k, limit)
		}
		for n, b := range batches {
			for _, r := range b.Records {
				records[r.Type()]++
			}
			for _, c := range decodeJSON[[]any](t, h.chunks[n]) {
				chunkTypes[c.(object)["type"].(string)]++
			}
		}
	}
	for _, want := range conversation.Types() {
		if records[want] < histories/20 {
			t.Errorf("the histories hold %s only %d times", want, records[want])
		}
	}
	for want := range members {
		if chunkTypes[want] < histories/20 {
			t.Errorf("the histories show %s only %d times", want, chunkTypes[want])
		}
	}
}

func toStrings(list [][]byte) []string {
	out := make([]string, len(list))
	for i, b := range list {
		out[i] = string(b)
	}
	return out
}

// TestMissedChunksAreSeen makes sure that the property above can fail: a client
// that misses a batch of deltas or calls does not hold the next snapshot.
func TestMissedChunksAreSeen(t *testing.T) {
	missed := 0
	for seed := range uint64(20) {
		h := play(t, generate(seed))
		for n := 1; n < len(h.chunks); n++ {
			if !bytes.Contains(h.chunks[n], []byte(`"message-delta"`)) && !bytes.Contains(h.chunks[n], []byte(`"tool-`)) {
				continue
			}
			missed++
			c := newReducer(decodeJSON[object](t, h.snapshots[n-1]))
			if err := c.page(nil, conversation.Offset(n).String()); err != nil {
				t.Fatal(err)
			}
			if reflect.DeepEqual(h.docs[n], c.doc) {
				t.Errorf("seed %d: missing the chunks of %d makes no difference: %s", seed, n, h.chunks[n])
			}
		}
	}
	if missed < 50 {
		t.Errorf("only %d batches were missed", missed)
	}
}
