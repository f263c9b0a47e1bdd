package conversation

import "strings"

// maxTraceState is the maximum length of a kept tracestate, in characters.
const maxTraceState = 512

// TraceOf returns the W3C trace context of a request from its traceparent and tracestate headers.
// Invalid values are omitted: a trace never fails a message.
func TraceOf(parents, states []string) Trace {
	if len(parents) != 1 {
		return Trace{}
	}
	t := Trace{Parent: traceparent(parents[0])}
	if t.Parent == "" {
		return t
	}
	if state := strings.Join(states, ","); validTracestate(state) {
		t.State = state
	}
	return t
}

// traceparent returns s as version 00, "" if it is invalid. Version 00 is 00-<32 hex>-<16 hex>-<2
// hex>, lower case, neither id zero. Later versions have the same prefix, and only their sampled flag
// is known. Version ff is invalid.
func traceparent(s string) string {
	const size = 55
	if len(s) < size || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return ""
	}
	version, trace, span, flags := s[:2], s[3:35], s[36:52], s[53:size]
	if !lowerHex(version+trace+span+flags) || strings.Trim(trace, "0") == "" || strings.Trim(span, "0") == "" {
		return ""
	}
	switch {
	case version == "ff", len(s) > size && (version == "00" || s[size] != '-'):
		return ""
	case version == "00":
		return s
	}
	sampled := "00"
	if strings.ContainsAny(flags[1:], "13579bdf") {
		sampled = "01"
	}
	return "00-" + trace + "-" + span + "-" + sampled
}

func lowerHex(s string) bool {
	return strings.Trim(s, "0123456789abcdef") == ""
}

func validTracestate(s string) bool {
	if s == "" || len(s) > maxTraceState {
		return false
	}
	for member := range strings.SplitSeq(s, ",") {
		name, value, ok := strings.Cut(strings.Trim(member, " \t"), "=")
		if !ok || name == "" || value == "" || strings.ContainsFunc(member, notPrintable) {
			return false
		}
	}
	return true
}

func notPrintable(c rune) bool { return (c < ' ' && c != '\t') || c > '~' }
