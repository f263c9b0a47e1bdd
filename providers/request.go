package providers

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
)

// Request is the input of one model call. Protocols neither change nor retain it.
type Request struct {
	// System is the system prompt; empty means none.
	System string
	// History precedes Messages, oldest first. The model receives the same as if all of it were in
	// Messages. Only a Codec receives it: Registry.Stream flattens it for other Protocols.
	History []*Block
	// Messages is the conversation after History, oldest first. After History it begins with a user
	// message.
	Messages []Message
	// Tools are the tools that the model may call.
	Tools []Tool
}

// Tool is a function offered to the model.
type Tool struct {
	// Name and Description are sent to the model.
	Name, Description string
	// InputSchema is the JSON schema of the arguments, an object; nil means no arguments.
	InputSchema json.RawMessage
}

// Role is the author of a message.
type Role string

// The roles. Advisories of the runtime are user messages here, because vendors differ on system
// messages inside a conversation.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is one message of the conversation.
type Message struct {
	Role Role
	// Parts are Text and Image in a user message, ToolResult in a tool message. An assistant message
	// has Text, Reasoning and ToolCall in the order in which the model emitted them.
	Parts []Part
	// Model is the specifier of the model that wrote an assistant message. Reasoning and signatures
	// are replayed only to that model.
	Model string
}

// Part is one piece of a message: Text, Image, Reasoning, ToolCall or ToolResult.
type Part interface{ part() }

// Text is plain text.
type Text struct {
	Text string
	// Signature is the opaque value of TextEnd, required to replay the text to its model. Text may
	// then be empty.
	Signature string
}

// Image is a picture, or data that was sent as one.
type Image struct {
	// MimeType is the media type, such as "image/png".
	MimeType string
	// Content is the picture, not encoded. Nil means no bytes.
	Content Content
	// Facts describes the content, nil if it was not inspected. An image without Facts is sent
	// unchanged.
	Facts *ImageFacts
}

// ImageFacts are the properties of an image according to its bytes. The zero ImageFacts mean an
// unknown format. Package picture computes them.
type ImageFacts struct {
	// MimeType is "image/png", "image/jpeg", "image/gif" or "image/webp".
	MimeType string
	// Width and Height are in pixels.
	Width, Height int
}

// Content is data that is read while a request is sent, so that calls do not hold it in memory.
// Implementations are safe for concurrent use.
type Content interface {
	// Size returns the number of bytes. It never changes.
	Size() int64
	// Open returns a reader from the first byte on. ctx is valid until the reader is closed; ending it
	// ends a blocked Read. Open is called each time the request is sent, possibly never. An error, or
	// a length other than Size, fails the call. An error that matches ErrUnavailable is temporary;
	// others are final.
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

// Reasoning is the thinking of a model before its answer.
type Reasoning struct {
	Text string
	// Signature is the opaque value of ReasoningEnd, required to replay the reasoning to its model.
	// Text may then be empty.
	Signature string
}

// ToolCall is a call made by a model.
type ToolCall struct {
	// ID is the vendor's id of the call, from ToolCallStart.
	ID, Name string
	// Arguments is valid JSON, from ToolCallEnd.
	Arguments json.RawMessage
	// Signature is the opaque value of ToolCallEnd, for the model that made the call.
	Signature string
}

// ToolResult is the result of a ToolCall.
type ToolResult struct {
	// CallID is the ID of the ToolCall.
	CallID, Name string
	// Content contains Text and Image parts.
	Content []Part
	// IsError marks a failed call.
	IsError bool
}

func (Text) part()       {}
func (Image) part()      {}
func (Reasoning) part()  {}
func (ToolCall) part()   {}
func (ToolResult) part() {}
