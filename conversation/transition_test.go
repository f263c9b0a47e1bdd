package conversation_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/reduce"
)

// transition is one row of the protocol's state table: records after the start of a response, and the
// chunks and parts that clients get.
type transition struct {
	name   string
	then   records
	chunks []string // types, in order
	parts  []string // type/state, of the response
}

func transitions() []transition {
	delta := func(kind conversation.PartKind, text string) conversation.Record {
		return &conversation.Delta{Message: "res_1", Kind: kind, Text: text}
	}
	text := func(s string) conversation.Record { return delta(conversation.PartText, s) }
	thought := func(s string) conversation.Record { return delta(conversation.PartReasoning, s) }
	ok := &conversation.ToolSettled{Call: "call_1", Output: json.RawMessage(`1`), DurationMs: ptr[int64](7), At: at}
	bad := &conversation.ToolSettled{Call: "call_1", Failed: true, ErrorText: "no", At: at}
	data := func(v string) conversation.Record {
		return &conversation.DataWritten{Message: "res_1", Name: "plan", Data: json.RawMessage(v)}
	}
	other := &conversation.DataWritten{Message: "res_1", Name: "cost", Data: json.RawMessage(`9`)}
	again := started("res_1", "sub_1", "turn_2")
	done := completed("res_1", "turn_1")
	return []transition{
		{"a delta opens a part", records{text("a")}, list("message-delta"), list("text/streaming a")},
		{"a delta of the same kind is appended", records{text("a"), text("b")}, list("message-delta", "message-delta"), list("text/streaming ab")},
		{"an empty delta has no chunk", records{text(""), text("a"), thought(""), text("b"), thought("")},
			list("message-delta", "message-delta"), list("text/streaming ab")},
		{"a delta of another kind closes the part", records{thought("a"), text("b"), thought("c")},
			list("message-delta", "message-delta", "message-delta"), list("reasoning/done a", "text/done b", "reasoning/streaming c")},
		{"a call closes the part", records{text("a"), called("call_1")}, list("message-delta", "tool-input"), list("text/done a", "dynamic-tool/input-available")},
		{"completion closes parts", records{thought("a"), text("b"), done},
			list("message-delta", "message-delta", "message-completed"), list("reasoning/done a", "text/done b")},
		{"completion leaves a call open", records{called("call_1"), done}, list("tool-input", "message-completed"), list("dynamic-tool/input-available")},
		{"a call has an output", records{called("call_1"), done, ok},
			list("tool-input", "message-completed", "tool-output"), list("dynamic-tool/output-available 1 7ms")},
		{"a call fails", records{called("call_1"), done, bad},
			list("tool-input", "message-completed", "tool-output-error"), list("dynamic-tool/output-error no")},
		{"a second start continues", records{text("a"), done, again, text("b")},
			list("message-delta", "message-completed", "message-started", "message-delta"), list("text/done a", "text/streaming b")},
		{"data of a name is one part, where it was first", records{data(`1`), text("a"), data(`2`), other, text("b"), data(`3`)},
			list("data-part", "message-delta", "data-part", "data-part", "message-delta", "data-part"),
			list("data-plan 3", "text/streaming a", "data-cost 9", "text/streaming b")},
	}
}

// TestTransitions checks each transition twice: folded by the server, and reduced from its chunks by a
// client with the previous snapshot.
// covers: protocol/62 a_second_start_continues, protocol/73 a_delta_opens_a_part
// covers: protocol/74 a_delta_of_another_kind_closes_the_part
// covers: protocol/75 data_of_a_name_is_one_part,_where_it_was_first, protocol/79 a_call_has_an_output
// covers: protocol/80 a_call_fails, protocol/85 a_second_start_continues, protocol/86 completion_closes_parts
// covers: protocol/87 a_delta_of_another_kind_closes_the_part, protocol/88 a_delta_opens_a_part
// covers: protocol/88 an_empty_delta_has_no_chunk, protocol/89 completion_leaves_a_call_open
// covers: protocol/90 a_call_has_an_output, protocol/91 a_call_fails, protocol/161 a_second_start_continues
// covers: protocol/163 data_of_a_name_is_one_part,_where_it_was_first
// covers: protocol/164 a_delta_of_the_same_kind_is_appended, protocol/165 a_call_closes_the_part
// covers: protocol/166 a_call_has_an_output, protocol/167 a_call_fails, protocol/168 completion_closes_parts
func TestTransitions(t *testing.T) {
	for _, tt := range transitions() {
		t.Run(tt.name, func(t *testing.T) {
			s := running(t)
			client := reduce.New(encoded(t, s.Snapshot()))
			var types []string
			for _, r := range tt.then {
				apply(t, s, r)
				b := conversation.Batch{Offset: s.Head(), Records: records{r}}
				var page []any
				for _, line := range chunksJSON(t, b, nil) {
					chunk := decodeJSON[object](t, []byte(line))
					types = append(types, chunk["type"].(string))
					page = append(page, chunk)
				}
				if err := client.Page(page, s.Head().String()); err != nil {
					t.Fatal(err)
				}
			}
			if d := cmp.Diff(tt.chunks, types); d != "" {
				t.Errorf("chunks (-want +got):\n%s", d)
			}
			snap := s.Snapshot()
			i := slices.IndexFunc(snap.Messages, func(m conversation.Message) bool { return m.ID == "res_1" })
			if d := cmp.Diff(tt.parts, partsOf(snap.Messages[i])); d != "" {
				t.Errorf("parts (-want +got):\n%s", d)
			}
			if m := snap.Messages[i]; len(snap.Messages) != 3 || m.SubmissionID != "sub_1" || m.TurnID != "turn_1" {
				t.Errorf("%d messages, the response %+v", len(snap.Messages), m)
			}
			if d := cmp.Diff(encoded(t, snap), client.Root); d != "" {
				t.Errorf("client differs (-snapshot +client):\n%s", d)
			}
		})
	}
}

func list(s ...string) []string { return s }

func encoded(t *testing.T, snap *conversation.Snapshot) object {
	t.Helper()
	b, err := conversation.EncodeJSON(snap)
	if err != nil {
		t.Fatal(err)
	}
	return decodeJSON[object](t, b)
}

func partsOf(m conversation.Message) []string {
	var out []string
	for _, p := range m.Parts {
		s := p.Type
		if p.State != "" {
			s += "/" + p.State
		}
		for _, v := range []*string{p.Text, p.ErrorText} {
			if v != nil {
				s += " " + *v
			}
		}
		if v := string(p.Data) + string(p.Output); v != "" {
			s += " " + v
		}
		if p.DurationMs != nil {
			s += fmt.Sprintf(" %dms", *p.DurationMs)
		}
		out = append(out, s)
	}
	return out
}

// TestMetadataIsTheAuthors checks that a response has exactly the metadata written by its agent.
// covers: protocol/72, protocol/84 at_start, protocol/162 merged
func TestMetadataIsTheAuthors(t *testing.T) {
	merge := func(v string) conversation.Record {
		return &conversation.MetadataMerged{Message: "res_1", Metadata: json.RawMessage(v)}
	}
	for name, tt := range map[string]struct {
		start string
		then  records
		want  string
	}{
		"none":     {"", nil, ""},
		"at start": {`{"a":1}`, nil, `{"a":1}`},
		"merged":   {`{"a":{"b":1,"c":[1]},"d":1}`, records{merge(`{"a":{"b":null,"c":[2]},"e":{}}`)}, `{"a":{"b":null,"c":[2]},"d":1,"e":{}}`},
		"later":    {"", records{merge(`{"a":1}`), merge(`{"a":2}`)}, `{"a":2}`},
		"closed":   {"", records{completed("res_1", "turn_1"), merge(`{"cost":0.5}`)}, `{"cost":0.5}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := conversation.NewState()
			apply(t, s, created(), admitted(1), attempt("sub_1", 1))
			apply(t, s, &conversation.ResponseStarted{Message: "res_1", Submission: "sub_1", Turn: "turn_1", Metadata: json.RawMessage(tt.start), At: at})
			client := reduce.New(encoded(t, s.Snapshot()))
			for _, r := range tt.then {
				apply(t, s, r)
				var page []any
				for _, line := range chunksJSON(t, conversation.Batch{Offset: s.Head(), Records: records{r}}, nil) {
					page = append(page, decodeJSON[object](t, []byte(line)))
				}
				if err := client.Page(page, s.Head().String()); err != nil {
					t.Fatal(err)
				}
			}
			snap := s.Snapshot()
			if got := string(snap.Messages[1].Metadata); got != tt.want || snap.Messages[0].Metadata != nil {
				t.Errorf("got metadata %s, want %s", got, tt.want)
			}
			if d := cmp.Diff(encoded(t, snap), client.Root); d != "" {
				t.Errorf("client differs (-snapshot +client):\n%s", d)
			}
		})
	}
}

// TestChunkTimes checks that only chunks at boundaries have a timestamp, in UTC with milliseconds.
// covers: protocol/170
func TestChunkTimes(t *testing.T) {
	timed := list("message-started", "tool-input", "tool-output", "tool-output-error", "message-completed", "submission-settled")
	seen := map[string]bool{}
	snap := func() (*conversation.Snapshot, error) { return conversation.NewState().Snapshot(), nil }
	for _, r := range variants() {
		for _, line := range chunksJSON(t, conversation.Batch{Offset: 7, Records: records{r}}, snap) {
			chunk := decodeJSON[object](t, []byte(line))
			name := chunk["type"].(string)
			seen[name] = true
			want := any(nil)
			if slices.Contains(timed, name) {
				want = "2026-01-02T03:04:05.678Z"
			}
			if chunk["timestamp"] != want {
				t.Errorf("%s has the timestamp %v, want %v", name, chunk["timestamp"], want)
			}
			if strings.Contains(line, `"conversationId":""`) && name != "conversation-reset" {
				t.Errorf("%s has no conversation", name)
			}
		}
	}
	if len(seen) != len(reduce.Members) {
		t.Errorf("seen %v, want every type", seen)
	}
}
