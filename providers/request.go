package providers

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
)

// Request is one model call: everything the model is shown. Protocols neither
// change nor keep it.
type Request struct {
	// System is the system prompt; empty means none.
	System string
	// History is what comes before Messages, oldest first. A model is shown the same
	// as if all of it stood in Messages. Only a Codec gets it: Registry.Stream gives
	// every other Protocol one list.
	History []*Block
	// Messages is the conversation so far, or what is left of it after History, oldest
	// first. After History it begins with a user message.
	Messages []Message
	// Tools are what the model may call.
	Tools []Tool
}

// Tool is a function offered to the model.
type Tool struct {
	// Name is what the model calls it by, Description what it reads about it.
	Name, Description string
	// InputSchema is the JSON schema of the arguments, an object; nil means no
	// arguments.
	InputSchema json.RawMessage
}

// Role says whose message it is.
type Role string

// The roles. Advisories of the runtime are user messages by the time they
// arrive here: vendors disagree on system messages in mid-conversation.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is one message of the conversation.
type Message struct {
	Role Role
	// Parts: a user message holds Text and Image, an assistant message Text,
	// Reasoning and ToolCall in the order in which the model made them, a tool message
	// ToolResult.
	Parts []Part
	// Model is the specifier of the model that wrote an assistant message.
	// Reasoning and signatures are shown again only to the model that wrote them.
	Model string
}

// Part is one piece of a message: Text, Image, Reasoning, ToolCall or ToolResult.
type Part interface{ part() }

// Text is plain text.
type Text struct {
	Text string
	// Signature is the opaque value of TextEnd in a message of a model, needed to show
	// the text to its model again as it was. Text may be empty then.
	Signature string
}

// Image is a picture, or what was sent as one.
type Image struct {
	// MimeType is the media type, such as "image/png".
	MimeType string
	// Content is the picture, not encoded. Nil is a picture of no bytes.
	Content Content
	// Facts is what Content was found to be, nil if nobody has looked: then it is sent as
	// it is.
	Facts *ImageFacts
}

// ImageFacts are what the bytes of an image say, whatever it was sent as. The zero
// ImageFacts are of what is no picture of a known format. Package picture finds them.
type ImageFacts struct {
	// MimeType is "image/png", "image/jpeg", "image/gif" or "image/webp".
	MimeType string
	// Width and Height are in pixels.
	Width, Height int
}

// Content is bytes that are read while a request is sent, so that a call need not
// hold them. Implementations are safe for concurrent use.
type Content interface {
	// Size is the number of bytes. It never changes.
	Size() int64
	// Open returns a reader of the bytes, from the first one on. ctx holds until
	// the reader is closed, and ending it ends a Read that waits. Open is called
	// for each time the request is sent, so possibly not at all. A reader that
	// yields other than Size bytes fails the call, as does an error of either. An
	// error that matches ErrUnavailable may pass; any other is final.
	Open(ctx context.Context) (io.ReadCloser, error)
}

// Bytes is Content in memory.
type Bytes []byte

// Size implements Content.
func (b Bytes) Size() int64 { return int64(len(b)) }

// Open implements Content.
func (b Bytes) Open(context.Context) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(b)), nil
}

// Reasoning is what a model thought before it answered.
type Reasoning struct {
	Text string
	// Signature is the opaque value of ReasoningEnd, needed to show the
	// reasoning to its model again. Text may be empty then.
	Signature string
}

// ToolCall is a call the model made.
type ToolCall struct {
	// ID is the vendor's id of the call, as ToolCallStart had it.
	ID, Name string
	// Arguments is valid JSON, as ToolCallEnd had it.
	Arguments json.RawMessage
	// Signature is the opaque value of ToolCallEnd, for the model that made the call.
	Signature string
}

// ToolResult answers a ToolCall.
type ToolResult struct {
	// CallID is the ID of the ToolCall.
	CallID, Name string
	// Content holds Text and Image.
	Content []Part
	// IsError tells the model that the call did not succeed.
	IsError bool
}

func (Text) part()       {}
func (Image) part()      {}
func (Reasoning) part()  {}
func (ToolCall) part()   {}
func (ToolResult) part() {}
