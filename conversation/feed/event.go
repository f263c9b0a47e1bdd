package feed

import (
	"bytes"
	"encoding/json"

	"github.com/parleyrun/parley/conversation"
)

// EventVersion is the field v of every event.
const EventVersion = 3

// ImageOmitted replaces the data of an image in events. Clients compare with it.
const ImageOmitted = "[image data omitted from event]"

// TypeSettled is the type of the event that ends a submission.
const TypeSettled = "submission_settled"

// envelope has the common members of all events. Members that do not apply are omitted.
type envelope struct {
	Type         string                      `json:"type"`
	Version      int                         `json:"v"`
	Index        int64                       `json:"eventIndex"`
	At           conversation.Time           `json:"timestamp"`
	Agent        string                      `json:"agentName,omitempty"`
	Instance     string                      `json:"instanceId,omitempty"`
	Run          conversation.RunID          `json:"runId,omitempty"`
	Conversation conversation.ConversationID `json:"conversationId,omitempty"`
	Submission   conversation.SubmissionID   `json:"submissionId,omitempty"`
	Dispatch     conversation.SubmissionID   `json:"dispatchId,omitempty"`
	Session      string                      `json:"session,omitempty"`
	Parent       string                      `json:"parentSession,omitempty"`
	Task         string                      `json:"taskId,omitempty"`
	Harness      string                      `json:"harness,omitempty"`
	Operation    string                      `json:"operationId,omitempty"`
	Turn         conversation.TurnID         `json:"turnId,omitempty"`
}

// encode appends one flat object: the envelope, then the payload, which may be nil.
func encode(env *envelope, payload any) ([]byte, error) {
	out, err := conversation.EncodeJSON(env)
	if err != nil || payload == nil {
		return out, err
	}
	end := len(out)
	if out, err = conversation.AppendJSON(out, payload); err != nil {
		return nil, err
	}
	if len(out) == end+len("{}") {
		return out[:end], nil
	}
	out[end-1] = ','
	return append(out[:end], out[end+1:]...), nil
}

// Payloads. Usage and cost are always complete, as clients expect.
type (
	purposed struct {
		Purpose string `json:"purpose"`
	}
	operationStart struct {
		Kind string `json:"operationKind"`
	}
	operation struct {
		Kind       string    `json:"operationKind"`
		DurationMs int64     `json:"durationMs"`
		IsError    bool      `json:"isError"`
		Error      *errorOf  `json:"error,omitempty"`
		Usage      *usage    `json:"usage,omitempty"`
		Result     *Response `json:"result,omitempty"`
	}
	agentEnd struct {
		Messages []message `json:"messages"`
	}
	messageOf struct {
		Message message `json:"message"`
	}
	text struct {
		Text string `json:"text"`
	}
	thinkingStart struct {
		Index int `json:"contentIndex"`
	}
	thinkingDelta struct {
		Index int    `json:"contentIndex"`
		Delta string `json:"delta"`
	}
	thinkingEnd struct {
		Index   int    `json:"contentIndex"`
		Content string `json:"content"`
	}
	toolStart struct {
		Name string              `json:"toolName"`
		Call conversation.CallID `json:"toolCallId"`
		Args json.RawMessage     `json:"args,omitempty"`
	}
	tool struct {
		Name       string              `json:"toolName"`
		Call       conversation.CallID `json:"toolCallId"`
		IsError    bool                `json:"isError"`
		Result     json.RawMessage     `json:"result,omitempty"`
		DurationMs int64               `json:"durationMs"`
	}
	turnMessages struct {
		Purpose string    `json:"purpose"`
		Message message   `json:"message"`
		Results []message `json:"toolResults"`
	}
	turnDone struct {
		Purpose    string        `json:"purpose"`
		DurationMs int64         `json:"durationMs"`
		Request    request       `json:"request"`
		Response   modelResponse `json:"response"`
		IsError    bool          `json:"isError"`
	}
	request struct {
		Provider string `json:"providerId"`
		Name     string `json:"providerName"`
		Model    string `json:"requestedModel"`
		API      string `json:"api"`
		Server   string `json:"serverAddress,omitempty"`
		Port     int    `json:"serverPort,omitempty"`
		Thinking string `json:"reasoningLevel,omitempty"`
	}
	modelResponse struct {
		ID     string   `json:"responseId,omitempty"`
		Model  string   `json:"responseModel,omitempty"`
		Output *message `json:"output,omitempty"`
		Usage  *usage   `json:"usage,omitempty"`
		Finish string   `json:"finishReason,omitempty"`
		Error  *errorOf `json:"error,omitempty"`
	}
	taskStart struct {
		Prompt string `json:"prompt"`
		Agent  string `json:"agent,omitempty"`
	}
	task struct {
		Agent      string `json:"agent,omitempty"`
		IsError    bool   `json:"isError"`
		Result     string `json:"result,omitempty"`
		DurationMs int64  `json:"durationMs"`
	}
	compactionStart struct {
		Reason string `json:"reason"`
		Tokens int64  `json:"estimatedTokens"`
	}
	compaction struct {
		Before     int    `json:"messagesBefore"`
		After      int    `json:"messagesAfter"`
		DurationMs int64  `json:"durationMs"`
		IsError    bool   `json:"isError"`
		Usage      *usage `json:"usage,omitempty"`
	}
	logged struct {
		Level      string            `json:"level"`
		Message    string            `json:"message"`
		Attributes map[string]string `json:"attributes,omitempty"`
	}
	data struct {
		Name string          `json:"name"`
		Data json.RawMessage `json:"data"`
	}
	settled struct {
		Outcome conversation.Outcome `json:"outcome"`
		Result  *Response            `json:"result,omitempty"`
		Error   *errorOf             `json:"error,omitempty"`
	}
)

// errorOf is the caller-safe error of a settlement, or a failure class.
type errorOf struct {
	Type    string         `json:"type"`
	Message string         `json:"message,omitempty"`
	Details string         `json:"details,omitempty"`
	Meta    map[string]any `json:"meta,omitempty"`
}

// Response is the result of a completed prompt: the assistant's last text, and the usage of all its
// model calls.
type Response struct {
	Text  string `json:"text"`
	Usage usage  `json:"usage"`
	Model Model  `json:"model"`
}

// Model names a model and its provider.
type Model struct {
	Provider string `json:"provider"`
	ID       string `json:"id"`
}

type usage struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cacheRead"`
	CacheWrite int64 `json:"cacheWrite"`
	Total      int64 `json:"totalTokens"`
	Cost       cost  `json:"cost"`
}

type cost struct {
	Input      float64 `json:"input"`
	Output     float64 `json:"output"`
	CacheRead  float64 `json:"cacheRead"`
	CacheWrite float64 `json:"cacheWrite"`
	Total      float64 `json:"total"`
}

func usageOf(u conversation.Usage, p *conversation.Price) *usage {
	out := &usage{Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, Total: u.Total}
	if p != nil {
		out.Cost = cost(*p)
	}
	return out
}

func (u *usage) add(v *usage) {
	u.Input += v.Input
	u.Output += v.Output
	u.CacheRead += v.CacheRead
	u.CacheWrite += v.CacheWrite
	u.Total += v.Total
	u.Cost.Input += v.Cost.Input
	u.Cost.Output += v.Cost.Output
	u.Cost.CacheRead += v.Cost.CacheRead
	u.Cost.CacheWrite += v.Cost.CacheWrite
	u.Cost.Total += v.Cost.Total
}

// message is a message of the model's view. Content is a text or a list of blocks.
type message struct {
	Role    string              `json:"role"`
	Call    conversation.CallID `json:"toolCallId,omitempty"`
	Tool    string              `json:"toolName,omitempty"`
	Content []block             `json:"content"`
	IsError *bool               `json:"isError,omitempty"`
}

// block is a part of a message. Type determines its members.
type block struct {
	Type      string              `json:"type"`
	Text      *textBuffer         `json:"text,omitempty"`
	Thinking  *textBuffer         `json:"thinking,omitempty"`
	Data      string              `json:"data,omitempty"`
	MimeType  string              `json:"mimeType,omitempty"`
	ID        conversation.CallID `json:"id,omitempty"`
	Name      string              `json:"name,omitempty"`
	Arguments json.RawMessage     `json:"arguments,omitempty"`
}

func textBlock(s string) block { return block{Type: "text", Text: new(textBuffer(s))} }

// newPart returns an empty block for streamed text.
func newPart(kind conversation.PartKind) block {
	if kind == conversation.PartReasoning {
		return block{Type: "thinking", Thinking: new(textBuffer)}
	}
	return textBlock("")
}

// textBuffer is a growing text.
type textBuffer []byte

// MarshalText implements encoding.TextMarshaler.
func (w textBuffer) MarshalText() ([]byte, error) { return w, nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (w *textBuffer) UnmarshalText(b []byte) error {
	*w = append(textBuffer{}, b...)
	return nil
}

func images(list []conversation.Attachment) (out []block) {
	for _, a := range list {
		out = append(out, block{Type: "image", Data: ImageOmitted, MimeType: a.MimeType})
	}
	return out
}

// toolText returns a tool's output as the model sees it: a string as text, other values as JSON.
func toolText(output json.RawMessage) string {
	var s string
	if len(bytes.TrimSpace(output)) == 0 {
		return ""
	}
	if json.Unmarshal(output, &s) == nil && output[0] == '"' {
		return s
	}
	return string(output)
}
