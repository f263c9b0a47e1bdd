package eventstream_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/parleyrun/parley/providers/eventstream"
)

// read returns the messages of a stream and its final error.
func read(src io.Reader, o *eventstream.Options) (payloads []string, texts []string, err error) {
	r := eventstream.NewReader(src, o)
	for {
		m, err := r.Next()
		if err != nil {
			if _, again := r.Next(); again != err {
				return nil, nil, errors.New("the error does not stay")
			}
			return payloads, texts, err
		}
		payloads = append(payloads, string(m.Payload))
		texts = append(texts, m.Text("content-type")+m.Text(":event-type"))
	}
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Test messages of the vendor's libraries, and one of a model.
const (
	emptyMessage = "000000100000000005c248eb7d98c8ff"
	noHeaders    = "0000001d00000000fd528c5a7b27666f6f273a27626172277dc3653936"
	oneText      = "0000003d0000002007fd83960c636f6e74656e742d747970650700106170706c69636174696f6e2f6a736f6e7b27666f6f273a27626172277d8d9c08b1"
	oneInteger   = "0000002d0000001041c424b80a6576656e742d74797065040000a00c7b27666f6f273a27626172277d36f480a0"
	allTypes     = "000000cc000000af0fae64ca0a6576656e742d74797065040000a00c0c636f6e74656e742d747970650700106170706c69636174696f6e2f6a736f6e" +
		"0a626f6f6c2066616c73650109626f6f6c207472756500046279746502cf08627974652062756606001449276d2061206c6974746c6520746561706f7421" +
		"0974696d657374616d70080000000000845fed05696e74313603002a05696e7436340500000000028757b20475756964090102030405060708090a0b0c0d0e0f10" +
		"7b27666f6f273a27626172277daba5f10c"
	messageStop = "0000007a00000051ca2c46650b3a6576656e742d7479706507000b6d65737361676553746f700d3a636f6e74656e742d747970650700106170706c69636174696f6e2f6a736f6e" +
		"0d3a6d6573736167652d747970650700056576656e747b2273746f70526561736f6e223a22656e645f7475726e227d5fbf09fc"
)

// covers: providers/164
func TestVectors(t *testing.T) {
	const payload = "{'foo':'bar'}"
	for name, tt := range map[string]struct{ frame, payload, text, problem string }{
		"empty":               {emptyMessage, "", "", ""},
		"no headers":          {noHeaders, payload, "", ""},
		"a text":              {oneText, payload, "application/json", ""},
		"an integer":          {oneInteger, payload, "", ""},
		"all types":           {allTypes, payload, "application/json", ""},
		"of a model":          {messageStop, `{"stopReason":"end_turn"}`, "messageStop", ""},
		"wrong payload":       {"0000001d00000000fd528c5a5b27666f6f273a27626172277dc3653936", "", "", "checksum of a message"},
		"wrong headers":       {strings.Replace(oneText, "7b27666f6f", "7b61666f6f", 1), "", "", "checksum of a message"},
		"wrong header length": {strings.Replace(oneText, "00000020", "00000021", 1), "", "", "checksum of the lengths"},
		"wrong length":        {strings.Replace(oneText, "0000003d", "0000003e", 1), "", "", "checksum of the lengths"},
	} {
		t.Run(name, func(t *testing.T) {
			frame := unhex(t, tt.frame)
			payloads, texts, err := read(bytes.NewReader(append(frame, frame...)), nil)
			var format *eventstream.FormatError
			if tt.problem != "" {
				if !errors.As(err, &format) || !strings.Contains(err.Error(), tt.problem) || len(payloads) != 0 {
					t.Errorf("got %q, %v, want %q", payloads, err, tt.problem)
				}
				return
			}
			if err != io.EOF || len(payloads) != 2 || payloads[1] != tt.payload || texts[1] != tt.text {
				t.Errorf("got %q, %q, %v, want %q and %q twice", payloads, texts, err, tt.payload, tt.text)
			}
		})
	}
}

// TestAppendMessage compares encodings with those of the vendor.
func TestAppendMessage(t *testing.T) {
	got := eventstream.AppendMessage([]byte("before"), []eventstream.Header{
		{Name: ":event-type", Value: "messageStop"}, {Name: ":content-type", Value: "application/json"}, {Name: ":message-type", Value: "event"},
	}, []byte(`{"stopReason":"end_turn"}`))
	if want := "before" + string(unhex(t, messageStop)); string(got) != want {
		t.Errorf("got %x", got)
	}
	if got := eventstream.AppendMessage(nil, nil, nil); hex.EncodeToString(got) != emptyMessage {
		t.Errorf("got %x", got)
	}
}

// framed returns a message with valid checksums and arbitrary content.
func framed(headers, payload string, claimed int) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(16+len(headers)+len(payload)))
	b = binary.BigEndian.AppendUint32(b, uint32(claimed))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, headers...), payload...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// TestWrongInside covers invalid content with valid checksums.
// covers: providers/164
func TestWrongInside(t *testing.T) {
	for name, tt := range map[string]struct {
		frame   []byte
		problem string
	}{
		"headers longer than the message": {framed("", "12345", 6), "6 bytes of headers in a message of 21"},
		"headers of any length":           {framed("", "", 1<<32-1), "bytes of headers"},
		"a length below the least":        {binary.BigEndian.AppendUint32([]byte{0, 0, 0, 15, 0, 0, 0, 0}, crc32.ChecksumIEEE([]byte{0, 0, 0, 15, 0, 0, 0, 0})), "bytes of headers"},
		"a header without a name":         {framed("\x00\x00", "", 2), "cut"},
		"a name that is cut":              {framed("\x05abcd", "", 5), "cut"},
		"a name and nothing":              {framed("\x04abcd", "", 5), "cut"},
		"an unknown type":                 {framed("\x01a\x0a", "", 3), "cut"},
		"a text without its length":       {framed("\x01a\x07\x00", "", 4), "cut"},
		"a text that is cut":              {framed("\x01a\x07\x00\x05abcd", "", 9), "cut"},
		"a number that is cut":            {framed("\x01a\x05abcdefg", "", 10), "cut"},
		"larger than the limit":           {framed("", strings.Repeat("x", 85), 0), "101 bytes is larger than 100"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := read(bytes.NewReader(tt.frame), &eventstream.Options{MaxMessageBytes: 100})
			if err == nil || !strings.Contains(err.Error(), tt.problem) {
				t.Errorf("got %v, want %q", err, tt.problem)
			}
		})
	}
	if _, _, err := read(bytes.NewReader(framed("", strings.Repeat("x", 84), 0)), &eventstream.Options{MaxMessageBytes: 100}); err != io.EOF {
		t.Errorf("message of maximum size: got %v", err)
	}
}

// TestCut truncates a stream at each byte.
func TestCut(t *testing.T) {
	stream := append(unhex(t, allTypes), unhex(t, messageStop)...)
	border := len(unhex(t, allTypes))
	reset := errors.New("connection reset")
	for n := range stream {
		payloads, _, err := read(iotest.OneByteReader(bytes.NewReader(stream[:n])), nil)
		want, whole := io.ErrUnexpectedEOF, 0
		if n == 0 || n == border {
			want = io.EOF
		}
		if n >= border {
			whole = 1
		}
		if err != want || len(payloads) != whole {
			t.Fatalf("cut at %d: got %d messages and %v, want %d and %v", n, len(payloads), err, whole, want)
		}
		if _, _, err := read(io.MultiReader(bytes.NewReader(stream[:n]), iotest.ErrReader(reset)), nil); !errors.Is(err, reset) {
			t.Fatalf("broken at %d: got %v", n, err)
		}
	}
}

// TestLengthIsNotBelieved: memory is allocated for received bytes, not for the declared length.
func TestLengthIsNotBelieved(t *testing.T) {
	announced := binary.BigEndian.AppendUint32(nil, eventstream.DefaultMaxMessageBytes)
	announced = binary.BigEndian.AppendUint32(announced, 0)
	announced = binary.BigEndian.AppendUint32(announced, crc32.ChecksumIEEE(announced))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err := read(bytes.NewReader(announced), nil)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; err != io.ErrUnexpectedEOF || took > 1<<20 {
		t.Errorf("12 bytes of a message: got %d bytes of memory, %v", took, err)
	}
}

// FuzzReader checks that messages are encoded to the same bytes again.
func FuzzReader(f *testing.F) {
	for _, s := range []string{emptyMessage, noHeaders, oneText, oneInteger, allTypes, messageStop} {
		f.Add(unhex(f, s))
	}
	f.Add(framed("\x01a\x07\x00\x05abcd", "", 9))
	f.Add(framed("\x01a\x0a", "", 3))
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := eventstream.NewReader(bytes.NewReader(stream), &eventstream.Options{MaxMessageBytes: 1 << 16})
		for {
			m, err := r.Next()
			if err != nil {
				return
			}
			text := m.Text("a")
			again := eventstream.AppendMessage(nil, []eventstream.Header{{Name: "a", Value: text}}, m.Payload)
			same, err := eventstream.NewReader(bytes.NewReader(again), &eventstream.Options{MaxMessageBytes: 1 << 18}).Next()
			if err != nil || same.Text("a") != text || !bytes.Equal(same.Payload, m.Payload) {
				t.Fatalf("%x: got %x, %v", m.Payload, again, err)
			}
		}
	})
}
