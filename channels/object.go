package channels

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

var errNoText = errors.New("body is not JSON in UTF-8")

// bom is the byte order mark, which is skipped.
const bom = "\xef\xbb\xbf"

// Text returns the JSON text of a body: one value in strict UTF-8, without a leading byte order mark.
func Text(body []byte) (json.RawMessage, error) {
	text := bytes.TrimPrefix(body, []byte(bom))
	if !utf8.Valid(text) || !json.Valid(text) {
		return nil, errNoText
	}
	return text, nil
}

// Object returns the members of a JSON object. The last of repeated members wins.
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

// String returns a member that is a non-empty string.
func String(members map[string]json.RawMessage, name string) (string, bool) {
	var s *string
	if raw, ok := members[name]; !ok || json.Unmarshal(raw, &s) != nil || s == nil {
		return "", false
	}
	return *s, *s != ""
}

// Whole returns a member that is an integer from 0 to 2^53-1. Other notations of integers, such as -0,
// 5.0 or 5e0, are rejected, because rounding would turn a fraction such as -1e-400 into an integer.
func Whole(members map[string]json.RawMessage, name string) (int64, bool) {
	literal := string(members[name])
	if strings.Trim(literal, "0123456789") != "" || !Safe(literal) {
		return 0, false
	}
	n, err := strconv.ParseInt(literal, 10, 64)
	return n, err == nil
}
