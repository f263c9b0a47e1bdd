package channels

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Template is a text with placeholders for members of a payload, such as "{user.name}: {text}". A
// placeholder is a path of names and list indexes. Literal braces are doubled.
type Template struct {
	pieces []piece
}

// piece is a text or, with a path, a placeholder.
type piece struct {
	text string
	path []string
}

// capabilities lists member names whose values grant access. Such values must not be stored or read by
// a model.
func capabilities() []string {
	return []string{
		"access_token", "callback_query", "client_secret", "guest_message", "guest_query_id", "inline_query", "pre_checkout_query", "response_url",
		"response_urls", "secret", "shipping_query", "signature", "token", "trigger_id", "verification_token", "webhook_secret",
	}
}

// ParseTemplate parses a template. It rejects paths that name a capability, such as response_url,
// token or guest_query_id, in any case and with or without underscores.
func ParseTemplate(text string) (Template, error) {
	var t Template
	var plain strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c != '{' && c != '}':
			plain.WriteByte(c)
		case i+1 < len(text) && text[i+1] == c:
			plain.WriteByte(c)
			i++
		case c == '}':
			return t, errors.New("has an unmatched }; write }} for a literal brace")
		default:
			end := strings.IndexAny(text[i+1:], "{}")
			if end < 0 || text[i+1+end] == '{' {
				return t, errors.New("has an unclosed {; write {{ for a literal brace")
			}
			path := strings.Split(text[i+1:i+1+end], ".")
			if err := checkPath(path); err != nil {
				return t, err
			}
			t.pieces = append(t.pieces, piece{text: plain.String()}, piece{path: path})
			plain.Reset()
			i += 1 + end
		}
	}
	t.pieces = append(t.pieces, piece{text: plain.String()})
	return t, nil
}

func checkPath(path []string) error {
	shown := strings.Join(path, ".")
	for _, name := range path {
		if strings.TrimSpace(name) == "" {
			return fmt.Errorf("has the placeholder {%.60s} with an empty name", shown)
		}
		plain := strings.ReplaceAll(strings.ToLower(name), "_", "")
		if slices.ContainsFunc(capabilities(), func(c string) bool { return strings.ReplaceAll(c, "_", "") == plain }) {
			return fmt.Errorf("has the placeholder {%.60s}: %s is a capability, which must not be stored or read by a model", shown, name)
		}
	}
	return nil
}

// Zero reports whether the template is empty.
func (t Template) Zero() bool { return len(t.pieces) == 0 }

// Render fills in a payload of [ParseLossless]. A missing or composite value renders as an empty text;
// whole reports whether there was none.
func (t Template) Render(payload any) (text string, whole bool) {
	var b strings.Builder
	whole = true
	for _, p := range t.pieces {
		b.WriteString(p.text)
		if p.path == nil {
			continue
		}
		value, ok := find(payload, p.path)
		whole = whole && ok
		b.WriteString(value)
	}
	return b.String(), whole
}

// find returns the scalar at a path, as text.
func find(v any, path []string) (string, bool) {
	for _, name := range path {
		switch inner := v.(type) {
		case map[string]any:
			v = inner[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(inner) {
				return "", false
			}
			v = inner[i]
		default:
			return "", false
		}
	}
	switch v := v.(type) {
	case string:
		return v, v != ""
	case json.Number:
		return v.String(), true
	case bool:
		return fmt.Sprint(v), true
	}
	return "", false
}
