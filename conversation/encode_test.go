package conversation_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/sample"
)

// checkChunks compares AppendChunks with encoding/json.
func checkChunks(t *testing.T, chunks []conversation.Chunk) {
	t.Helper()
	want, wantErr := []byte("before"), error(nil)
	for i := range chunks {
		if i > 0 {
			want = append(want, ',')
		}
		b, err := conversation.EncodeJSON(&chunks[i])
		if err != nil {
			wantErr = err
			break
		}
		want = append(want, b...)
	}
	got, err := conversation.AppendChunks([]byte("before"), chunks)
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("got error %v, want %v", err, wantErr)
	}
	if err == nil && !bytes.Equal(got, want) {
		t.Errorf("chunks are\n%s, want\n%s", got, want)
	}
}

func TestAppendChunksKnowsEveryField(t *testing.T) {
	var all conversation.Chunk
	for i := range reflect.TypeFor[conversation.Chunk]().NumField() {
		var one conversation.Chunk
		for _, c := range []*conversation.Chunk{&one, &all} {
			switch f := reflect.ValueOf(c).Elem().Field(i); v := f.Addr().Interface().(type) {
			case **conversation.Snapshot:
				*v = &conversation.Snapshot{V: 1, Offset: 3, Messages: []conversation.Message{{ID: "msg_1"}}}
			case **conversation.Message:
				*v = &conversation.Message{ID: "msg_1", Metadata: json.RawMessage(` {"a" : "<b>"} `)}
			case **conversation.SettlementError:
				*v = &conversation.SettlementError{Message: "m", Meta: map[string]any{"b": 1, "a": "<"}}
			case **conversation.Time:
				*v = ptr(at)
			case **string:
				*v = ptr("")
			case **int64:
				*v = ptr[int64](0)
			case *json.RawMessage:
				*v = json.RawMessage(" [1.50, \"\u2028<\", {\"a\" :null} ]\n")
			case *conversation.Position:
				*v = conversation.Position{Batch: 1 << 60, Index: -1}
			default:
				f.SetString("a<b")
			}
			if reflect.ValueOf(c).Elem().Field(i).IsZero() {
				t.Fatalf("field %d is not set", i)
			}
		}
		checkChunks(t, []conversation.Chunk{one, {}, one})
	}
	checkChunks(t, []conversation.Chunk{all, all})
}

// TestAppendProjection compares AppendProjection with Project and AppendChunks over random histories.
func TestAppendProjection(t *testing.T) {
	for seed := range sample.Of[uint64](100, 20) {
		s := conversation.NewState()
		at := func() (*conversation.Snapshot, error) { return s.Snapshot(), nil }
		for _, b := range generate(seed) {
			if err := s.Apply(b); err != nil {
				t.Fatal(err)
			}
			chunks, err := conversation.Project("conv_1", b, at)
			if err != nil {
				t.Fatal(err)
			}
			checkChunks(t, chunks)
			want, err := conversation.AppendChunks([]byte{'['}, chunks)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := conversation.AppendProjection([]byte{'['}, "conv_1", b, at); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("batch %d of seed %d is\n%s, %v; want\n%s", b.Offset, seed, got, err, want)
			}
		}
	}
}

// FuzzAppendChunks compares chunks of any strings and values with encoding/json.
func FuzzAppendChunks(f *testing.F) {
	f.Add("plain", "", []byte(`{"a": [1, "<&>"]}`), int64(0))
	f.Add("\x00\x1f \x7f\"\\/\b\f\n\r\t<>&", "é€😀\u2028\u2029\ufffd", []byte("\"\u2028\xff\""), int64(1767323045678))
	f.Add("\xff\xc3(\xed\xa0\x80\xf4\x90\x80\x80", "end\xe2\x80", []byte("null"), int64(-1))
	f.Add("", "\xe2\x80\xa8\xe2\x80", []byte(" "), int64(1<<62))
	f.Add("a", "b", []byte(`{"a":`), int64(5))
	f.Fuzz(func(t *testing.T, a, b string, raw []byte, n int64) {
		when := conversation.Time(n)
		for _, c := range []conversation.Chunk{
			{Type: conversation.ChunkType(a), ConversationID: conversation.ConversationID(b), Delta: a, MessageID: conversation.MessageID(b)},
			{ToolCallID: conversation.CallID(b), ToolName: a, Kind: conversation.PartKind(a), Name: b, ErrorText: &a, DurationMs: &n},
			{Outcome: conversation.Outcome(a), Timestamp: &when, Position: conversation.Position{Batch: conversation.Offset(n), Index: int(n)}},
			{Message: &conversation.Message{Parts: []conversation.Part{{Text: &a, Data: raw}}}},
			{Error: &conversation.SettlementError{Message: a, Meta: map[string]any{b: a}}},
			{Data: raw}, {Input: raw, Output: raw}, {Metadata: raw},
		} {
			checkChunks(t, []conversation.Chunk{c})
		}
	})
}
