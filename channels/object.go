package channels

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// errNoText says that a body is not the JSON text that it should be.
var errNoText = errors.New("body is not JSON in UTF-8")

// bom begins some texts, and is no part of them.
const bom = "\xef\xbb\xbf"

// Text returns the JSON text of a body: strict UTF-8, one value of any kind, a byte order mark
// before it passed over.
func Text(body []byte) (json.RawMessage, error) {
	text := bytes.TrimPrefix(body, []byte(bom))
	if !utf8.Valid(text) || !json.Valid(text) {
		return nil, errNoText
	}
	return text, nil
}

// Object returns the members of a body that is a JSON object, of a repeated one the last.
func Object(body []byte) (map[string]json.RawMessage, error) {
	text, err := Text(body)
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil || members == nil {
		return nil, errors.New("body is not a JSON object")
	}
	return members, nil
}

// String returns a member that is a string and not empty.
func String(members map[string]json.RawMessage, name string) (string, bool) {
	var s *string
	if raw, ok := members[name]; !ok || json.Unmarshal(raw, &s) != nil || s == nil {
		return "", false
	}
	return *s, *s != ""
}

// Whole returns a member that is a non-negative integer of at most 2^53-1, written as one: neither -0 nor 5.0 nor 5e0,
// which are other literals, and of which -1e-400 would be rounded to an integer.
func Whole(members map[string]json.RawMessage, name string) (int64, bool) {
	literal := string(members[name])
	if strings.Trim(literal, "0123456789") != "" || !Safe(literal) {
		return 0, false
	}
	n, err := strconv.ParseInt(literal, 10, 64)
	return n, err == nil
}
