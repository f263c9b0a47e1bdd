package conversation_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/reduce"
)

// chunksJSON projects a batch of conv_1 and returns its chunks as lines.
func chunksJSON(t *testing.T, b conversation.Batch, snap func() (*conversation.Snapshot, error)) []string {
	t.Helper()
	chunks, err := conversation.Project("conv_1", b, snap)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range chunks {
		line, err := conversation.AppendChunks(nil, []conversation.Chunk{c})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(line))
	}
	return out
}

// variants adds samples whose chunks depend on more than their type.
func variants() []conversation.Record {
	return append(public(),
		&conversation.SubmissionAdmitted{
			Submission: "sub_2", Message: "msg_4", Delivery: conversation.Delivery{
				Kind: conversation.KindSignal, Body: "<done>", Type: "build.done", TagName: "build",
				Attributes: map[string]string{"b": "<2>", "a": "1"},
			}, At: at,
		},
		&conversation.SubmissionAdmitted{
			Submission: "sub_3", Message: "msg_5", At: at,
			Delivery: conversation.Delivery{Kind: conversation.KindSignal, Type: "t", Attributes: map[string]string{}},
		},
		&conversation.SubmissionAdmitted{
			Submission: "sub_4", Message: "msg_6", At: at, Delivery: conversation.Delivery{
				Kind: conversation.KindUser, Attachments: []conversation.Attachment{{ID: "att_2", MimeType: "image/gif"}},
			},
		},
		&conversation.ResponseStarted{Message: "msg_2", Submission: "sub_1", Turn: "turn_2", At: at},
		&conversation.ResponseStarted{Message: "msg_2", Submission: "sub_1", Turn: "turn_2", Metadata: json.RawMessage(`null`), At: at},
		&conversation.Delta{Message: "msg_2", Kind: conversation.PartText, Text: "a"},
		&conversation.Delta{Message: "msg_2", Kind: conversation.PartText},
		&conversation.ToolCalled{Message: "msg_2", Call: "call_2", Name: "n", At: at},
		&conversation.ToolSettled{Call: "call_2", Output: json.RawMessage(`{"a": "<"}`), DurationMs: ptr[int64](0), At: at},
		&conversation.ToolSettled{Call: "call_2", At: at},
		&conversation.ToolSettled{Call: "call_2", Failed: true, At: at},
		&conversation.DataWritten{Message: "msg_2", Name: "plan"},
		&conversation.MetadataMerged{Message: "msg_2"},
		&conversation.Advisory{Message: "msg_7", Text: "Aborted.", Display: conversation.DisplayDiagnostic},
		&conversation.SubmissionSettled{Submission: "sub_2", Outcome: conversation.OutcomeCompleted, At: at},
		&conversation.Unknown{Name: "later", Line: json.RawMessage(`{"type":"later"}`)},
	)
}

// TestChunksOfRecords writes the chunk of every record next to its line.
// covers: protocol/64, protocol/69, protocol/84, protocol/155, protocol/160, protocol/161, protocol/166, protocol/167
// covers: protocol/169
func TestChunksOfRecords(t *testing.T) {
	snap := func() (*conversation.Snapshot, error) {
		return &conversation.Snapshot{V: 1, ConversationID: "conv_1", Offset: 7, Messages: []conversation.Message{}, Settlements: []conversation.Settlement{}}, nil
	}
	var out strings.Builder
	for _, r := range variants() {
		line, err := conversation.EncodeRecords(nil, records{r})
		if err != nil {
			t.Fatal(err)
		}
		out.Write(line)
		for _, chunk := range chunksJSON(t, conversation.Batch{Offset: 7, Records: records{r}}, snap) {
			out.WriteString("\t" + chunk + "\n")
			if err := reduce.CheckMembers(decodeJSON[object](t, []byte(chunk))); err != nil {
				t.Errorf("%s: %v", r.Type(), err)
			}
		}
		// The chunk of the record as read back is the same.
		again, err := conversation.DecodeRecords(line)
		if err != nil {
			t.Fatal(err)
		}
		want := chunksJSON(t, conversation.Batch{Offset: 7, Records: records{r}}, snap)
		if diff := cmp.Diff(want, chunksJSON(t, conversation.Batch{Offset: 7, Records: again}, snap)); diff != "" {
			t.Errorf("%s read back: %s", r.Type(), diff)
		}
	}
	golden(t, "chunks.txt", out.String())
}

// covers: protocol/71
func TestSignalOfAMessage(t *testing.T) {
	for _, tt := range []struct {
		delivery conversation.Delivery
		want     string // JSON, "null" if absent
	}{
		{conversation.Delivery{Kind: conversation.KindSignal, Type: "t"}, `null`},
		{conversation.Delivery{Kind: conversation.KindSignal, Type: "t", TagName: "ci"}, `{"tagName":"ci"}`},
		{conversation.Delivery{Kind: conversation.KindSignal, Type: "t", Attributes: map[string]string{"a": ""}}, `{"attributes":{"a":""}}`},
		{conversation.Delivery{Kind: conversation.KindSignal, Type: "t", TagName: "ci", Attributes: map[string]string{"a": "1"}},
			`{"tagName":"ci","attributes":{"a":"1"}}`},
		{conversation.Delivery{Kind: conversation.KindUser, TagName: "ci", Attributes: map[string]string{"a": "1"}}, `null`},
	} {
		r := &conversation.SubmissionAdmitted{Submission: "sub_1", Message: "msg_1", Delivery: tt.delivery, At: at}
		s := conversation.NewState()
		apply(t, s, created(), r)
		got, err := conversation.EncodeJSON(s.Snapshot().Messages[0].Signal)
		if err != nil || string(got) != tt.want {
			t.Errorf("%+v: got signal %s, %v; want %s", tt.delivery, got, err, tt.want)
		}
		chunk := decodeJSON[struct {
			Message struct{ Signal json.RawMessage }
		}](t, []byte(chunksJSON(t, conversation.Batch{Offset: 1, Records: records{r}}, nil)[0]))
		if got := string(chunk.Message.Signal); got != strings.TrimPrefix(tt.want, "null") {
			t.Errorf("%+v: got chunk signal %s, want %s", tt.delivery, got, tt.want)
		}
	}
}

// covers: protocol/156
func TestPositions(t *testing.T) {
	list := records{
		attempt("sub_1", 1), admitted(1), &conversation.StateWritten{Key: "k"}, admitted(2),
		&conversation.PartDone{Message: "res_1"}, completed("res_1", "turn_1"), settled("sub_1"),
	}
	chunks, err := conversation.Project("conv_1", conversation.Batch{Offset: 42, Records: list}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range chunks {
		got = append(got, fmt.Sprintf("%s %s %d/%d", c.ConversationID, c.Type, c.Position.Batch, c.Position.Index))
	}
	want := []string{
		"conv_1 message-appended 42/0", "conv_1 message-appended 42/1", "conv_1 message-completed 42/2", "conv_1 submission-settled 42/3",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// covers: protocol/12, protocol/81
func TestInternalBatchShowsNothing(t *testing.T) {
	shown := map[conversation.RecordType]bool{}
	for _, name := range []conversation.RecordType{
		conversation.TypeConversationCreated, conversation.TypeSubmissionAdmitted, conversation.TypeResponseStarted,
		conversation.TypeDelta, conversation.TypeToolCalled, conversation.TypeToolSettled, conversation.TypeStepCompleted,
		conversation.TypeDataWritten, conversation.TypeMetadataMerged, conversation.TypeAdvisory,
		conversation.TypeSubmissionSettled, conversation.TypeStepDropped, conversation.TypeCompacted,
	} {
		shown[name] = true
	}
	var internal records
	for _, r := range public() {
		if !shown[r.Type()] {
			internal = append(internal, r)
		}
	}
	if len(internal) != len(conversation.Types())-len(shown) {
		t.Fatalf("%d internal records", len(internal))
	}
	var hidden records // records of a subagent
	for i, r := range samples() {
		if !cmp.Equal(r, public()[i]) {
			hidden = append(hidden, r)
		}
	}
	if len(hidden) != 14 {
		t.Fatalf("%d records of a subagent", len(hidden))
	}
	for _, list := range []records{nil, internal, hidden} {
		if got := chunksJSON(t, conversation.Batch{Offset: 3, Records: list}, nil); len(got) > 0 {
			t.Errorf("%d internal records: got chunks %v", len(list), got)
		}
	}
	if b, err := conversation.AppendChunks(nil, nil); err != nil || len(b) != 0 {
		t.Errorf("no chunks: got %q, %v", b, err)
	}
}

// covers: protocol/114, protocol/157, protocol/158
func TestResetAtCreation(t *testing.T) {
	for _, before := range []records{nil, {&conversation.ConversationDeleted{At: at}}, {settled("sub_0"), &conversation.ConversationDeleted{At: at}}} {
		list := append(before, created(), admitted(1), attempt("sub_1", 1), admitted(2))
		got := chunksJSON(t, conversation.Batch{Offset: 5, Records: list}, nil)
		want := []string{`{"type":"conversation-reset","conversationId":"conv_1","snapshot":{"v":1,"conversationId":"conv_1",` +
			`"offset":"0000000000000000_0000000000000005","messages":[` +
			`{"id":"msg_1","role":"user","purpose":"user","display":"visible","submissionId":"sub_1","parts":[{"type":"text","text":"hi","state":"done"}]},` +
			`{"id":"msg_2","role":"user","purpose":"user","display":"visible","submissionId":"sub_2","parts":[{"type":"text","text":"hi","state":"done"}]}` +
			`],"settlements":[]},"position":{"batch":5,"index":0}}`}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	_, err := conversation.Project("conv_1", conversation.Batch{Offset: 5, Records: records{created(), settled("sub_1")}}, nil)
	var bad *conversation.InvariantError
	if !errors.As(err, &bad) {
		t.Errorf("invalid creation: got error: %v", err)
	}
}

// covers: protocol/158
func TestResetNeedsTheState(t *testing.T) {
	cause := errors.New("no such page")
	for _, r := range []conversation.Record{&conversation.Compacted{}, &conversation.StepDropped{}} {
		b := conversation.Batch{Offset: 9, Records: records{admitted(1), r}}
		if _, err := conversation.Project("conv_1", b, nil); err == nil || !strings.Contains(err.Error(), "project batch 9: "+string(r.Type())) {
			t.Errorf("without a state: got error %v", err)
		}
		if _, err := conversation.Project("conv_1", b, func() (*conversation.Snapshot, error) { return nil, cause }); !errors.Is(err, cause) {
			t.Errorf("with a failing state: got error %v", err)
		}
		snap := &conversation.Snapshot{ConversationID: "conv_1"}
		got, err := conversation.Project("conv_1", b, func() (*conversation.Snapshot, error) { return snap, nil })
		want := []conversation.Chunk{{
			Type: conversation.ChunkReset, ConversationID: "conv_1", Snapshot: snap, Position: conversation.Position{Batch: 9},
		}}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v\n%s", err, diff)
		}
	}
}

// TestSnapshotShapes covers every variant of messages and parts.
// covers: protocol/57, protocol/63, protocol/64, protocol/66, protocol/67, protocol/68, protocol/69, protocol/70
// covers: protocol/71, protocol/73, protocol/74, protocol/75, protocol/76, protocol/78, protocol/79, protocol/80
func TestSnapshotShapes(t *testing.T) {
	s := conversation.NewState()
	apply(t, s, created(),
		&conversation.SubmissionAdmitted{Submission: "sub_1", Message: "msg_1", At: at, Delivery: conversation.Delivery{
			Kind: conversation.KindUser, Attachments: []conversation.Attachment{
				{ID: "att_1", SHA256: "ab", MimeType: "image/png", Size: 3, Filename: "a.png"}, {ID: "att_2", SHA256: "cd", MimeType: "image/gif"},
			},
		}}, attempt("sub_1", 1))
	apply(t, s,
		&conversation.SubmissionAdmitted{Submission: "sub_2", Message: "msg_2", At: at, Delivery: conversation.Delivery{
			Kind: conversation.KindSignal, Body: "<b>", Type: "t", TagName: "build", Attributes: map[string]string{"a": "1"},
		}},
		&conversation.SubmissionAdmitted{Submission: "sub_3", Message: "msg_3", At: at, Delivery: conversation.Delivery{Kind: conversation.KindSignal, Type: "t"}},
		&conversation.ResponseStarted{Message: "res_1", Submission: "sub_1", Turn: "turn_1", Metadata: json.RawMessage(`{"a":{"b":1}}`), At: at},
		&conversation.Delta{Message: "res_1", Kind: conversation.PartReasoning, Text: "hm"},
		&conversation.Delta{Message: "res_1", Kind: conversation.PartText, Text: "a"},
		called("call_1"), called("call_2"), called("call_3"), called("call_4"), completed("res_1", "turn_1"),
		&conversation.ToolSettled{Call: "call_2", Output: json.RawMessage(`{"x":1}`), DurationMs: ptr[int64](0)},
		&conversation.ToolSettled{Call: "call_3", Failed: true, ErrorText: "no", DurationMs: ptr[int64](5)},
		&conversation.ToolSettled{Call: "call_4"},
		&conversation.DataWritten{Message: "res_1", Name: "plan", Data: json.RawMessage(`[1]`)},
		&conversation.DataWritten{Message: "res_1", Name: "plan", Data: json.RawMessage(`null`)},
		&conversation.MetadataMerged{Message: "res_1", Metadata: json.RawMessage(`{"a":{"c":"<2>"},"__proto__":{"x":1}}`)},
		&conversation.Advisory{Message: "msg_4", Submission: "sub_1", TagName: "x", Attributes: map[string]string{"k": "v"}, Text: "Go on.", Display: conversation.DisplayHidden},
		started("res_1", "sub_1", "turn_2"),
		&conversation.Delta{Message: "res_1", Kind: conversation.PartText, Text: "b"},
		&conversation.SubmissionSettled{Submission: "sub_2", Outcome: conversation.OutcomeAborted, Error: &conversation.SettlementError{Type: conversation.CodeAborted, Message: "Aborted."}},
		&conversation.SubmissionSettled{Submission: "sub_3", Outcome: conversation.OutcomeCompleted},
	)
	b, err := conversation.EncodeJSON(s.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	// One message, part or settlement per line, for readable diffs.
	pretty := strings.NewReplacer(`{"id":"`, "\n{\"id\":\"", `{"type":"`, "\n\t{\"type\":\"", `{"submissionId":"`, "\n{\"submissionId\":\"").Replace(string(b))
	golden(t, "snapshot.txt", pretty+"\n")
}

func TestSnapshotIsACopy(t *testing.T) {
	for seed := range uint64(20) {
		s := conversation.NewState()
		var snaps []*conversation.Snapshot
		var before []string
		encode := func(v any) string {
			b, err := conversation.EncodeJSON(v)
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		for _, b := range generate(seed) {
			if err := s.Apply(b); err != nil {
				t.Fatal(err)
			}
			snaps = append(snaps, s.Snapshot())
			before = append(before, encode(snaps[len(snaps)-1]))
		}
		for i, snap := range snaps {
			if got := encode(snap); got != before[i] {
				t.Fatalf("seed %d: the snapshot at %d changed from %s to %s", seed, i, before[i], got)
			}
		}
	}
}
