package prompt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
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

// Output is the outcome of a call as a text, whole.
func Output(t *conversation.ToolCall) string {
	if t.Failed {
		return t.ErrorText
	}
	return outputText(t.Output)
}

// outputText shows a string as it is and anything else as JSON.
func outputText(raw json.RawMessage) string {
	var s string
	if bytes.HasPrefix(raw, []byte(`"`)) && json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// shorten returns a text of more than so many bytes with its beginning and its end alone, 0
// for any.
func shorten(text string, most int, call conversation.CallID) string {
	if most <= 0 || len(text) <= most {
		return text
	}
	room := max(most-cutNote, 0)
	head := boundary(text, room*2/3)
	tail := boundary(text, len(text)-room/3)
	return text[:head] + fmt.Sprintf(sayCut, tail-head, len(text), call, head) + text[tail:]
}

// boundary is the last beginning of a character at or before a place.
func boundary(text string, at int) int {
	at = min(max(at, 0), len(text))
	for at > 0 && at < len(text) && !utf8.RuneStart(text[at]) {
		at--
	}
	return at
}

// Shortened reports whether messages hold an output that shorten has shortened to so many
// bytes. One that looks like it counts, too.
func Shortened(messages []providers.Message, most int) bool {
	sign := "Read on with the tool " + conversation.ReadOutputTool + ": call"
	for _, m := range messages {
		for _, p := range m.Parts {
			r, ok := p.(providers.ToolResult)
			if !ok || len(r.Content) == 0 {
				continue
			}
			// What was shortened is about as long as may be.
			if text, ok := r.Content[0].(providers.Text); ok && len(text.Text) > most/2 && strings.Contains(text.Text, sign) {
				return true
			}
		}
	}
	return false
}

// Piece returns what is read of an output from a byte on, or, if find is not empty, from a
// little before its first place at or after that, with where it stands: together at most so
// many bytes. It is false if find is not there.
func Piece(output string, from int, find string, most int) (string, bool) {
	from = boundary(output, from)
	if find != "" {
		at := strings.Index(output[from:], find)
		if at < 0 {
			return "", false
		}
		from = boundary(output, from+at-beforeFind)
	}
	end := boundary(output, from+max(most-cutNote, 0))
	where := fmt.Sprintf("[bytes %d to %d of %d", from, end, len(output))
	if end < len(output) {
		where += fmt.Sprintf("; read on from %d", end)
	}
	return where + "]\n" + output[from:end], true
}

// beforeFind is how much is shown before what was found, in bytes.
const beforeFind = 200
