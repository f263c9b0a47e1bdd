package http

import (
	"net/http"
	"strings"

	"github.com/parleyrun/parley/conversation"
)

// maxTraceState is the longest tracestate that is kept, in characters.
const maxTraceState = 512

// traceOf takes the W3C trace context of a request. What is not valid is left
// out: a trace never refuses a message.
func traceOf(h http.Header) conversation.Trace {
	parents := h.Values("Traceparent")
	if len(parents) != 1 || !validTraceparent(parents[0]) {
		return conversation.Trace{}
	}
	t := conversation.Trace{Parent: parents[0]}
	if state := strings.Join(h.Values("Tracestate"), ","); validTracestate(state) {
		t.State = state
	}
	return t
}

// validTraceparent accepts version 00 alone: 00-<32 hex>-<16 hex>-<2 hex>, lower
// case, neither id zero.
func validTraceparent(s string) bool {
	if len(s) != 55 || s[:3] != "00-" || s[35] != '-' || s[52] != '-' {
		return false
	}
	trace, span, flags := s[3:35], s[36:52], s[53:]
	return lowerHex(trace) && lowerHex(span) && lowerHex(flags) &&
		strings.Trim(trace, "0") != "" && strings.Trim(span, "0") != ""
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
