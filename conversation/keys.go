package conversation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// keptLines are the keys of settled submissions that were cut out of a state, as they
// stand in a checkpoint: a line of JSON each, the oldest first. There may be a thousand
// of them, and an admission needs at most one: so they are not decoded but searched.
type keptLines struct {
	lines []byte
	count int
}

// keptKey is one line.
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

// add keeps the key of a settled submission.
func (l *keptLines) add(sub *Submission) error {
	line, err := EncodeJSON(&keptKey{sub.ID, sub.Key, sub.PayloadHash, sub.Offset, sub.KeyUntil, sub.AdmittedAt, sub.Outcome})
	if err != nil {
		return fmt.Errorf("encode key of %s: %w", sub.ID, err)
	}
	l.lines = append(append(l.lines, line...), '\n')
	l.count++
	return nil
}

// find returns the newest submission of a key, nil if it is not kept.
func (l *keptLines) find(key string) *Submission {
	if l.count == 0 {
		return nil
	}
	quoted, err := EncodeJSON(key)
	if err != nil {
		return nil // no admission has such a key
	}
	// Within a JSON string a quote is escaped, so that this stands in no other place.
	member := append(append([]byte(`","key":`), quoted...), `,"payloadHash":`...)
	at := bytes.LastIndex(l.lines, member)
	if at < 0 {
		return nil
	}
	return decodeKept(l.lines[bytes.LastIndexByte(l.lines[:at], '\n')+1:]).submission()
}

// oldest returns the key that was kept first; there must be one.
func (l *keptLines) oldest() *keptKey { return decodeKept(l.lines) }

// decodeKept decodes the first of some lines.
func decodeKept(lines []byte) *keptKey {
	line, _, _ := bytes.Cut(lines, []byte{'\n'})
	var k keptKey
	if err := json.Unmarshal(line, &k); err != nil {
		panic(fmt.Sprintf("conversation: decode kept key: %v", err))
	}
	return &k
}

// forget drops the oldest key.
func (l *keptLines) forget() {
	_, l.lines, _ = bytes.Cut(l.lines, []byte{'\n'})
	l.count--
}

// restoreKept takes the next lines of a checkpoint over, and returns what follows them.
func restoreKept(lines []byte, count int) (l keptLines, rest []byte, err error) {
	rest = lines
	for range count {
		line, more, whole := bytes.Cut(rest, []byte{'\n'})
		if !whole || !bytes.HasPrefix(line, []byte(`{"id":"`)) || !bytes.HasSuffix(line, []byte(`"}`)) {
			return l, nil, errors.New("keys are damaged")
		}
		rest = more
	}
	return keptLines{lines: bytes.Clone(lines[:len(lines)-len(rest)]), count: count}, rest, nil
}
