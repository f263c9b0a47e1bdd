package commerce

import "encoding/json"

// Member returns the value at a path of names in a payload, or nil.
func Member(payload any, path ...string) any {
	for _, name := range path {
		object, _ := payload.(map[string]any)
		payload = object[name]
	}
	return payload
}

// Text returns an id as text, for numbers and strings.
func Text(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	}
	return "", false
}
