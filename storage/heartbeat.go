package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/parleyrun/parley/conversation"
)

const (
	heartbeatRoot     = "heartbeat/"
	maxHeartbeatBytes = 32 << 10

	// MaxMissing bounds the members that a heartbeat names as not reached. With ids of up
	// to 24 bytes it stays below the 4 KiB that versions without [Reach] read.
	MaxMissing = 128
)

// Heartbeat says that a node lives. It is a hint, plainly overwritten: whoever
// reads it judges by whether it changes while it looks, against its own monotonic
// clock, and nothing that must not be lost may rest on it.
type Heartbeat struct {
	Member string            `json:"member"` // Incarnation of the node, equal to its key.
	Count  int64             `json:"count"`  // Differs from the one before; from 1.
	At     conversation.Time `json:"at"`     // For people; clocks of nodes differ.
	Active int64             `json:"active"` // Conversations in memory there; for people.
	Busy   int64             `json:"busy"`   // Conversations with unsettled work there; for people.
	// Reach is nil if the node does not say.
	Reach *Reach `json:"reach,omitempty"`
}

// Reach is which other members a node reaches: they answered it lately, so that messages
// come through both ways.
type Reach struct {
	Reached int      `json:"reached"`           // How many do.
	Missing []string `json:"missing,omitempty"` // Those that do not; at most MaxMissing of them.
}

type storedHeartbeat struct {
	storedVersion
	Heartbeat
}

func (h Heartbeat) valid() error {
	if h.Count < 1 {
		return fmt.Errorf("count %d is out of range", h.Count)
	}
	if h.Active < 0 || h.Busy < 0 {
		return fmt.Errorf("%d conversations active, %d busy: want 0 or more", h.Active, h.Busy)
	}
	if r := h.Reach; r != nil {
		if r.Reached < 0 || len(r.Missing) > MaxMissing {
			return fmt.Errorf("%d members reached, %d named that are not: want 0 or more, and at most %d", r.Reached, len(r.Missing), MaxMissing)
		}
		for _, id := range r.Missing {
			if err := validMember(id); err != nil {
				return err
			}
		}
	}
	return validMember(h.Member)
}

// EncodeHeartbeat returns the object of a heartbeat: one line of JSON,
// {v, member, count, at, active, busy, reach: {reached, missing}}.
func EncodeHeartbeat(h Heartbeat) ([]byte, error) {
	if err := h.valid(); err != nil {
		return nil, fmt.Errorf("encode heartbeat: %w", err)
	}
	data, err := json.Marshal(storedHeartbeat{storedVersion{SchemaVersion}, h})
	if err != nil {
		return nil, fmt.Errorf("encode heartbeat: %w", err)
	}
	return append(data, '\n'), nil
}

// DecodeHeartbeat reverses EncodeHeartbeat. It refuses one of a newer version with
// a [*FormatError], and of an older one. Fields it does not know are ignored.
func DecodeHeartbeat(data []byte) (Heartbeat, error) {
	var h storedHeartbeat
	if err := decodeStored(data, maxHeartbeatBytes, &h); err != nil {
		return Heartbeat{}, fmt.Errorf("decode heartbeat: %w", err)
	}
	if err := h.valid(); err != nil {
		return Heartbeat{}, fmt.Errorf("decode heartbeat: %w", err)
	}
	if h.Reach != nil && len(h.Reach.Missing) == 0 {
		h.Reach.Missing = nil
	}
	return h.Heartbeat, nil
}

// HeartbeatKey returns the object key of a node's heartbeat.
func HeartbeatKey(member string) string { return heartbeatRoot + member }

// PutHeartbeat sends a heartbeat, once: the next one repeats it.
func PutHeartbeat(ctx context.Context, b Bucket, h Heartbeat) error {
	data, err := EncodeHeartbeat(h)
	if err != nil {
		return &Error{Op: "put", Key: heartbeatRoot, Kind: ErrRefused, Err: err}
	}
	if err := b.Put(ctx, HeartbeatKey(h.Member), Bytes(data)); err != nil {
		return fmt.Errorf("put heartbeat: %w", err)
	}
	return nil
}

// ReadHeartbeat returns a node's heartbeat. ErrNotFound says there is none; a
// [*CorruptError] that the object is not that node's heartbeat, a [*FormatError]
// that it is one of a newer version. It is read once: the next look reads it again.
func ReadHeartbeat(ctx context.Context, b Bucket, member string) (Heartbeat, error) {
	key := HeartbeatKey(member)
	data, err := readRetried(ctx, newRetry(Retry{}), func(ctx context.Context) ([]byte, error) {
		return getBounded(ctx, b, key, maxHeartbeatBytes)
	})
	if err != nil {
		return Heartbeat{}, fmt.Errorf("read heartbeat: %w", err)
	}
	h, err := DecodeHeartbeat(data)
	var format *FormatError
	switch {
	case errors.As(err, &format):
		return Heartbeat{}, fmt.Errorf("read heartbeat of %s: %w", member, err)
	case err == nil && h.Member != member:
		err = fmt.Errorf("it says member %s", h.Member)
	}
	if err != nil {
		return Heartbeat{}, &CorruptError{Key: key, Err: err}
	}
	return h, nil
}

// Heartbeats lists the members that have a heartbeat, of whatever age. A key that is no
// heartbeat's is passed over.
func Heartbeats(ctx context.Context, b Bucket) ([]string, error) {
	var ids []string
	err := listAll(ctx, b, newRetry(Retry{}), ListQuery{Prefix: heartbeatRoot}, func(page []ListedKey) error {
		for _, k := range page {
			if id, _ := strings.CutPrefix(k.Key, heartbeatRoot); validMember(id) == nil {
				ids = append(ids, id)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list heartbeats: %w", err)
	}
	return ids, nil
}

// DeleteHeartbeat removes the heartbeat of a node that is gone, in one request. An
// absent one is a success.
func DeleteHeartbeat(ctx context.Context, b Bucket, member string) error {
	if err := validMember(member); err != nil {
		return &Error{Op: "delete", Key: heartbeatRoot, Kind: ErrRefused, Err: err}
	}
	if err := b.Delete(ctx, HeartbeatKey(member)); err != nil {
		return fmt.Errorf("delete heartbeat: %w", err)
	}
	return nil
}
