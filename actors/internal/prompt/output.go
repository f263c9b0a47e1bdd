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

// What an output that a model is shown a part of may have, in bytes.
const (
	// maxOutput is about 16,000 tokens: more than what one call brings is worth beside all
	// the others, and what reading on in it twice would have shown.
	maxOutput = 64 << 10
	// minOutput is a page of text, however small the window.
	minOutput = 4 << 10
	// outputShare is the part of a window that one output may take: a turn has several.
	outputShare = 16
	tokenBytes  = 4
)

// OutputBytes is how much a model is shown of one output: a 16th of its window, which has
// so many tokens, 0 if that is not known; at most 64 KiB and at least 4.
func OutputBytes(window int) int {
	if window <= 0 {
		return maxOutput
	}
	return min(max(window/outputShare*tokenBytes, minOutput), maxOutput)
}

// sayCut stands where the middle of an output is left out.
const sayCut = "\n\n[%d of %d bytes are left out here. Read on with the tool " + conversation.ReadOutputTool + `: call "%s", from %d.]` + "\n\n"

// cutNote is more than what sayCut takes, in bytes.
const cutNote = 256

// Output is the outcome of a call as a text, as much of it as is recorded.
func Output(t *conversation.ToolCall) string {
	if t.Failed {
		return t.ErrorText
	}
	return OutputText(t.Output)
}

// OutputText shows a string as it is and anything else as JSON.
func OutputText(raw json.RawMessage) string {
	var s string
	if bytes.HasPrefix(raw, []byte(`"`)) && json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// sayPart stands where the middle of an output is left out of what people are shown.
const sayPart = "\n\n[%d of %d bytes are left out here.]\n\n"

// Part returns the beginning and the end of a text of size bytes, which take at most so many bytes together
// as JSON and are at most half of it, and both as people are shown them. First and last are as much of its beginning
// and of its end, or more.
func Part(first, last string, size, most int) (head, tail, shown string) {
	most = min(most, size/2)
	head, tail = first[:boundary(first, most*2/3)], last[boundary(last, len(last)-most/3):]
	for conversation.TextBytes(head) > most*2/3 {
		head = head[:boundary(head, len(head)/2)]
	}
	for conversation.TextBytes(tail) > most/3 {
		tail = tail[boundary(tail, len(tail)-len(tail)/2):]
	}
	return head, tail, head + fmt.Sprintf(sayPart, size-len(head)-len(tail), size) + tail
}

// TextPieces yields what [OutputText] returns in pieces of at most so many bytes of the JSON, none within a
// character, and valid UTF-8. It copies one piece at a time.
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

// pieceEnd returns where a piece of a text ends that has at most so many bytes, or one character: not within a
// character, nor, in a text in quotes, within an escape or a pair of them that is one character.
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

// escapeBytes returns how many bytes the escape takes that a text in quotes begins with, 0 if it does not.
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

// codeUnit returns the unit of UTF-16 that a text begins with as an escape, and whether it does.
func codeUnit(raw []byte) (rune, bool) {
	if len(raw) < len(`\u0000`) || raw[0] != '\\' || raw[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(raw[2:6]), 16, 32)
	return rune(n), err == nil
}

// outputOf is a call's outcome as the model is shown it.
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

// cut is a text of so many bytes with its beginning and its end alone.
func cut(head, tail string, size int, call conversation.CallID) string {
	return head + fmt.Sprintf(sayCut, size-len(head)-len(tail), size, call, len(head)) + tail
}

// shorten returns a text of more than so many bytes with its beginning and its end alone, 0
// for any.
func shorten(text string, most int, call conversation.CallID) string {
	if most <= 0 || len(text) <= most {
		return text
	}
	room := max(most-cutNote, 0)
	return cut(text[:boundary(text, room*2/3)], text[boundary(text, len(text)-room/3):], len(text), call)
}

// boundary is the last beginning of a character at or before a place.
func boundary(text string, at int) int {
	at = min(max(at, 0), len(text))
	for at > 0 && at < len(text) && !utf8.RuneStart(text[at]) {
		at--
	}
	return at
}

// Shortened reports whether messages hold an output of which a part is left out. One that
// looks like it counts, too.
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

// Window is what is in memory of an output of Size bytes: those from At on.
type Window struct {
	Text     string
	At, Size int
}

// Piece returns what is read of an output from a byte on, or, if find is not empty, from a
// little before its first place at or after that, with where it stands: together at most so
// many bytes, which the window has to have. It is false if find is not there.
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

// BeforeFind is how much is shown before what was found, in bytes.
const BeforeFind = 200
