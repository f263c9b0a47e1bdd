package providers

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
)

// argumentText assembles the arguments of one call from vendor fragments. Some vendors send "{}"
// before the real arguments, repeat all arguments at the end, send null, or encode the JSON text as a
// JSON string. The zero value is ready to use.
type argumentText struct {
	join  textJoiner
	text  []byte // accepted so far
	shown int    // number of bytes of text already returned
	again []byte // input after a complete value
	// Scanner state over text: open brackets, inside a string, value complete.
	depth           int
	quoted, escaped bool
	whole           bool
}

// size returns the number of buffered bytes.
func (t *argumentText) size() int { return len(t.text) + len(t.again) }

// add appends a fragment and returns the text that can now be displayed.
func (t *argumentText) add(piece string) string {
	piece = t.join.add(piece)
	if next := strings.TrimSpace(piece); t.whole && t.empty() && next != "" && (t.shown == 0 || next[0] == '{') {
		*t = argumentText{join: t.join, shown: t.shown} // the earlier value was a placeholder
		piece = strings.TrimLeft(piece, " \t\r\n")
	}
	if t.whole {
		t.again = append(t.again, piece...)
		return ""
	}
	t.scan(piece)
	return t.show()
}

func (t *argumentText) scan(piece string) {
	for i := range len(piece) {
		c := piece[i]
		t.text = append(t.text, c)
		switch {
		case t.escaped:
			t.escaped = false
		case t.quoted:
			t.escaped, t.quoted = c == '\\', c != '"'
		case c == '"':
			t.quoted = true
		case c == '{' || c == '[':
			t.depth++
		case c == '}' || c == ']':
			t.depth--
		}
		if !t.quoted && t.depth <= 0 && strings.IndexByte(`}]"`, c) >= 0 || c == 'l' && string(bytes.TrimSpace(t.text)) == "null" {
			t.whole = true
			t.again = append(t.again, piece[i+1:]...)
			return
		}
	}
}

// show returns the text not yet returned. It holds back an object without members, because members may
// follow, and any non-object, because it may wrap an object.
func (t *argumentText) show() string {
	compact := bytes.TrimSpace(t.text)
	if t.empty() || len(compact) == 0 || compact[0] != '{' || len(compact) == 1 && len(t.text) > 1 {
		return ""
	}
	return t.rest()
}

func (t *argumentText) rest() string {
	s := string(t.text[min(t.shown, len(t.text)):])
	t.shown = len(t.text)
	return s
}

// empty reports whether the text is a value that means no arguments.
func (t *argumentText) empty() bool {
	compact := strings.Join(strings.Fields(string(t.text[:min(len(t.text), maxEmptyValue)])), "")
	switch {
	case len(t.text) > maxEmptyValue:
		return false
	case compact == "{}", compact == "null", compact == `""`, compact == `"{}"`, compact == `"null"`:
		return true
	}
	return false
}

// maxEmptyValue is the maximum length in bytes of a value that means no arguments.
const maxEmptyValue = 32

// end returns the final arguments and the text not yet displayed.
func (t *argumentText) end() (show string, arguments json.RawMessage, malformed bool) {
	if rest := t.join.rest(); rest != "" {
		t.add(rest)
	}
	if !t.repeated() {
		t.text = append(t.text, t.again...)
	}
	written := bytes.TrimSpace(t.text)
	if inner := unwrapped(written); inner != nil && t.shown == 0 {
		t.text, written = inner, inner
	}
	if len(written) == 0 || string(written) == "null" && t.shown == 0 {
		return "", json.RawMessage("{}"), false
	}
	if json.Valid(written) {
		return t.rest(), t.text, false
	}
	quoted, err := json.Marshal(string(t.text))
	if err != nil {
		panic("providers: encode string: " + err.Error())
	}
	return t.rest(), quoted, true
}

// repeated reports whether the input after the value repeats the value, completely or in part.
func (t *argumentText) repeated() bool {
	value, again := bytes.TrimSpace(t.text), bytes.TrimSpace(t.again)
	for len(again) > len(value) && bytes.HasPrefix(again, value) {
		again = bytes.TrimSpace(again[len(value):])
	}
	if bytes.HasPrefix(value, again) {
		return true
	}
	var one, other bytes.Buffer
	return json.Compact(&one, value) == nil && json.Compact(&other, again) == nil && bytes.Equal(one.Bytes(), other.Bytes())
}

// maxWraps bounds how many times arguments may be encoded as a JSON string.
const maxWraps = 3

// unwrapped returns the object or null encoded in a JSON string, or nil if there is none. An empty
// string decodes to an empty object.
func unwrapped(written []byte) []byte {
	for range maxWraps {
		var s string
		if len(written) == 0 || written[0] != '"' || json.Unmarshal(written, &s) != nil {
			return nil
		}
		written = bytes.TrimSpace([]byte(s))
		switch {
		case len(written) == 0:
			return []byte("{}")
		case string(written) == "null", written[0] == '{' && json.Valid(written):
			return written
		}
	}
	return nil
}

// toolName returns the name of the tool that a model intends to call. Some models put spaces, quotes
// or a namespace around a name, and a number or a format marker after it. A known name is returned
// unchanged. Without tools every name is returned unchanged.
func toolName(written string, tools []Tool) string {
	known := func(name string) bool { return knownTool(tools, name) }
	if known(written) {
		return written
	}
	name, _, _ := strings.Cut(written, "<|")
	name = strings.TrimFunc(name, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r) || strings.ContainsRune("\"'`", r)
	})
	if known(name) {
		return name
	}
	if head, number, ok := cutLast(name, ":"); ok && number != "" && strings.Trim(number, "0123456789") == "" {
		name = head
	}
	if known(name) {
		return name
	}
	for _, namespace := range []string{"functions.", "functions:", "functions/"} {
		if rest, ok := strings.CutPrefix(name, namespace); ok && rest != "" {
			return rest
		}
	}
	for _, mark := range []string{".", ":", "/"} {
		if _, last, ok := cutLast(name, mark); ok && known(last) {
			return last
		}
	}
	return name
}

func knownTool(tools []Tool, name string) bool {
	return slices.ContainsFunc(tools, func(t Tool) bool { return t.Name == name })
}

func cutLast(s, mark string) (before, after string, found bool) {
	at := strings.LastIndex(s, mark)
	if at < 0 {
		return s, "", false
	}
	return s[:at], s[at+len(mark):], true
}
