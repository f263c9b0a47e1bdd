package providers

import "encoding/json"

// Event is one step of a response: TextDelta, TextEnd, ReasoningDelta, ReasoningEnd,
// ToolCallStart, ToolCallDelta, ToolCallEnd or Done.
type Event interface{ event() }

// TextDelta appends to the visible answer. Text is never empty.
type TextDelta struct{ Text string }

// TextEnd closes the text since the last event of another type. Without preceding text it carries a
// signature that the vendor expects back at this position. Unsigned text has no TextEnd.
type TextEnd struct {
	// Signature is opaque and never empty; it is returned in Text.Signature.
	Signature string
}

// ReasoningDelta appends to the reasoning. Text is never empty.
type ReasoningDelta struct{ Text string }

// ReasoningEnd closes the reasoning since the last ReasoningEnd. Without preceding deltas it carries a
// signature of hidden reasoning.
type ReasoningEnd struct {
	// Signature is opaque; it is returned in Reasoning.Signature.
	Signature string
}

// ToolCallStart opens a tool call.
type ToolCallStart struct {
	// Index identifies a call within the response: 0, 1, 2 in order of start. Vendor ids may be empty
	// or repeat.
	Index int
	// ID is the vendor's id of the call, possibly empty.
	ID, Name string
}

// ToolCallDelta appends to the arguments of a call. A fragment is not valid JSON; use it to display
// progress only.
type ToolCallDelta struct {
	Index     int
	Arguments string
}

// ToolCallEnd closes a tool call and contains the whole call.
type ToolCallEnd struct {
	Index    int
	ID, Name string
	// Arguments is valid JSON: "{}" if the model wrote nothing, otherwise the model's own bytes. The
	// receiver owns them.
	Arguments json.RawMessage
	// Malformed is set if the model's arguments are not JSON. Arguments is then that text as one JSON
	// string. The caller must answer the call with an error result and not run it.
	Malformed bool
	// Signature is opaque and may be empty; it is returned in ToolCall.Signature.
	Signature string
}

// Done ends a complete response.
type Done struct {
	// StopReason is never empty.
	StopReason StopReason
	Usage      Usage
	// ResponseID and ResponseModel are the vendor's ids of the response and of the responding model;
	// empty if it sent none.
	ResponseID, ResponseModel string
	// CacheWriteHour is the part of Usage.CacheWrite that the cache keeps for an hour.
	CacheWriteHour int64
	// PriceFactor is the price multiplier of the response's service tier; 0 means 1.
	PriceFactor float64
	// Billed is the amount billed by the vendor, in US dollars; nil if it is not reported.
	Billed *float64
}

func (TextDelta) event()      {}
func (TextEnd) event()        {}
func (ReasoningDelta) event() {}
func (ReasoningEnd) event()   {}
func (ToolCallStart) event()  {}
func (ToolCallDelta) event()  {}
func (ToolCallEnd) event()    {}
func (Done) event()           {}

// StopReason is the reason why a model stopped.
type StopReason string

// The stop reasons.
const (
	// StopStop: the answer is complete.
	StopStop StopReason = "stop"
	// StopLength: the output limit truncated the answer; the last call may be Malformed.
	StopLength StopReason = "length"
	// StopToolUse: the model expects the results of its calls.
	StopToolUse StopReason = "tool_use"
	// StopContentFilter: the vendor withheld the rest.
	StopContentFilter StopReason = "content_filter"
)

// Usage counts tokens.
type Usage struct {
	// Input excludes tokens read from or written to the prompt cache.
	Input int64
	// Output includes Reasoning.
	Output int64
	// CacheRead and CacheWrite are prompt tokens read from and written to the cache.
	CacheRead, CacheWrite int64
	// Reasoning is the thinking part of Output; 0 if the vendor does not report it.
	Reasoning int64
	// Total = Input + Output + CacheRead + CacheWrite; the Assembler sets it.
	Total int64
}
