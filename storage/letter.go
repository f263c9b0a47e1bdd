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
	letterRoot     = "letter/"
	maxLetterBytes = 16 << 10
	// maxLetterReason bounds the words of [Letter.Reason], in bytes.
	maxLetterReason = 1 << 10
)

// Letter is a dead letter: it refers to a post that was given up. The body is in the log, in the
// batch at Seq.
type Letter struct {
	Conv       conversation.Key          `json:"conv"`
	Address    conversation.Address      `json:"address"`
	Post       conversation.PostID       `json:"post"`
	Seq        int64                     `json:"seq"`
	Submission conversation.SubmissionID `json:"submission"`
	Target     string                    `json:"target"`
	// Attempts is how often it was tried, Reason why the last attempt failed, for people; of more
	// than 1 KiB the beginning is kept.
	Attempts int               `json:"attempts"`
	Reason   string            `json:"reason"`
	At       conversation.Time `json:"at"`
}

type storedLetter struct {
	storedVersion
	Letter
}

// LetterKey returns the object key of a dead letter. A post that is sent again and given up again has another one: who
// sends it again drops the letter that it has read, and none that has come since.
func LetterKey(l Letter) string {
	return letterRoot + string(l.Conv) + "." + string(l.Post) + "." + number(l.Seq)
}

func (l *Letter) valid() error {
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

// EncodeLetter returns the object: one line of JSON, {v, conv, address, post, seq, submission, target,
// attempts, reason, at}.
func EncodeLetter(l Letter) ([]byte, error) {
	if len(l.Reason) > maxLetterReason {
		l.Reason = strings.ToValidUTF8(l.Reason[:maxLetterReason], "")
	}
	err := l.valid()
	var data []byte
	if err == nil {
		data, err = json.Marshal(storedLetter{storedVersion{SchemaVersion}, l})
	}
	if err != nil {
		return nil, fmt.Errorf("encode dead letter: %w", err)
	}
	return append(data, '\n'), nil
}

// DecodeLetter reverses EncodeLetter. It refuses one of another version. Fields it does not know are
// ignored.
func DecodeLetter(data []byte) (Letter, error) {
	var l storedLetter
	err := decodeStored(data, maxLetterBytes, &l)
	if err == nil {
		err = l.valid()
	}
	if err != nil {
		return Letter{}, fmt.Errorf("decode dead letter: %w", err)
	}
	return l.Letter, nil
}

// PutLetter stores a dead letter, in place of the same one. After an error it is not known whether it is stored, and
// it can be repeated.
func PutLetter(ctx context.Context, b Bucket, l Letter) error {
	data, err := EncodeLetter(l)
	if err != nil {
		return &Error{Op: "put", Key: letterRoot, Kind: ErrRefused, Err: err}
	}
	if err := b.Put(ctx, LetterKey(l), Bytes(data)); err != nil {
		return fmt.Errorf("put dead letter: %w", err)
	}
	return nil
}

// EachLetter reads the dead letters of a bucket, by LIST, in the order of their keys, until each fails.
// One that cannot be read is given with the error, and with what its key says alone.
func EachLetter(ctx context.Context, b Bucket, each func(Letter, error) error) error {
	err := listAll(ctx, b, newRetry(Retry{}), ListQuery{Prefix: letterRoot}, func(page []ListedKey) error {
		for _, k := range page {
			named, ok := parseLetterKey(k.Key)
			if !ok {
				continue
			}
			l, err := readLetter(ctx, b, named)
			if errors.Is(err, ErrNotFound) {
				continue // It was sent again, or dropped, meanwhile.
			}
			if err != nil && !Damaged(err) {
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

// readLetter returns the letter that a key names.
func readLetter(ctx context.Context, b Bucket, named Letter) (Letter, error) {
	key := LetterKey(named)
	l, err := readStored(ctx, b, key, -1, maxLetterBytes, func(data []byte) (Letter, error) {
		l, err := DecodeLetter(data)
		if err == nil && LetterKey(l) != key {
			err = fmt.Errorf("it says post %s of conversation %s, batch %d", l.Post, l.Conv, l.Seq)
		}
		return l, err
	})
	if err != nil && !Damaged(err) {
		err = fmt.Errorf("read dead letter: %w", err)
	}
	return l, err
}

// DeleteLetter deletes a dead letter. It is nil if there was none.
func DeleteLetter(ctx context.Context, b Bucket, l Letter) error {
	key := LetterKey(l)
	if err := l.valid(); err != nil {
		return &Error{Op: "delete", Key: key, Kind: ErrRefused, Err: err}
	}
	if err := b.Delete(ctx, key); err != nil {
		return fmt.Errorf("delete dead letter: %w", err)
	}
	return nil
}

// parseLetterKey reads what LetterKey returns. It is not ok for anything else.
func parseLetterKey(key string) (l Letter, ok bool) {
	parts := strings.Split(strings.TrimPrefix(key, letterRoot), ".")
	if len(parts) != 3 {
		return l, false
	}
	seq, err := parseNumber(parts[2])
	l = Letter{Conv: conversation.Key(parts[0]), Post: conversation.PostID(parts[1]), Seq: seq}
	return l, err == nil && l.valid() == nil && LetterKey(l) == key
}
