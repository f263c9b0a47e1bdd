package client

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func readEvents(src io.Reader, limit int) (list []string, err error) {
	e := newEvents(src, limit)
	for {
		name, data, err := e.next()
		if err != nil {
			return list, err
		}
		list = append(list, fmt.Sprintf("%s=%q", name, data))
	}
}

func TestEvents(t *testing.T) {
	var bad *answerError
	for _, tt := range []struct {
		name, in, want string
		err            error // nil is an answerError
	}{
		{"nothing", "", "", io.EOF},
		{"one", "event: data\ndata:[1]\n\n", `data="[1]"`, io.EOF},
		{"space", "event:data\ndata: [1]\n\n", `data="[1]"`, io.EOF},
		{"one space only", "data:  x\n\n", `=" x"`, io.EOF},
		{"crlf", "event: data\r\ndata:1\r\n\r\n", `data="1"`, io.EOF},
		{"lines", "data:a\ndata\ndata: b\n\n", `="a\n\nb"`, io.EOF},
		{"empty data", "data\n\n", `=""`, io.EOF},
		{"comments", ": heartbeat\n\n:\n\ndata:1\n: x\n\n: heartbeat\n\n", `="1"`, io.EOF},
		{"unknown fields", "id: 7\nretry: 9\nfoo\ndata:1\n\n", `="1"`, io.EOF},
		{"no data", "event: data\n\ndata:1\n\n", `="1"`, io.EOF},
		{"two", "event: a\ndata:1\n\nevent: b\ndata:2\n\n", `a="1" b="2"`, io.EOF},
		{"blank lines", "\n\n\ndata:1\n\n\n\n", `="1"`, io.EOF},
		{"cut before the blank line", "data:1\n\ndata:2\n", `="1"`, io.ErrUnexpectedEOF},
		{"cut in a line", "data:1\n\ndata", `="1"`, io.ErrUnexpectedEOF},
		{"cut in a comment", "data:1\n\n: heart", `="1"`, io.ErrUnexpectedEOF},
		{"cut after a comment", "data:1\n\n: heartbeat\n", `="1"`, io.EOF},
		{"stray cr", "data:1\r2\n\n", "", nil},
		{"doubled cr", "data:1\r\r\n\n", "", nil},
	} {
		for _, src := range []io.Reader{strings.NewReader(tt.in), iotest.OneByteReader(strings.NewReader(tt.in)), iotest.DataErrReader(strings.NewReader(tt.in))} {
			list, err := readEvents(src, 1<<20)
			if got := strings.Join(list, " "); got != tt.want {
				t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
			}
			if tt.err == nil && !errors.As(err, &bad) || tt.err != nil && !errors.Is(err, tt.err) {
				t.Errorf("%s: got error %v", tt.name, err)
			}
		}
	}
}

func TestEventsAreBounded(t *testing.T) {
	for name, in := range map[string]string{
		"line":    "data:" + strings.Repeat("x", 100_000) + "\n\n",
		"lines":   strings.Repeat("data:"+strings.Repeat("x", 90)+"\n", 1000) + "\n",
		"comment": ":" + strings.Repeat("x", 100_000),
	} {
		var large *tooLargeError
		if list, err := readEvents(strings.NewReader(in), 50_000); !errors.As(err, &large) || len(list) > 0 {
			t.Errorf("%s: %d events, %v", name, len(list), err)
		}
	}
	fits := strings.Repeat("data:"+strings.Repeat("x", 40_000)+"\n\n: heartbeat\n\n", 100)
	if list, err := readEvents(strings.NewReader(fits), 50_000); len(list) != 100 || !errors.Is(err, io.EOF) {
		t.Errorf("%d events, %v", len(list), err)
	}
}

// FuzzEvents checks three properties. Events do not depend on how the bytes are split, they survive
// encoding, and no data is invented.
func FuzzEvents(f *testing.F) {
	for _, seed := range []string{
		"", "event: data\ndata:[1]\n\n", "data:a\r\ndata:b\r\n\r\n", ": heartbeat\n\n", "event: x\n\ndata\n\n", "data:1\r2\n\n", "data", "\n\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		const limit = 4096
		whole, err := readEvents(strings.NewReader(in), limit)
		bytewise, err2 := readEvents(iotest.OneByteReader(strings.NewReader(in)), limit)
		if strings.Join(whole, "|") != strings.Join(bytewise, "|") || fmt.Sprint(err) != fmt.Sprint(err2) {
			t.Fatalf("whole: %s, %v\nbytewise: %s, %v", whole, err, bytewise, err2)
		}
		var wire strings.Builder
		e := newEvents(strings.NewReader(in), limit)
		for {
			name, data, err := e.next()
			if err != nil {
				break
			}
			if len(data) > limit || len(data) > len(in) {
				t.Fatalf("%d bytes of data", len(data))
			}
			wire.WriteString("event: " + name + "\n")
			for line := range strings.SplitSeq(string(data), "\n") {
				wire.WriteString("data: " + line + "\n")
			}
			wire.WriteString("\n")
		}
		again, err := readEvents(strings.NewReader(wire.String()), 10*limit)
		if strings.Join(whole, "|") != strings.Join(again, "|") || !errors.Is(err, io.EOF) {
			t.Fatalf("read %s, written and read again %s, %v", whole, again, err)
		}
	})
}

// FuzzChunks checks that input is decoded or rejected, and that decoded chunks are applied or
// rejected.
func FuzzChunks(f *testing.F) {
	for _, seed := range []string{
		`[]`, `null`, `[null]`, `[{}]`, `[{"type":"conversation-reset","position":{"batch":0,"index":0},"snapshot":{"v":1,"messages":[{"id":"m","metadata":[1]}]}}]`,
		`[{"type":"message-started","messageId":"m","metadata":{"a":{"b":1}},"position":{"batch":1,"index":0}},{"type":"message-metadata","messageId":"m","metadata":{"a":null},"position":{"batch":1,"index":1}}]`,
		`[{"type":"message-started","messageId":"m","position":{"batch":1,"index":0}},{"type":"message-delta","messageId":"m","kind":"text","delta":"x","position":{"batch":1,"index":1}},{"type":"tool-input","messageId":"m","toolCallId":"c","input":1,"position":{"batch":1,"index":2}},{"type":"tool-output","toolCallId":"c","output":1,"position":{"batch":1,"index":3}}]`,
		`[{"type":"message-appended","position":{"batch":0,"index":0}}]`, `[{"type":"stream-checkpoint"}]`, `[{"type":"x","position":{"batch":0,"index":0}}]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		chunks, err := decodeChunks(nil, in)
		if err != nil {
			return
		}
		tr, err := NewTranscript(nil)
		if err != nil {
			t.Fatal(err)
		}
		if tr.Apply(Update{Chunks: chunks}) != nil {
			return
		}
		for _, m := range tr.Snapshot().Messages {
			tr.Reply(m.SubmissionID)
		}
	})
}
