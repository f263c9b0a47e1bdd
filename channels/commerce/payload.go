package commerce

import "encoding/json"

// Member returns what stands at a path of names in a payload, nil if nothing does.
func Member(payload any, path ...string) any {
	for _, name := range path {
		object, _ := payload.(map[string]any)
		payload = object[name]
	}
	return payload
}

// Text is an identifier as text, whether it came as a number of either kind or as a string.
func Text(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	}
	return "", false
}
