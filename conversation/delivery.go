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

// Kind tells the two variants of a delivery apart.
type Kind string

// The two kinds of a delivery.
const (
	KindUser   Kind = "user"
	KindSignal Kind = "signal"
)

// Delivery is what a caller sends to a conversation: a chat message of a user or
// a signal of a system. Type, Attributes and TagName belong to signals,
// Attachments to users.
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

// Trace is the W3C trace context of the admitting request; both empty if none.
type Trace struct {
	Parent string `json:"traceparent,omitempty"`
	State  string `json:"tracestate,omitempty"`
}

// Condition restricts an admission to an incarnation. The zero value delivers
// unconditionally.
type Condition struct {
	// Absent demands that no incarnation exists (uid: null).
	Absent bool `json:"absent,omitempty"`
	// Set demands that the incarnation UID exists; UID may be empty, which never matches.
	Set bool `json:"set,omitempty"`
	UID UID  `json:"uid,omitempty"`
}

// Admission asks a conversation to accept one delivery. Attachments are staged
// before it is made.
type Admission struct {
	Address   Address   `json:"address"`
	Delivery  Delivery  `json:"delivery"`
	Condition Condition `json:"condition"`
	// InitialData is consulted only when this admission creates the conversation;
	// nil means absent, JSON null is present.
	InitialData json.RawMessage `json:"initialData,omitempty"`
	// Key makes a retry safe: the same key and payload replay the first admission.
	// It is never empty; an edge mints one when its caller sent none.
	Key   string `json:"key"`
	Trace Trace  `json:"trace,omitzero"`
	// KeepKey asks to know the key for so long, at most [MaxKeepKey], where the retention of all
	// keys ends sooner: about five thousand such keys of a conversation, the newest.
	KeepKey time.Duration `json:"keepKey,omitempty"`
	// Dispatched says that code in the process sends it, and not a request.
	Dispatched bool `json:"dispatched,omitempty"`
	// DispatchDepth is the length of the chain of dispatches by agents that led to it: 0 for what comes
	// from outside, and at least the number of its senders that were unsettled, one above the other.
	DispatchDepth int `json:"dispatchDepth,omitempty"`
	// Sender is the submission whose work dispatches it; nil for what comes from outside.
	Sender *Sender `json:"sender,omitempty"`
	// ReplyTo is who is told when the submission is settled; nil for nobody.
	ReplyTo *ReplyTo `json:"replyTo,omitempty"`
	// Notify is the target that is told when the submission is settled; empty for none.
	Notify string `json:"notify,omitempty"`
	// Channel is the channel of webhooks that verified the delivery, empty for none. Package channels alone sets it.
	Channel string `json:"channel,omitempty"`
	// ReplyAddress is where the channel replies to it; empty for the place that the id of the conversation names. It
	// counts only with a Channel.
	ReplyAddress string `json:"replyAddress,omitempty"`
	// Tree is the tree of dispatches that it belongs to, nil for none. The runtime alone sets it.
	Tree *TreeRef `json:"tree,omitempty"`
}

// Sender is the submission whose work dispatches a message. Address is its [Address.Reach].
type Sender struct {
	Address    Address      `json:"address"`
	Submission SubmissionID `json:"submission"`
}

// OfProgram reports whether code in the process sends it: a channel, a tool, a hook. Anything else comes from a caller,
// and a caller may name only the targets that are open to it.
func (a *Admission) OfProgram() bool { return a.Dispatched || a.DispatchDepth > 0 }

// PayloadHash identifies what the admission delivers, so that a reused key with
// another payload is told from a retry: delivery (attachments by digest, type and
// name) and initial data, independent of JSON key order. Address, condition and
// trace are not part of it.
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

// unended passes on what an encoder writes, in one piece, without the newline at its end.
type unended struct{ io.Writer }

// Write implements io.Writer.
func (w unended) Write(p []byte) (int, error) {
	if _, err := w.Writer.Write(bytes.TrimSuffix(p, []byte("\n"))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Receipt answers an admission. Offset is the offset of the admitting batch: an
// updates read from it sees everything after the message, without the message.
type Receipt struct {
	SubmissionID SubmissionID `json:"submissionId"`
	UID          UID          `json:"uid"`
	Offset       Offset       `json:"offset"`
	// Deduplicated is set when the key was known and nothing new was admitted.
	Deduplicated bool `json:"deduplicated,omitempty"`
}

// Blob is content to stage: Content is read from its start, Size bytes, whose
// SHA-256 is Digest in lower-case hexadecimal.
type Blob struct {
	Content io.ReadSeeker
	Size    int64
	Digest  string
}

// ValidTagName reports whether a signal's element may have this name: it is
// rendered unescaped, so it must match ^[A-Za-z_][A-Za-z0-9_.-]*$.
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
