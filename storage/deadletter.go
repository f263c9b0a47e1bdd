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
	deadLetterRoot     = "deadletter/"
	maxDeadLetterBytes = 16 << 10
	// maxDeadLetterReason bounds [DeadLetter.Reason], in bytes.
	maxDeadLetterReason = 1 << 10
)

// DeadLetter refers to a post whose delivery failed permanently. Its body is in the log, in the batch
// at Seq.
type DeadLetter struct {
	Conv       conversation.Key          `json:"conv"`
	Address    conversation.Address      `json:"address"`
	Post       conversation.PostID       `json:"post"`
	Seq        int64                     `json:"seq"`
	Submission conversation.SubmissionID `json:"submission"`
	Target     string                    `json:"target"`
	// Attempts is the number of deliveries tried. Reason is the last error, for people; it is
	// truncated to 1 KiB.
	Attempts int               `json:"attempts"`
	Reason   string            `json:"reason"`
	At       conversation.Time `json:"at"`
}

type storedDeadLetter struct {
	storedVersion
	DeadLetter
}

// DeadLetterKey returns the object key of a dead letter. A post that fails again after a resend gets
// another key, so the sender deletes only the dead letter that it has read.
func DeadLetterKey(l DeadLetter) string {
	return deadLetterRoot + string(l.Conv) + "." + string(l.Post) + "." + number(l.Seq)
}

func (l *DeadLetter) valid() error {
	if err := validConv(l.Conv); err != nil {
		return err
	}
	if err := validMember(string(l.Post)); err != nil {
		return fmt.Errorf("post: %w", err)
	}
	if l.Seq < 0 || l.Seq > maxSeq {
		return fmt.Errorf("sequence number %d is out of range", l.Seq)
	}
	return nil
}

// EncodeDeadLetter returns the object: one line of JSON, {v, conv, address, post, seq, submission,
// target, attempts, reason, at}.
func EncodeDeadLetter(l DeadLetter) ([]byte, error) {
	if len(l.Reason) > maxDeadLetterReason {
		l.Reason = strings.ToValidUTF8(l.Reason[:maxDeadLetterReason], "")
	}
	err := l.valid()
	var data []byte
	if err == nil {
		data, err = json.Marshal(storedDeadLetter{storedVersion{SchemaVersion}, l})
	}
	if err != nil {
		return nil, fmt.Errorf("encode dead letter: %w", err)
	}
	return append(data, '\n'), nil
}

// DecodeDeadLetter reverses [EncodeDeadLetter]. It rejects another version and ignores unknown fields.
func DecodeDeadLetter(data []byte) (DeadLetter, error) {
	var l storedDeadLetter
	err := decodeStored(data, maxDeadLetterBytes, &l)
	if err == nil {
		err = l.valid()
	}
	if err != nil {
		return DeadLetter{}, fmt.Errorf("decode dead letter: %w", err)
	}
	return l.DeadLetter, nil
}

// PutDeadLetter stores a dead letter and replaces an equal one. After an error the outcome is unknown,
// and the caller may retry.
func PutDeadLetter(ctx context.Context, b Bucket, l DeadLetter) error {
	data, err := EncodeDeadLetter(l)
	if err != nil {
		return &Error{Op: "put", Key: deadLetterRoot, Kind: ErrRefused, Err: err}
	}
	if err := b.Put(ctx, DeadLetterKey(l), Bytes(data)); err != nil {
		return fmt.Errorf("put dead letter: %w", err)
	}
	return nil
}

// EachDeadLetter lists the dead letters of a bucket and calls each with them in the order of their
// keys, until each returns an error. An unreadable one is passed with its error and holds only the
// fields of its key.
func EachDeadLetter(ctx context.Context, b Bucket, each func(DeadLetter, error) error) error {
	err := listAll(ctx, b, newRetry(Retry{}), ListQuery{Prefix: deadLetterRoot}, func(page []ListedKey) error {
		for _, k := range page {
			named, ok := parseDeadLetterKey(k.Key)
			if !ok {
				continue
			}
			l, err := readDeadLetter(ctx, b, named)
			if errors.Is(err, ErrNotFound) {
				continue // It was resent or dropped since the LIST.
			}
			if err != nil && !IsCorrupt(err) {
				return err
			}
			if err != nil {
				l = named
			}
			if err := each(l, err); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read dead letters: %w", err)
	}
	return nil
}

// readDeadLetter reads the dead letter that a key names.
func readDeadLetter(ctx context.Context, b Bucket, named DeadLetter) (DeadLetter, error) {
	key := DeadLetterKey(named)
	l, err := readStored(ctx, b, key, -1, maxDeadLetterBytes, func(data []byte) (DeadLetter, error) {
		l, err := DecodeDeadLetter(data)
		if err == nil && DeadLetterKey(l) != key {
			err = fmt.Errorf("object names post %s of conversation %s, batch %d", l.Post, l.Conv, l.Seq)
		}
		return l, err
	})
	if err != nil && !IsCorrupt(err) {
		err = fmt.Errorf("read dead letter: %w", err)
	}
	return l, err
}

// DeleteDeadLetter deletes a dead letter. An absent one is a success.
func DeleteDeadLetter(ctx context.Context, b Bucket, l DeadLetter) error {
	key := DeadLetterKey(l)
	if err := l.valid(); err != nil {
		return &Error{Op: "delete", Key: key, Kind: ErrRefused, Err: err}
	}
	if err := b.Delete(ctx, key); err != nil {
		return fmt.Errorf("delete dead letter: %w", err)
	}
	return nil
}

// parseDeadLetterKey reverses DeadLetterKey. ok is false for any other key.
func parseDeadLetterKey(key string) (l DeadLetter, ok bool) {
	parts := strings.Split(strings.TrimPrefix(key, deadLetterRoot), ".")
	if len(parts) != 3 {
		return l, false
	}
	seq, err := parseNumber(parts[2])
	l = DeadLetter{Conv: conversation.Key(parts[0]), Post: conversation.PostID(parts[1]), Seq: seq}
	return l, err == nil && l.valid() == nil && DeadLetterKey(l) == key
}
