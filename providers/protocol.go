package providers

import (
	"context"
	"iter"
)

// Protocol implements one wire format. Implementations are safe for concurrent use.
type Protocol interface {
	// Stream makes one model call per iteration of the sequence it returns, and nothing before. The
	// package comment specifies the events. Ending ctx aborts the call.
	Stream(ctx context.Context, m Model, req Request, o Options) iter.Seq2[Event, error]
}

// Input types of a model, for Model.Input and Registration.Input.
const (
	InputText  = "text"
	InputImage = "image"
)

// Model is a resolved model with everything a Protocol needs to call it. It shares no memory with the
// Registry.
type Model struct {
	// Provider is the id under which the provider is registered. ID is the vendor's name of the model,
	// which may contain slashes.
	Provider, ID string
	// API is the slug of the protocol. BaseURL is the root to which it appends paths. Environment
	// variables in braces, such as "{ACCOUNT_ID}", are expanded for each call before a protocol sees
	// the URL.
	API, BaseURL string
	// Query is the query of the base URL. It is added to every request and overrides parameters of the
	// protocol.
	Query string
	// Headers are sent on every request and override those of the protocol. Keys are in canonical
	// form. It may be nil.
	Headers map[string]string
	// ContextWindow and MaxTokens are in tokens; 0 means unknown.
	ContextWindow, MaxTokens int
	// Room is the number of output tokens that fit into the window after the request, 0 if unknown.
	// HTTP sets it for each call.
	Room int
	// Reasoning is set if the model accepts a ThinkingLevel; Thinking defines the levels.
	Reasoning bool
	Thinking  ThinkingMap
	// Compat describes deviations of the server from others of the API.
	Compat Compat
	// Input lists the accepted inputs: InputText and InputImage.
	Input []string
	// InputLimits bounds the input of a request.
	InputLimits InputLimits
	// NoReplay omits earlier reasoning and all signatures, because the vendor has rejected them.
	NoReplay bool
	// StoreResponses requests store=true; set only for the protocols that support it.
	StoreResponses bool
	// LongCacheRetention requests a longer retention of cached prompts, if the protocol and Compat
	// support it.
	LongCacheRetention bool
	// Cost contains the catalog's rates, all zero if it has none.
	Cost Cost
	// Telemetry identifies the provider in observability events.
	Telemetry Telemetry
	// Edge is the binding of a model of APIEdgeAIBinding, nil for other APIs.
	Edge *Edge
}

// Spec returns the model specifier, "provider/id".
func (m Model) Spec() string { return m.Provider + "/" + m.ID }

// Options are the options of one model call. The zero value is valid.
type Options struct {
	// APIKey is the credential. Registry.Stream sets it if it is blank.
	APIKey string
	// Bearer sends APIKey as a bearer token even if the protocol has its own key header.
	Bearer bool
	// ThinkingLevel is ignored for a model without reasoning.
	ThinkingLevel ThinkingLevel
	// MaxTokens limits the output, in tokens. 0 means the model's own limit, which also caps larger
	// values.
	MaxTokens int
	// Temperature is sent unless it is nil.
	Temperature *float64
	// Stop are texts at which the model ends its answer; the answer does not include them. A protocol
	// without stop texts rejects the call.
	Stop []string
	// ToolChoice controls whether the model must call a tool; it is ignored without tools. Reasoning
	// is off for a model that does not support both.
	ToolChoice ToolChoice
	// SessionID is a stable name of the conversation that some vendors use to find their prompt cache.
	// Empty means none.
	SessionID string
	// Limits bounds the reply.
	Limits Limits
	// Odd receives the oddities of the reply, each kind once. It runs before the call ends and must
	// not block. It may be nil.
	Odd func(Oddity)
}

// ToolChoice is ToolAuto, ToolRequired, ToolNone, or the name of the tool that must be called.
type ToolChoice string

// The values that are not names of tools. ToolAuto lets the model decide.
const (
	ToolAuto     ToolChoice = ""
	ToolRequired ToolChoice = "required"
	ToolNone     ToolChoice = "none"
)

// Tool returns the name of the tool that must be called, "" if there is none.
func (c ToolChoice) Tool() string {
	if c == ToolRequired || c == ToolNone {
		return ""
	}
	return string(c)
}

// Forces reports whether the model must call a tool.
func (c ToolChoice) Forces() bool { return c != ToolAuto && c != ToolNone }
