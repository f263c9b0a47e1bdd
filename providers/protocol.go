package providers

import (
	"context"
	"iter"
)

// Protocol speaks one wire format. Implementations are safe for concurrent use.
type Protocol interface {
	// Stream makes one model call per iteration of the sequence it returns, and
	// does nothing before. The package comment holds the rules for what it
	// yields; ending ctx aborts it.
	Stream(ctx context.Context, m Model, req Request, o Options) iter.Seq2[Event, error]
}

// Kinds of input a model takes, as Model.Input and Registration.Input list them.
const (
	InputText  = "text"
	InputImage = "image"
)

// Model is a resolved model: all a Protocol needs to know to call it. It shares
// no memory with the Registry.
type Model struct {
	// Provider is the id the provider is registered under; ID is the vendor's
	// own name of the model, which may contain slashes.
	Provider, ID string
	// API is the slug of the protocol, BaseURL the root it appends paths to. Names of
	// environment variables in braces, such as "{ACCOUNT_ID}", become their values with
	// each call; a protocol sees none.
	API, BaseURL string
	// Query is sent on every request, beside what the protocol puts into the query of an address: what stood
	// behind "?" in the base URL. Where both have a parameter, this one counts.
	Query string
	// Headers are sent on every request and win over the protocol's own. Keys
	// are in canonical form. It may be nil.
	Headers map[string]string
	// ContextWindow and MaxTokens are in tokens; 0 means unknown.
	ContextWindow, MaxTokens int
	// Room is how many tokens of output fit into the window beside the request, 0 if that is not known. HTTP
	// sets it for each call.
	Room int
	// Reasoning tells that the model takes a ThinkingLevel, and Thinking which.
	Reasoning bool
	Thinking  ThinkingMap
	// Compat says how its server differs from others of the API.
	Compat Compat
	// Input lists what the model takes, from InputText and InputImage.
	Input []string
	// InputLimits bound what of it fits into a request.
	InputLimits InputLimits
	// NoReplay leaves out what the model reasoned in earlier replies, and the signatures of
	// their parts: its vendor has refused them.
	NoReplay bool
	// StoreResponses asks for store=true; set only for the protocols that know it.
	StoreResponses bool
	// LongCacheRetention asks the vendor to keep prompts in its cache for longer than by
	// default, where its protocol and Compat know how.
	LongCacheRetention bool
	// Cost holds the catalog's rates, all zero if it has none.
	Cost Cost
	// Telemetry is how observability names the provider.
	Telemetry Telemetry
	// Edge is what a model of APIEdgeAIBinding is called with, nil for every other.
	Edge *Edge
}

// Spec returns the model specifier, "provider/id".
func (m Model) Spec() string { return m.Provider + "/" + m.ID }

// Options are the choices of one model call. The zero value works.
type Options struct {
	// APIKey is the credential. Registry.Stream fills it in if it is blank.
	APIKey string
	// Bearer sends APIKey as a bearer token also where the protocol has a header of its
	// own for keys.
	Bearer bool
	// ThinkingLevel is dropped for a model that does not reason.
	ThinkingLevel ThinkingLevel
	// MaxTokens limits the output, in tokens. 0 means the model's own limit;
	// more than that is lowered to it.
	MaxTokens int
	// Temperature is sent if it is not nil.
	Temperature *float64
	// Stop are texts at which the model ends its answer, which does not have them. A protocol
	// without them refuses the call.
	Stop []string
	// ToolChoice says whether the model has to call a tool; it counts only where there are
	// some. A model that cannot reason and be told so does not reason.
	ToolChoice ToolChoice
	// SessionID is a stable name of the conversation, which some vendors use to
	// find their prompt cache. Empty means none.
	SessionID string
	// Limits bound the reply.
	Limits Limits
	// Odd, unless it is nil, takes what of the reply its format does not have, each kind once.
	// It runs before the call ends, and must not block.
	Odd func(Oddity)
}

// ToolChoice is ToolAuto, ToolRequired, ToolNone, or the name of the tool that has to be
// called.
type ToolChoice string

// What is no name of a tool. ToolAuto leaves it to the model.
const (
	ToolAuto     ToolChoice = ""
	ToolRequired ToolChoice = "required"
	ToolNone     ToolChoice = "none"
)

// Tool is the name of the tool that has to be called, "" if there is none such.
func (c ToolChoice) Tool() string {
	if c == ToolRequired || c == ToolNone {
		return ""
	}
	return string(c)
}

// Forces reports whether a tool has to be called.
func (c ToolChoice) Forces() bool { return c != ToolAuto && c != ToolNone }
