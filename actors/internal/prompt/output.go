package prompt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
)

// Limits of a shortened output, in bytes.
const (
	// maxOutput bounds one output, in bytes; it is about 16,000 tokens. One output should not displace
	// others, and the model can read further parts.
	maxOutput = 64 << 10
	// minOutput is the size of a page of text, in bytes, that even a small window gets.
	minOutput = 4 << 10
	// outputShare is the divisor of the window for one output, because a turn has several.
	outputShare = 16
	tokenBytes  = 4
)

// OutputBytes returns how many bytes of one output a model is shown: a 16th of its window, between 4
// and 64 KiB. window is in tokens, 0 if unknown.
func OutputBytes(window int) int {
	if window <= 0 {
		return maxOutput
	}
	return min(max(window/outputShare*tokenBytes, minOutput), maxOutput)
}

// textCut replaces the omitted middle of an output.
const textCut = "\n\n[%d of %d bytes omitted here. Read on with the tool " + conversation.ReadOutputTool + `: call "%s", from %d.]` + "\n\n"

// cutNote is an upper bound of the size of textCut, in bytes.
const cutNote = 256

// Output returns the outcome of a call as text, as far as it is recorded.
func Output(t *conversation.ToolCall) string {
	if t.Failed {
		return t.ErrorText
	}
	return OutputText(t.Output)
}

// OutputText returns a JSON string as its text, and other values as JSON.
func OutputText(raw json.RawMessage) string {
	var s string
	if bytes.HasPrefix(raw, []byte(`"`)) && json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// textPart replaces the omitted middle of an output shown to people.
const textPart = "\n\n[%d of %d bytes omitted here.]\n\n"

// Part returns the head and the tail of a text of size bytes, and both as shown to people. Together
// they take at most most bytes as JSON and at most half of the text. first and last are its beginning
// and its end, of at least that length.
func Part(first, last string, size, most int) (head, tail, shown string) {
	most = min(most, size/2)
	head, tail = first[:boundary(first, most*2/3)], last[boundary(last, len(last)-most/3):]
	for conversation.TextBytes(head) > most*2/3 {
		head = head[:boundary(head, len(head)/2)]
	}
	for conversation.TextBytes(tail) > most/3 {
		tail = tail[boundary(tail, len(tail)-len(tail)/2):]
	}
	return head, tail, head + fmt.Sprintf(textPart, size-len(head)-len(tail), size) + tail
}

// TextPieces yields the text of [OutputText] in pieces of at most most bytes of JSON, each valid
// UTF-8. It copies one piece at a time.
func TextPieces(raw json.RawMessage, most int) iter.Seq[string] {
	quoted := len(raw) > 1 && raw[0] == '"' && raw[len(raw)-1] == '"'
	if quoted {
		raw = raw[1 : len(raw)-1]
	}
	return func(yield func(string) bool) {
		for len(raw) > 0 {
			n := pieceEnd(raw, most, quoted)
			piece := string(raw[:n])
			if quoted {
				piece = OutputText(slices.Concat([]byte(`"`), raw[:n], []byte(`"`)))
			}
			if !yield(strings.ToValidUTF8(piece, "\uFFFD")) {
				return
			}
			raw = raw[n:]
		}
	}
}

// pieceEnd returns the end of a piece of at most most bytes, or of one character. It splits neither a
// character nor, in a quoted text, an escape or a surrogate pair.
func pieceEnd(raw []byte, most int, quoted bool) int {
	if len(raw) <= most {
		return len(raw)
	}
	end := 0
	for end < len(raw) {
		n := 0
		if quoted {
			n = escapeBytes(raw[end:])
		}
		if n == 0 {
			_, n = utf8.DecodeRune(raw[end:])
		}
		if end > 0 && end+n > most {
			break
		}
		end += n
	}
	return end
}

// escapeBytes returns the length of the escape at the start of a quoted text, 0 if there is none.
func escapeBytes(raw []byte) int {
	if raw[0] != '\\' {
		return 0
	}
	first, ok := codeUnit(raw)
	if !ok {
		return min(len(`\n`), len(raw))
	}
	n := len(`\u0000`)
	if second, ok := codeUnit(raw[n:]); ok && utf16.DecodeRune(first, second) != unicode.ReplacementChar {
		n *= 2
	}
	return n
}

// codeUnit decodes the UTF-16 escape at the start of a text, if there is one.
func codeUnit(raw []byte) (rune, bool) {
	if len(raw) < len(`\u0000`) || raw[0] != '\\' || raw[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(raw[2:6]), 16, 32)
	return rune(n), err == nil
}

func (v *view) outputOf(t *conversation.ToolCall) string {
	o := t.Stored
	if o == nil || t.Failed {
		return shorten(Output(t), v.output, t.Call)
	}
	room := len(o.Head) + len(o.Tail)
	if v.output > 0 {
		room = min(room, max(v.output-cutNote, 0))
	}
	head, tail := o.Head[:boundary(o.Head, room*2/3)], o.Tail[boundary(o.Tail, len(o.Tail)-room/3):]
	return cut(head, tail, int(o.Size), t.Call)
}

func cut(head, tail string, size int, call conversation.CallID) string {
	return head + fmt.Sprintf(textCut, size-len(head)-len(tail), size, call, len(head)) + tail
}

// shorten returns a text with its middle omitted if it exceeds most bytes; 0 is no limit.
func shorten(text string, most int, call conversation.CallID) string {
	if most <= 0 || len(text) <= most {
		return text
	}
	room := max(most-cutNote, 0)
	return cut(text[:boundary(text, room*2/3)], text[boundary(text, len(text)-room/3):], len(text), call)
}

// boundary returns the start of the last character at or before an index.
func boundary(text string, at int) int {
	at = min(max(at, 0), len(text))
	for at > 0 && at < len(text) && !utf8.RuneStart(text[at]) {
		at--
	}
	return at
}

// Shortened reports whether messages hold a shortened output, or text that looks like one.
func Shortened(messages []providers.Message) bool {
	sign := "Read on with the tool " + conversation.ReadOutputTool + ": call"
	for _, m := range messages {
		for _, p := range m.Parts {
			r, ok := p.(providers.ToolResult)
			if !ok || len(r.Content) == 0 {
				continue
			}
			if text, ok := r.Content[0].(providers.Text); ok && strings.Contains(text.Text, sign) {
				return true
			}
		}
	}
	return false
}

// Window is the loaded part of an output of Size bytes, starting at At.
type Window struct {
	Text     string
	At, Size int
}

// Piece returns at most most bytes of an output from a byte on, with a note of their position. If find
// is not empty, it starts shortly before the first match at or after from; ok is false without a
// match. The window must hold the range.
func (w Window) Piece(from int, find string, most int) (string, bool) {
	from = boundary(w.Text, from-w.At)
	if find != "" {
		at := strings.Index(w.Text[from:], find)
		if at < 0 {
			return "", false
		}
		from = boundary(w.Text, from+at-BeforeFind)
	}
	end := boundary(w.Text, from+max(most-cutNote, 0))
	where := fmt.Sprintf("[bytes %d to %d of %d", w.At+from, w.At+end, w.Size)
	if w.At+end < w.Size {
		where += fmt.Sprintf("; read on from %d", w.At+end)
	}
	return where + "]\n" + w.Text[from:end], true
}

// BeforeFind is the context before a match, in bytes.
const BeforeFind = 200
