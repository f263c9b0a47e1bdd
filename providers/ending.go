package providers

import (
	"net/http"
)

// ending is the meaning of a vendor's stop reason.
type ending int

const (
	endUnknown ending = iota
	endNone           // the response continues
	endStop
	endLength
	endCalls
	endFilter
	endOverflow
	endFailed // the vendor failed; a retry may succeed
)

// endings maps the stop reasons of all formats, folded by foldCode. No word has two meanings in
// different formats.
var endings = foldedEndings(map[ending][]string{
	endNone:   {"", "null", "none", "finish_reason_unspecified", "unspecified", "in_progress", "queued"},
	endStop:   {"stop", "eos", "eos_token", "end", "end_turn", "stop_sequence", "stop_token", "pause_turn", "complete", "completed", "finished", "done"},
	endLength: {"length", "max_tokens", "max_output_tokens", "max_completion_tokens", "max_new_tokens", "max_length", "model_length", "token_limit", "continuation", "incomplete"},
	endCalls:  {"tool_calls", "tool_call", "tool_use", "function_call", "function_calls"},
	endFilter: {"content_filter", "content_filtered", "refusal", "sensitive", "safety", "recitation", "blocklist", "prohibited_content", "spii", "language",
		"model_armor", "image_safety", "image_prohibited_content", "image_recitation", "guardrail_intervened", "content_policy_violation", "blocked"},
	endOverflow: {"model_context_window_exceeded", "context_window_exceeded", "context_length_exceeded", "context_length"},
	endFailed: {"error", "network_error", "server_error", "abort", "aborted", "cancelled", "canceled", "failed", "timeout", "insufficient_system_resource", "engine_overloaded",
		"malformed_function_call", "malformed_response", "unexpected_tool_call", "too_many_tool_calls", "missing_thought_signature", "other", "image_other", "no_image",
		"malformed_model_output", "malformed_tool_use"},
})

func foldedEndings(words map[ending][]string) map[string]ending {
	out := map[string]ending{}
	for means, list := range words {
		for _, w := range list {
			out[foldCode(w)] = means
		}
	}
	return out
}

// End records the vendor's stop reason word, from the event raw, with the vendor's message if there is
// one. The latest one counts. It returns an error for a failure. An unknown word ends the response as
// StopStop and is reported as an oddity.
func (a *Assembler) End(word, message string, raw []byte) error {
	means := endings[foldCode(word)]
	if means == endNone || a.Stopped() {
		return nil
	}
	kind := KindOverloaded
	switch means {
	case endStop:
		a.stop = StopStop
		return nil
	case endLength:
		a.stop = StopLength
		return nil
	case endCalls:
		a.stop = StopToolUse
		return nil
	case endFilter:
		a.stop = StopContentFilter
		return nil
	case endOverflow:
		kind = KindContextOverflow
	case endUnknown:
		a.Odd("end", word)
		a.stop = StopStop
		return nil
	}
	e := EventError(kind, raw, &VendorError{Code: word, Message: message})
	if kind == KindOverloaded {
		e.Status = http.StatusInternalServerError
	}
	return e
}

// Ended returns the reason of the latest End, "" if there was none.
func (a *Assembler) Ended() StopReason { return a.stop }

// HasContent reports whether the response contains text or a call.
func (a *Assembler) HasContent() bool { return a.hasContent }
