package sse_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers/sse"
)

type event struct {
	Name, ID, Data string
	Unterminated   bool
}

func readAll(src io.Reader, o *sse.Options) ([]event, error) {
	r := sse.NewReader(src, o)
	var events []event
	for {
		e, err := r.Next()
		if err == io.EOF {
			return events, nil
		}
		if err != nil {
			return events, err
		}
		events = append(events, event{e.Name, e.ID, string(e.Data), e.Unterminated})
	}
}

func TestNext(t *testing.T) {
	tests := []struct {
		name, in string
		want     []event
	}{
		{"empty", "", nil},
		{"unnamed", "data: a\n\n", []event{{Data: "a"}}},
		{"named", "event: ping\ndata: a\n\n", []event{{Name: "ping", Data: "a"}}},
		{"name does not leak", "event: ping\n\ndata: a\n\n", []event{{Data: "a"}}},
		{"no space", "data:a\n\n", []event{{Data: "a"}}},
		{"one space only", "data:  a \n\n", []event{{Data: " a "}}},
		{"several lines", "data: a\ndata\ndata: b\n\n", []event{{Data: "a\n\nb"}}},
		{"empty data", "data:\n\n", []event{{}}},
		{"comments", ": hi\n\n:\ndata: a\n: in between\n\n", []event{{Data: "a"}}},
		{"unknown fields", "retry: 5\nfoo: bar\ndata: a\n\n", []event{{Data: "a"}}},
		{"id stays", "id: 7\ndata: a\n\ndata: b\n\n", []event{{ID: "7", Data: "a"}, {ID: "7", Data: "b"}}},
		{"id with nul", "id: 7\x00\ndata: a\n\n", []event{{Data: "a"}}},
		{"crlf", "data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n", []event{{Data: "a\nb"}, {Data: "c"}}},
		{"cr", "data: a\rdata: b\r\rdata: c\r\r", []event{{Data: "a\nb"}, {Data: "c"}}},
		{"mixed", "data: a\r\n\rdata: b\n\r\ndata: c\r\n\n", []event{{Data: "a"}, {Data: "b"}, {Data: "c"}}},
		{"byte order mark", "\ufeffdata: a\n\ndata: \ufeffb\n\n", []event{{Data: "a"}, {Data: "\ufeffb"}}},
		{"blank line missing", "data: a\n\ndata: b\n", []event{{Data: "a"}, {Data: "b", Unterminated: true}}},
		{"line end missing", "data: a\n\ndata: b", []event{{Data: "a"}, {Data: "b", Unterminated: true}}},
		{"ends in comment", "data: a\n\n: bye", []event{{Data: "a"}}},
		{"split characters", "data: héé 😀\n\n", []event{{Data: "héé 😀"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for name, src := range map[string]io.Reader{
				"whole":  strings.NewReader(tt.in),
				"bytes":  iotest.OneByteReader(strings.NewReader(tt.in)),
				"late":   iotest.DataErrReader(strings.NewReader(tt.in)),
				"halved": iotest.HalfReader(strings.NewReader(tt.in)),
			} {
				got, err := readAll(src, nil)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
			}
		})
	}
}

// TestPrompt reads from a pipe that stays open: an event must not wait for a byte after its blank
// line.
func TestPrompt(t *testing.T) {
	for _, end := range []string{"\n", "\r", "\r\n"} {
		pr, pw := io.Pipe()
		go func() {
			// The pipe accepts bytes only as they are read, as the test requires. Closing the reader
			// ends this goroutine.
			io.WriteString(pw, "data: a"+end+end)
		}()
		e, err := sse.NewReader(pr, nil).Next()
		if err != nil || string(e.Data) != "a" || e.Unterminated {
			t.Errorf("end %q: got %q, unterminated %v, %v", end, e.Data, e.Unterminated, err)
		}
		pr.Close()
	}
}

func TestTooLarge(t *testing.T) {
	o := &sse.Options{MaxEventBytes: 16}
	for _, in := range []string{
		"data: " + strings.Repeat("a", 11) + "\n\n",
		"data: 12345\ndata: 12345\ndata: 12345\n\n",
		": " + strings.Repeat("c", 15) + "\n\n",
	} {
		r := sse.NewReader(iotest.OneByteReader(strings.NewReader(in)), o)
		for range 2 {
			var tooLarge *sse.TooLargeError
			if _, err := r.Next(); !errors.As(err, &tooLarge) || tooLarge.Limit != 16 {
				t.Errorf("%q: got %v, want *TooLargeError of 16", in, err)
			}
		}
	}
	// The limit applies to events, not to streams.
	got, err := readAll(strings.NewReader(strings.Repeat("data: 0123456789\n\n", 50)), o)
	if err != nil || len(got) != 50 {
		t.Errorf("got %d events, %v", len(got), err)
	}
}

func TestSourceError(t *testing.T) {
	broken := errors.New("broken")
	src := io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken))
	got, err := readAll(src, nil)
	if err != broken {
		t.Errorf("got %v, want the error of the source itself", err)
	}
	if diff := cmp.Diff([]event{{Data: "a"}}, got); diff != "" {
		t.Error(diff)
	}
	if _, err := readAll(zeroReader{}, nil); err != io.ErrNoProgress {
		t.Errorf("got %v, want io.ErrNoProgress", err)
	}
}

type zeroReader struct{}

func (zeroReader) Read([]byte) (int, error) { return 0, nil }

// FuzzReader checks that neither the split of reads nor the line endings change the events.
func FuzzReader(f *testing.F) {
	f.Add([]byte("data: a\n\nevent: b\nid: 1\ndata: c\ndata: d\n\n: ping\n\ndata: [DONE]\n\n"))
	f.Add([]byte("\xef\xbb\xbfdata: a\r\n\r\ndata: b\r\rdata"))
	f.Add([]byte("data: \xf0\x9f\x98\x80\n"))
	f.Add([]byte(strings.Repeat("data: 0123456789\n", 9)))
	f.Fuzz(func(t *testing.T, in []byte) {
		o := &sse.Options{MaxEventBytes: 64}
		want, wantErr := readAll(bytes.NewReader(in), o)
		for _, e := range want {
			if len(e.Data) > 64 {
				t.Fatalf("got an event of %d bytes beyond the limit", len(e.Data))
			}
		}
		check := func(name string, src io.Reader) {
			got, err := readAll(src, o)
			if (err == nil) != (wantErr == nil) {
				t.Fatalf("%s: got %v, want %v", name, err, wantErr)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s (-want +got):\n%s", name, diff)
			}
		}
		check("bytes", iotest.OneByteReader(bytes.NewReader(in)))
		lf := bytes.ReplaceAll(bytes.ReplaceAll(in, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
		check("lf", bytes.NewReader(lf))
		check("cr", bytes.NewReader(bytes.ReplaceAll(lf, []byte("\n"), []byte("\r"))))
		check("crlf", bytes.NewReader(bytes.ReplaceAll(lf, []byte("\n"), []byte("\r\n"))))
	})
}

// FuzzJSON compares successive decoding with separate decoding.
func FuzzJSON(f *testing.F) {
	f.Add(`{"a":1}|{"b":[{}]}|[1,2] |"x"`)
	f.Add(" {}\n|\t7 8|null")
	f.Add(`{"a":|{}`)
	f.Add("{}}|{}")
	f.Add(" |1")
	f.Add("\"\u00a0\"\u00a0|12|3")
	f.Fuzz(func(t *testing.T, all string) {
		var j sse.JSON
		for data := range strings.SplitSeq(all, "|") {
			var want, got any
			wantErr := json.Unmarshal([]byte(data), &want)
			err := j.Decode([]byte(data), &got)
			if (err == nil) != (wantErr == nil) {
				t.Fatalf("%q in %q: got %v, want %v", data, all, err, wantErr)
			}
			if err != nil {
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%q in %q (-want +got):\n%s", data, all, diff)
			}
		}
	})
}
