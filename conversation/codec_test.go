package conversation_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
)

// zeroField returns the path of the first field without a value, or "".
func zeroField(path string, v reflect.Value) string {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return path
		}
		return zeroField(path, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if z := zeroField(path+"."+v.Type().Field(i).Name, v.Field(i)); z != "" {
				return z
			}
		}
		return ""
	case reflect.Slice:
		if v.Len() > 0 {
			return zeroField(path+"[0]", v.Index(0))
		}
	}
	if v.IsZero() {
		return path
	}
	return ""
}

func TestSamplesAreComplete(t *testing.T) {
	var got []conversation.RecordType
	for _, r := range samples() {
		got = append(got, r.Type())
		if z := zeroField(string(r.Type()), reflect.ValueOf(r)); z != "" {
			t.Errorf("%s has no value in its sample", z)
		}
	}
	if diff := cmp.Diff(conversation.Types(), got); diff != "" {
		t.Errorf("types of the table (-) and of the samples differ:\n%s", diff)
	}
}

func TestRecordsRoundTrip(t *testing.T) {
	want := samples()
	lines, err := conversation.EncodeRecords(nil, want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := conversation.DecodeRecords(lines)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records changed:\n%s", diff)
	}
	if n := bytes.Count(lines, []byte("\n")); n != len(want) {
		t.Errorf("%d records became %d lines", len(want), n)
	}
	for i, line := range strings.Split(strings.TrimSuffix(string(lines), "\n"), "\n") {
		if prefix := `{"type":"` + string(want[i].Type()) + `",`; !strings.HasPrefix(line, prefix) {
			t.Errorf("line does not begin with %s: %s", prefix, line)
		}
		for _, escaped := range []string{`\u003c`, `\u003e`, `\u0026`} {
			if strings.Contains(line, escaped) {
				t.Errorf("HTML is escaped in %s", line)
			}
		}
	}
	golden(t, "records.jsonl", string(lines))
}

func TestMinimalRecords(t *testing.T) {
	var records []conversation.Record
	for _, r := range samples() {
		records = append(records, reflect.New(reflect.TypeOf(r).Elem()).Interface().(conversation.Record))
	}
	lines, err := conversation.EncodeRecords([]byte("head\n"), records)
	if err != nil {
		t.Fatal(err)
	}
	body, ok := bytes.CutPrefix(lines, []byte("head\n"))
	if !ok {
		t.Fatalf("lines were not appended: %s", lines)
	}
	golden(t, "records_empty.jsonl", string(body))
	again, err := conversation.DecodeRecords(body)
	if err != nil {
		t.Fatal(err)
	}
	if lines, err = conversation.EncodeRecords(nil, again); err != nil || !bytes.Equal(lines, body) {
		t.Errorf("second encoding %s, %v; want %s", lines, err, body)
	}
}

func TestUnknownRecords(t *testing.T) {
	lines := []byte("{ \"x\":[1, 2],\"type\":\"later\" , \"h\":\"\\u003c\"}\n{\"type\":\"delta\",\"message\":\"m\",\"kind\":\"text\",\"text\":\"a\",\"new\":1}\n")
	got, err := conversation.DecodeRecords(lines)
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := bytes.Cut(lines, []byte("\n"))
	want := []conversation.Record{
		&conversation.Unknown{Name: "later", Line: first},
		&conversation.Delta{Message: "m", Kind: conversation.PartText, Text: "a"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	clear(lines) // the record keeps its own copy
	out, err := conversation.EncodeRecords(nil, got[:1])
	if err != nil {
		t.Fatal(err)
	}
	if want := "{ \"x\":[1, 2],\"type\":\"later\" , \"h\":\"\\u003c\"}\n"; string(out) != want {
		t.Errorf("encoded again: %s, want %s", out, want)
	}

	_, err = conversation.DecodeRecords([]byte(`{"type":"delta","message":"m"}` + "\n" + `{"type":"later","must":true}`))
	var unknown *conversation.UnknownRecordError
	if !errors.As(err, &unknown) || unknown.Name != "later" {
		t.Fatalf("got error %v, want an UnknownRecordError of later", err)
	}
	if !strings.Contains(err.Error(), "upgrade") || !strings.Contains(err.Error(), "record 1") {
		t.Errorf("got error %q, want the line number and \"upgrade\"", err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, line := range []string{
		`{`, `[]`, `5`, `null`, `{}`, `{"type":""}`, `{"type":7}`, `{"type":"later","must":"yes"}`,
		`{"type":"delta","text":5}`, `{"type":"conversation_deleted","at":"yesterday"}`, `{"type":"delta"} x`,
	} {
		if got, err := conversation.DecodeRecords([]byte(line)); err == nil {
			t.Errorf("decoded %s as %+v", line, got)
		}
	}
	for _, blank := range []string{"", "\n", "\n \n"} {
		if got, err := conversation.DecodeRecords([]byte(blank)); err != nil || got != nil {
			t.Errorf("decoded %q as %+v, %v", blank, got, err)
		}
	}
}

func TestEncodeRefusesBrokenJSON(t *testing.T) {
	_, err := conversation.EncodeRecords(nil, []conversation.Record{
		&conversation.StateWritten{Key: "k", Value: json.RawMessage(`{`)},
	})
	if err == nil || !strings.Contains(err.Error(), "state_written") {
		t.Errorf("got error %v", err)
	}
}

// released lists the types of the first release in table order. The release commit fills it with
// [conversation.Types]; later commits leave it unchanged.
var released []conversation.RecordType

func TestReleasedTypes(t *testing.T) {
	types := conversation.Types()
	if got := types[:min(len(released), len(types))]; !slices.Equal(got, released) {
		t.Errorf("got types %q, want those of the first release in their order: %q", got, released)
	}
}

func TestMust(t *testing.T) {
	skippable := map[conversation.RecordType]bool{conversation.TypePartDone: true}
	if n := len(conversation.Types()); n != 42 {
		t.Errorf("got %d types; add new ones to this test", n)
	}
	for _, name := range conversation.Types() {
		if got := conversation.Must(name); got == skippable[name] {
			t.Errorf("Must(%s) = %t", name, got)
		}
	}
	if conversation.Must("later") {
		t.Error("Must of an unknown type is true")
	}
}
