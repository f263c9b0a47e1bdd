package agent

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/contain"
)

// A value is nil, a bool, a json.Number, a string, []any or an object. It takes far less memory than
// the result of package encoding/json, which for short members is a hundred times the text.
type (
	// object is sorted by name, without duplicates: the last member of a name counts, as everywhere in
	// Go.
	object []member
	member struct {
		name  string
		value any
	}
)

// find returns the value of a member and whether it exists.
func (o object) find(name string) (any, bool) {
	i, ok := slices.BinarySearchFunc(o, name, func(m member, name string) int { return strings.Compare(m.name, name) })
	if !ok {
		return nil, false
	}
	return o[i].value, true
}

// reader parses valid JSON into a value. Each value and each 256 bytes of text are a step.
type reader struct {
	check *check
	rest  string
	depth int
}

// peek returns the next byte after white space.
func (r *reader) peek() byte {
	r.rest = strings.TrimLeft(r.rest, " \t\r\n")
	return r.rest[0]
}

func (r *reader) skip(n int) { r.rest = r.rest[n:] }

// value returns the next value; nil when the check is over.
func (r *reader) value() any {
	if !r.check.spend(1) {
		return nil
	}
	switch r.peek() {
	case '{', '[':
		if r.depth++; r.depth > conversation.MaxPayloadNesting {
			r.check.err = &SchemaBoundError{fmt.Sprintf("is nested deeper than %d", conversation.MaxPayloadNesting)}
			return nil
		}
		defer func() { r.depth-- }()
		if r.rest[0] == '{' {
			return r.object()
		}
		return r.array()
	case '"':
		return r.string()
	case 't':
		r.skip(len("true"))
		return true
	case 'f':
		r.skip(len("false"))
		return false
	case 'n':
		r.skip(len("null"))
		return nil
	}
	return r.number()
}

func (r *reader) object() object {
	r.skip(1)
	o := object{}
	for r.check.err == nil && r.peek() != '}' {
		if r.rest[0] == ',' {
			r.skip(1)
			r.peek()
		}
		name := r.string()
		r.peek()
		r.skip(len(":"))
		r.check.enter(name)
		o = append(o, member{name, r.value()})
		r.check.leave()
	}
	if r.check.err != nil {
		return nil
	}
	r.skip(1)
	return sorted(o)
}

// sorted sorts members and keeps the last of each name.
func sorted(o object) object {
	slices.SortStableFunc(o, func(a, b member) int { return strings.Compare(a.name, b.name) })
	kept := o[:0]
	for i, m := range o {
		if i+1 == len(o) || o[i+1].name != m.name {
			kept = append(kept, m)
		}
	}
	return kept
}

func (r *reader) array() []any {
	r.skip(1)
	a := []any{}
	for r.check.err == nil && r.peek() != ']' {
		if r.rest[0] == ',' {
			r.skip(1)
		}
		r.check.enterItem(len(a))
		a = append(a, r.value())
		r.check.leave()
	}
	if r.check.err != nil {
		return nil
	}
	r.skip(1)
	return a
}

func (r *reader) string() string {
	plain, end := true, 1
	for ; r.rest[end] != '"'; end++ {
		switch c := r.rest[end]; {
		case c == '\\':
			plain = false
			end++
		case c >= utf8.RuneSelf:
			plain = false
		}
	}
	text := r.rest[1:end]
	if !plain && (strings.Contains(text, `\`) || !utf8.ValidString(text)) {
		var s string
		// The text is valid, and Unmarshal replaces invalid UTF-8.
		_ = json.Unmarshal([]byte(r.rest[:end+1]), &s)
		text = s
	}
	r.skip(end + 1)
	r.check.spend(end / 256)
	return text
}

// number returns a number in the form of [normalizeNumber]. A number beyond its bounds is an issue.
func (r *reader) number() any {
	end := 0
	for end < len(r.rest) && strings.IndexByte(",]} \t\r\n", r.rest[end]) < 0 {
		end++
	}
	n, ok := normalizeNumber(json.Number(r.rest[:end]))
	r.skip(end)
	r.check.spend(end / 256)
	if !ok {
		r.check.add("number is out of range")
		return nil
	}
	return n
}

// appendValue encodes a value as JSON.
func appendValue(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, v)
	case json.Number:
		return append(dst, v...)
	case string:
		return appendString(dst, v)
	case []any:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendValue(dst, e)
		}
		return append(dst, ']')
	}
	dst = append(dst, '{')
	for i, m := range v.(object) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, m.name), ':')
		dst = appendValue(dst, m.value)
	}
	return append(dst, '}')
}

func appendString(dst []byte, s string) []byte {
	b, _ := contain.Encode("", s) // a string always encodes
	return append(dst, b...)
}

// same reports whether two values are equal in the sense of JSON schema. The second may be a value of
// a schema, with map[string]any for objects.
func same(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		return ok && (a == b || rational(a).Cmp(rational(b)) == 0)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, same)
	case object:
		switch b := b.(type) {
		case object:
			return slices.EqualFunc(a, b, func(a, b member) bool { return a.name == b.name && same(a.value, b.value) })
		case map[string]any:
			return len(a) == len(b) && !slices.ContainsFunc(a, func(m member) bool {
				other, ok := b[m.name]
				return !ok || !same(m.value, other)
			})
		}
		return false
	}
	switch b.(type) {
	case []any, object, map[string]any:
		return false
	}
	return a == b
}

// rational is a number without loss.
func rational(n json.Number) *big.Rat {
	r, ok := new(big.Rat).SetString(string(n))
	if !ok {
		return new(big.Rat) // Unreachable after normalizeNumber.
	}
	return r
}
