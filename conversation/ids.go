package conversation

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// Identifiers are opaque to clients: a prefix and a ULID ("sub_01J…").
type (
	// ConversationID names one incarnation of a conversation on the wire ("conv_…").
	ConversationID string
	// UID names the incarnation of a reusable conversation address ("inst_…").
	UID string
	// SubmissionID names one admitted delivery ("sub_…").
	SubmissionID string
	// MessageID names one message of the transcript ("msg_…").
	MessageID string
	// TurnID names one model round trip ("turn_…").
	TurnID string
	// CallID names one tool call, unique in the conversation ("call_…").
	CallID string
	// AttachmentID names one attachment ("att_…").
	AttachmentID string
	// PostID names one post to a target ("post_…"). Redeliveries have the same id.
	PostID string
)

// Address names a conversation for callers: its agent and the id that the caller chose. The pair is
// unique; ids of different agents are independent.
type Address struct {
	Agent string `json:"agent"`
	ID    string `json:"id"`
}

// Key is the storage and placement name of an address: the first 32 hexadecimal digits of
// SHA-256(agent, NUL, id). The agent of a run is "@".
type Key string

// Key returns the storage and placement name of the address.
func (a Address) Key() Key {
	h := sha256.New()
	h.Write([]byte(a.Reach().Agent))
	h.Write([]byte{0})
	h.Write([]byte(a.ID))
	return Key(hex.EncodeToString(h.Sum(nil)[:16]))
}

// Time is a moment in milliseconds since the Unix epoch. Its JSON form is RFC 3339 in UTC with
// milliseconds and "Z". It is informative: only key retention compares times.
type Time int64

const timeLayout = "2006-01-02T15:04:05.000Z"

// TimeOf converts a wall-clock time, truncated to milliseconds.
func TimeOf(t time.Time) Time { return Time(t.UnixMilli()) }

// String returns the RFC 3339 form.
func (t Time) String() string { return time.UnixMilli(int64(t)).UTC().Format(timeLayout) }

func (t Time) appendTo(dst []byte) []byte {
	return time.UnixMilli(int64(t)).UTC().AppendFormat(dst, timeLayout)
}

// MarshalText implements encoding.TextMarshaler.
func (t Time) MarshalText() ([]byte, error) { return t.appendTo(make([]byte, 0, len(timeLayout))), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It rejects times that String cannot represent:
// those outside the years 0 to 9999 of UTC.
func (t *Time) UnmarshalText(b []byte) error {
	v, err := time.Parse(time.RFC3339, string(b))
	if err != nil {
		return err
	}
	if y := v.UTC().Year(); y < 0 || y > 9999 {
		return fmt.Errorf("parse time %q: year %d in UTC is out of range", b, y)
	}
	*t = TimeOf(v)
	return nil
}
