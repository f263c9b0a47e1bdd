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

	// MaxMissing bounds the unreachable members that a heartbeat lists. With ids of up to 24 bytes the
	// object stays below the 4 KiB that versions without [Reach] read.
	MaxMissing = 128
)

// Heartbeat is the liveness signal of a node, an object that is overwritten. Readers compare changes
// of it against their own monotonic clock. It is a hint: no data that must survive may depend on it.
type Heartbeat struct {
	Member string            `json:"member"` // Incarnation of the node, equal to its key.
	Count  int64             `json:"count"`  // Changes with every heartbeat; from 1.
	At     conversation.Time `json:"at"`     // Informative; clocks of nodes differ.
	Active int64             `json:"active"` // Conversations in memory; informative.
	Busy   int64             `json:"busy"`   // Conversations with unsettled work; informative.
	// Reach is nil if the node does not report it.
	Reach *Reach `json:"reach,omitempty"`
}

// Reach reports which other members a node reaches: those that answered it recently, so that messages
// pass in both directions.
type Reach struct {
	Reached int      `json:"reached"`           // Number of members reached.
	Missing []string `json:"missing,omitempty"` // Members not reached, at most MaxMissing of them.
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
			return fmt.Errorf("%d members reached, %d missing: want 0 or more, and at most %d", r.Reached, len(r.Missing), MaxMissing)
		}
		for _, id := range r.Missing {
			if err := validMember(id); err != nil {
				return err
			}
		}
	}
	return validMember(h.Member)
}

// EncodeHeartbeat returns the object of a heartbeat: one line of JSON, {v, member, count, at, active,
// busy, reach: {reached, missing}}.
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

// DecodeHeartbeat reverses [EncodeHeartbeat]. It rejects a newer version with a [*FormatError], and an
// older one. It ignores unknown fields.
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

// PutHeartbeat sends a heartbeat without retries, because the next one follows soon.
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

// ReadHeartbeat returns a node's heartbeat: ErrNotFound if there is none, a [*CorruptError] if the
// object is not that node's heartbeat, a [*FormatError] if a newer version wrote it. It does not
// retry; the next poll reads again.
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
		err = fmt.Errorf("object names member %s", h.Member)
	}
	if err != nil {
		return Heartbeat{}, &CorruptError{Key: key, Err: err}
	}
	return h, nil
}

// Heartbeats lists the members that have a heartbeat, of any age. It skips keys of other objects.
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

// DeleteHeartbeat removes the heartbeat of a node that has left, in one request. An absent heartbeat
// is a success.
func DeleteHeartbeat(ctx context.Context, b Bucket, member string) error {
	if err := validMember(member); err != nil {
		return &Error{Op: "delete", Key: heartbeatRoot, Kind: ErrRefused, Err: err}
	}
	if err := b.Delete(ctx, HeartbeatKey(member)); err != nil {
		return fmt.Errorf("delete heartbeat: %w", err)
	}
	return nil
}
