package providers

import "encoding/json"

// Event is one step of a response: TextDelta, TextEnd, ReasoningDelta, ReasoningEnd,
// ToolCallStart, ToolCallDelta, ToolCallEnd or Done.
type Event interface{ event() }

// TextDelta appends to the visible answer. Text is never empty.
type TextDelta struct{ Text string }

// TextEnd closes the text since the last event of another type, and may come without any,
// if the vendor wants a signature back at this place. Text that needs none has no end.
type TextEnd struct {
	// Signature is opaque; it goes back in Text.Signature. It is never empty.
	Signature string
}

// ReasoningDelta appends to the reasoning. Text is never empty.
type ReasoningDelta struct{ Text string }

// ReasoningEnd closes the reasoning since the last ReasoningEnd. It may come without any delta, if
// the vendor shows nothing but wants its signature back.
type ReasoningEnd struct {
	// Signature is opaque; it goes back in Reasoning.Signature.
	Signature string
}

// ToolCallStart opens a tool call.
type ToolCallStart struct {
	// Index tells the calls of one response apart: 0, 1, 2 in order of their
	// start. Vendors' ids may be empty or repeat.
	Index int
	// ID is the vendor's id of the call, possibly empty.
	ID, Name string
}

// ToolCallDelta appends to the arguments of a call. The fragment is not JSON by
// itself, and is for showing progress only.
type ToolCallDelta struct {
	Index     int
	Arguments string
}

// ToolCallEnd closes a tool call and holds all of it.
type ToolCallEnd struct {
	Index    int
	ID, Name string
	// Arguments is valid JSON: "{}" if the model wrote nothing, otherwise its
	// own bytes. The receiver owns them.
	Arguments json.RawMessage
	// Malformed tells that what the model wrote is not JSON; Arguments is then
	// that text as one JSON string. The call must be answered with an error
	// result, not run.
	Malformed bool
	// Signature is opaque and may be empty; it goes back in ToolCall.Signature.
	Signature string
}

// Done ends a complete response.
type Done struct {
	// StopReason is never empty.
	StopReason StopReason
	Usage      Usage
	// ResponseID and ResponseModel are the vendor's names of the response and
	// of the model that gave it; empty if it sent none.
	ResponseID, ResponseModel string
	// CacheWriteHour is the part of Usage.CacheWrite that the cache keeps for an hour.
	CacheWriteHour int64
	// PriceFactor is what the service tier of the response multiplies prices by; 0 is 1.
	PriceFactor float64
	// Billed is what the vendor says it has billed, in US dollars; nil if it does not say.
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

// StopReason says why a model stopped.
type StopReason string

// The stop reasons.
const (
	// StopStop: the answer is complete.
	StopStop StopReason = "stop"
	// StopLength: the output limit cut the answer; the last call may be Malformed.
	StopLength StopReason = "length"
	// StopToolUse: the model waits for results of its calls.
	StopToolUse StopReason = "tool_use"
	// StopContentFilter: the vendor withheld the rest.
	StopContentFilter StopReason = "content_filter"
)

// Usage counts tokens.
type Usage struct {
	// Input excludes what was read from or written to the prompt cache.
	Input int64
	// Output includes Reasoning.
	Output int64
	// CacheRead and CacheWrite are the prompt tokens the cache supplied and took.
	CacheRead, CacheWrite int64
	// Reasoning is the part of Output that was thinking; 0 if the vendor does not tell.
	Reasoning int64
	// Total = Input + Output + CacheRead + CacheWrite; the Assembler sets it.
	Total int64
}
