package converse

import (
	"io"
	"strings"
	"testing"
)

// TestKeyboard sends input in pieces of every size.
func TestKeyboard(t *testing.T) {
	long := strings.Repeat("x", shortPaste+1)
	for _, tt := range []struct{ keys, shown, message string }{
		{"hello\r", "hello\r", "hello\r"},
		{"\x1b[A\x1b[D", "\x1b[A\x1b[D", "\x1b[A\x1b[D"},
		{"a" + pasteBegins + "b\tc\r" + pasteEnds + "d", "ab    cd", "ab    cd"},
		{pasteBegins + "one\r\ntwo\rthree" + pasteEnds + "!", "[paste 1, 3 lines]!", "one\ntwo\nthree!"},
		{pasteBegins + long + pasteEnds, "[paste 1, 1 lines]", long},
		{pasteBegins + "a\nb" + pasteEnds + pasteBegins + "c\x03\nd\n" + pasteEnds, "[paste 1, 2 lines][paste 2, 2 lines]", "a\nbc\x03\nd"},
		{"a\x1b\rb", "a␤b", "a\nb"},
		{"x\x03", "x\x03", "x\x03"},
	} {
		for size := range 8 {
			k := newKeyboard()
			for rest := tt.keys; rest != ""; {
				n := min(size+1, len(rest))
				k.typed([]byte(rest[:n]))
				rest = rest[n:]
			}
			k.end(io.EOF)
			got, err := io.ReadAll(k)
			if err != nil || string(got) != tt.shown || k.message(string(got)) != tt.message {
				t.Errorf("%.60q in pieces of %d: %.60q, %.60q, %v; want %.60q, %.60q", tt.keys, size+1, got, k.message(string(got)), err, tt.shown, tt.message)
			}
		}
	}
}

func TestInterruptsAreOfAnAnswer(t *testing.T) {
	k := newKeyboard()
	k.answering(true)
	k.typed([]byte("a\x03\x03b"))
	if len(k.interrupts) != 1 {
		t.Errorf("%d interrupts", len(k.interrupts))
	}
	k.answering(false)
	k.typed([]byte("\x03"))
	k.end(io.EOF)
	if got, _ := io.ReadAll(k); string(got) != "ab\x03" || len(k.interrupts) != 0 {
		t.Errorf("got %q, %d interrupts; want \"ab\\x03\", 0", got, len(k.interrupts))
	}
}
