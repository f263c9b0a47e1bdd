package conversation

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Kind is the variant of a delivery.
type Kind string

// The kinds of a delivery.
const (
	KindUser   Kind = "user"
	KindSignal Kind = "signal"
)

// Delivery is the content that a caller sends to a conversation: a chat message of a user or a signal
// of a system. Type, Attributes and TagName belong to signals, Attachments to users.
type Delivery struct {
	Kind        Kind              `json:"kind"`
	Body        string            `json:"body"`
	Attachments []Attachment      `json:"attachments,omitempty"`
	Type        string            `json:"signalType,omitempty"`
	Attributes  map[string]string `json:"attributes,omitempty"`
	TagName     string            `json:"tagName,omitempty"`
}

// Attachment is a reference to bytes staged under their digest. Size is in bytes.
type Attachment struct {
	ID       AttachmentID `json:"id,omitempty"`
	SHA256   string       `json:"sha256"`
	MimeType string       `json:"mimeType"`
	Size     int64        `json:"size"`
	Filename string       `json:"filename,omitempty"`
}

// Trace is the W3C trace context of the admitting request. Both fields are empty if there is none.
type Trace struct {
	Parent string `json:"traceparent,omitempty"`
	State  string `json:"tracestate,omitempty"`
}

// Condition restricts an admission to an incarnation. The zero value is unconditional.
type Condition struct {
	// Absent requires that no incarnation exists (uid: null).
	Absent bool `json:"absent,omitempty"`
	// Set requires that the incarnation UID exists. An empty UID never matches.
	Set bool `json:"set,omitempty"`
	UID UID  `json:"uid,omitempty"`
}

// Admission is a request that a conversation accepts one delivery. Its attachments are staged before.
type Admission struct {
	Address   Address   `json:"address"`
	Delivery  Delivery  `json:"delivery"`
	Condition Condition `json:"condition"`
	// InitialData is used only if this admission creates the conversation. nil means absent; JSON null
	// is present.
	InitialData json.RawMessage `json:"initialData,omitempty"`
	// Key is the idempotency key: the same key and payload replay the first admission. It is never
	// empty; an edge generates one if its caller sent none.
	Key   string `json:"key"`
	Trace Trace  `json:"trace,omitzero"`
	// KeepKey requests a longer retention of the key, at most [MaxKeepKey]. A conversation keeps about
	// five thousand such keys, the newest.
	KeepKey time.Duration `json:"keepKey,omitempty"`
	// Dispatched is set if code in the process sends the delivery, not a request.
	Dispatched bool `json:"dispatched,omitempty"`
	// DispatchDepth is the length of the chain of agent dispatches that led to the delivery. It is 0
	// for a delivery from outside, and at least the number of nested unsettled senders.
	DispatchDepth int `json:"dispatchDepth,omitempty"`
	// Sender is the submission whose work dispatches the delivery; nil for one from outside.
	Sender *Sender `json:"sender,omitempty"`
	// ReplyTo is the recipient of the reply once the submission is settled; nil for none.
	ReplyTo *ReplyTo `json:"replyTo,omitempty"`
	// Notify is the target that is notified of the settlement; empty for none.
	Notify string `json:"notify,omitempty"`
	// Channel is the webhook channel that verified the delivery; empty for none. Only package channels
	// sets it.
	Channel string `json:"channel,omitempty"`
	// ReplyAddress is the address of the channel's reply; empty for the one given by the
	// conversation's id. It requires a Channel.
	ReplyAddress string `json:"replyAddress,omitempty"`
	// Tree is the dispatch tree of the delivery; nil for none. Only the runtime sets it.
	Tree *TreeRef `json:"tree,omitempty"`
}

// Sender is the submission whose work dispatches a message. Address is its [Address.Reach].
type Sender struct {
	Address    Address      `json:"address"`
	Submission SubmissionID `json:"submission"`
}

// OfProgram reports whether code in the process sends the delivery: a channel, a tool, or a hook. All
// others come from callers, which may name only targets open to them.
func (a *Admission) OfProgram() bool { return a.Dispatched || a.DispatchDepth > 0 }

// PayloadHash identifies the payload, to distinguish a retry from a reused key with another payload.
// It covers the delivery (attachments by digest, type and name) and the initial data, independent of
// JSON key order. It does not cover address, condition and trace.
func (a *Admission) PayloadHash() (string, error) {
	d := a.Delivery
	d.Attachments = make([]Attachment, len(a.Delivery.Attachments))
	for i, at := range a.Delivery.Attachments {
		at.ID = ""
		d.Attachments[i] = at
	}
	var data any
	if a.InitialData != nil {
		dec := json.NewDecoder(bytes.NewReader(a.InitialData))
		dec.UseNumber()
		if err := dec.Decode(&data); err != nil {
			return "", fmt.Errorf("decode initial data: %w", err)
		}
	}
	sum := sha256.New()
	err := json.NewEncoder(unended{sum}).Encode(struct {
		Delivery Delivery `json:"delivery"`
		Has      bool     `json:"has"`
		Data     any      `json:"data"`
	}{d, a.InitialData != nil, data})
	if err != nil {
		return "", fmt.Errorf("encode payload: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16]), nil
}

// unended writes through to its writer without the final newline of an encoder's single write.
type unended struct{ io.Writer }

// Write implements io.Writer.
func (w unended) Write(p []byte) (int, error) {
	if _, err := w.Writer.Write(bytes.TrimSuffix(p, []byte("\n"))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Receipt is the result of an admission. Offset is the offset of the admitting batch: a read of
// updates from it returns everything after the message, without the message.
type Receipt struct {
	SubmissionID SubmissionID `json:"submissionId"`
	UID          UID          `json:"uid"`
	Offset       Offset       `json:"offset"`
	// Deduplicated is set if the key was known and nothing new was admitted.
	Deduplicated bool `json:"deduplicated,omitempty"`
}

// Blob is content to stage. Content is read from its start and has Size bytes. Digest is their SHA-256
// in lower-case hexadecimal.
type Blob struct {
	Content io.ReadSeeker
	Size    int64
	Digest  string
}

// ValidTagName reports whether a name is valid for a signal's element. It is rendered unescaped, so it
// must match ^[A-Za-z_][A-Za-z0-9_.-]*$.
func ValidTagName(s string) bool {
	for i, c := range []byte(s) {
		switch {
		case c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z', c == '_':
		case i > 0 && (c >= '0' && c <= '9' || c == '.' || c == '-'):
		default:
			return false
		}
	}
	return s != ""
}
