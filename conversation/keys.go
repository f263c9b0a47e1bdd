package conversation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// keptLines are the keys of settled submissions that were cut out of a state, as JSON lines of a
// checkpoint, oldest first. There may be a thousand, and an admission needs at most one. So the lines
// are searched instead of decoded.
type keptLines struct {
	lines []byte
	count int
}

type keptKey struct {
	ID          SubmissionID `json:"id"`
	Key         string       `json:"key"`
	PayloadHash string       `json:"payloadHash"`
	Offset      Offset       `json:"offset"`
	Until       Time         `json:"until,omitempty"`
	AdmittedAt  Time         `json:"admittedAt"`
	Outcome     Outcome      `json:"outcome"`
}

func (k *keptKey) submission() *Submission {
	return &Submission{
		ID: k.ID, Key: k.Key, PayloadHash: k.PayloadHash, Offset: k.Offset, KeyUntil: k.Until, AdmittedAt: k.AdmittedAt,
		Settled: true, Outcome: k.Outcome,
	}
}

func (l *keptLines) add(sub *Submission) error {
	line, err := EncodeJSON(&keptKey{sub.ID, sub.Key, sub.PayloadHash, sub.Offset, sub.KeyUntil, sub.AdmittedAt, sub.Outcome})
	if err != nil {
		return fmt.Errorf("encode key of %s: %w", sub.ID, err)
	}
	l.lines = append(append(l.lines, line...), '\n')
	l.count++
	return nil
}

// find returns the newest submission of a key, nil if the key is not kept.
func (l *keptLines) find(key string) *Submission {
	if l.count == 0 {
		return nil
	}
	quoted, err := EncodeJSON(key)
	if err != nil {
		return nil // no admission has such a key
	}
	// A quote is escaped within a JSON string, so this sequence is unique.
	member := append(append([]byte(`","key":`), quoted...), `,"payloadHash":`...)
	at := bytes.LastIndex(l.lines, member)
	if at < 0 {
		return nil
	}
	return decodeKept(l.lines[bytes.LastIndexByte(l.lines[:at], '\n')+1:]).submission()
}

// oldest returns the oldest key; there must be one.
func (l *keptLines) oldest() *keptKey { return decodeKept(l.lines) }

// decodeKept decodes the first line.
func decodeKept(lines []byte) *keptKey {
	line, _, _ := bytes.Cut(lines, []byte{'\n'})
	var k keptKey
	if err := json.Unmarshal(line, &k); err != nil {
		panic(fmt.Sprintf("conversation: decode kept key: %v", err))
	}
	return &k
}

func (l *keptLines) expire() {
	_, l.lines, _ = bytes.Cut(l.lines, []byte{'\n'})
	l.count--
}

// restoreKept takes the next count lines of a checkpoint and returns the rest.
func restoreKept(lines []byte, count int) (l keptLines, rest []byte, err error) {
	rest = lines
	for range count {
		line, more, whole := bytes.Cut(rest, []byte{'\n'})
		if !whole || !bytes.HasPrefix(line, []byte(`{"id":"`)) || !bytes.HasSuffix(line, []byte(`"}`)) {
			return l, nil, errors.New("keys are corrupt")
		}
		rest = more
	}
	return keptLines{lines: bytes.Clone(lines[:len(lines)-len(rest)]), count: count}, rest, nil
}
