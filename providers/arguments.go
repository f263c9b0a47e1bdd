package providers

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
)

// argumentText assembles the arguments of one call from what a vendor sends as such. Vendors
// are known to send "{}" before the real arguments, all of them again at the end, null, and a
// JSON text within a JSON string. The zero value is ready.
type argumentText struct {
	join  textJoiner
	text  []byte // as far as it counts
	shown int    // bytes of text that were handed over
	again []byte // what came after a whole value
	// Of text: how many brackets are open, whether a string is, and whether a value has ended.
	depth           int
	quoted, escaped bool
	whole           bool
}

// size is what is kept.
func (t *argumentText) size() int { return len(t.text) + len(t.again) }

// add takes a piece, and returns what can be shown of it and of what was held before.
func (t *argumentText) add(piece string) string {
	piece = t.join.add(piece)
	if next := strings.TrimSpace(piece); t.whole && t.empty() && next != "" && (t.shown == 0 || next[0] == '{') {
		*t = argumentText{join: t.join, shown: t.shown} // the value stood for one that was to come
		piece = strings.TrimLeft(piece, " \t\r\n")
	}
	if t.whole {
		t.again = append(t.again, piece...)
		return ""
	}
	t.scan(piece)
	return t.show()
}

// scan appends a piece of a JSON value.
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

// show returns what was not handed over. An object without members is held, since others may
// follow it, and so is what is no object, since it may hold one.
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

// empty reports whether the text is a value that stands for no arguments.
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

// maxEmptyValue is the longest text, in bytes, that may stand for no arguments.
const maxEmptyValue = 32

// end returns the arguments, and what is to be shown of them yet.
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
		panic("providers: a string has no JSON form: " + err.Error())
	}
	return t.rest(), quoted, true
}

// repeated reports whether what came after the value is the value, again or begun again.
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

// maxWraps is how often arguments may be encoded over again.
const maxWraps = 3

// unwrapped returns the object or null that stands as JSON within a JSON string, nil if there is none.
// A string without text stands for an object without members.
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

// toolName returns the name of the tool that a model means: models are known to write spaces,
// quotes or a namespace around a name, and a number or a mark of their own format after it. A
// name that is known stays as it is; nothing is known without tools.
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
