package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parleyrun/parley/conversation"
)

const (
	quarantineRoot = "quarantine/"
	// maxQuarantineBytes bounds the quarantine object, and maxFirstBatch the bytes of a log that are
	// read to find its address.
	maxQuarantineBytes, maxFirstBatch = 64 << 10, 1 << 20
	// maxWhy bounds [Quarantine.Why], in bytes.
	maxWhy = 4 << 10
	// backMember is the prefix of pseudo-members whose journals list conversations that were put back.
	// Names of nodes have no '-'.
	backMember = "back-"
)

// Quarantine keeps a conversation from being opened until it is put back.
type Quarantine struct {
	Conv conversation.Key `json:"conv"`
	// Agent and ID are the conversation's address, "" if unknown.
	Agent string            `json:"agent,omitempty"`
	ID    string            `json:"id,omitempty"`
	At    conversation.Time `json:"at"`
	// Why is the reason, for people; it is truncated to 4 KiB.
	Why string `json:"why"`
	// Failures is the number of failed opens, 0 if an operator quarantined the conversation.
	Failures int `json:"failures"`
	// Tries is the number of opens since the quarantine; Tried is the start of the last one.
	Tries int               `json:"tries,omitempty"`
	Tried conversation.Time `json:"tried,omitempty"`
}

const (
	// firstTry is the delay before the first try, lastTry the longest delay between two tries.
	firstTry, lastTry = 10 * time.Minute, 24 * time.Hour
)

// TryAfter returns the delay before a node may try to open the conversation, counted from the last try
// or from the quarantine. It is 10 minutes at first and doubles with each try, up to a day. After the
// start of a node, perhaps of a new version, it is at most 10 minutes. ok is false if an operator
// quarantined the conversation.
func (a Quarantine) TryAfter(starts bool) (wait time.Duration, ok bool) {
	wait = firstTry
	if !starts {
		wait = min(firstTry<<min(a.Tries, 16), lastTry)
	}
	return wait, a.Failures > 0
}

// RecordTry stores that an open of a quarantined conversation is about to be tried. It replaces the
// object. If the outcome is unknown, a late write may restore the object after [PutBack], as if the
// conversation were quarantined again.
func RecordTry(ctx context.Context, b Bucket, a Quarantine) error {
	data, err := EncodeQuarantine(a)
	if err == nil {
		err = b.Put(ctx, QuarantineKey(a.Conv), Bytes(data))
	}
	if err != nil {
		return fmt.Errorf("record try of quarantined conversation %s: %w", a.Conv, err)
	}
	return nil
}

type storedQuarantine struct {
	storedVersion
	Quarantine
}

// QuarantineKey returns the object key of a quarantine.
func QuarantineKey(conv conversation.Key) string { return quarantineRoot + string(conv) }

// EncodeQuarantine returns the object: one line of JSON, {v, conv, agent, id, at, why, failures,
// tries, tried}.
func EncodeQuarantine(a Quarantine) ([]byte, error) {
	if err := validConv(a.Conv); err != nil {
		return nil, fmt.Errorf("encode quarantine: %w", err)
	}
	if len(a.Why) > maxWhy {
		a.Why = strings.ToValidUTF8(a.Why[:maxWhy], "")
	}
	data, err := json.Marshal(storedQuarantine{storedVersion{SchemaVersion}, a})
	if err != nil {
		return nil, fmt.Errorf("encode quarantine: %w", err)
	}
	return append(data, '\n'), nil
}

// DecodeQuarantine reverses [EncodeQuarantine]. It rejects another version and ignores unknown fields.
func DecodeQuarantine(data []byte) (Quarantine, error) {
	var a storedQuarantine
	err := decodeStored(data, maxQuarantineBytes, &a)
	if err == nil {
		err = validConv(a.Conv)
	}
	if err != nil {
		return Quarantine{}, fmt.Errorf("decode quarantine: %w", err)
	}
	return a.Quarantine, nil
}

// PutQuarantine quarantines a conversation until [PutBack]. did is false, without an error, if it is
// quarantined already. If a has no address, PutQuarantine reads it from the first batch if that is
// small.
func PutQuarantine(ctx context.Context, b Bucket, a Quarantine) (did bool, err error) {
	if a.Agent == "" {
		a.Agent, a.ID = addressOf(ctx, b, a.Conv)
	}
	data, err := EncodeQuarantine(a)
	if err != nil {
		return false, &Error{Op: "create", Key: quarantineRoot, Kind: ErrRefused, Err: err}
	}
	err = createResolved(ctx, b, newRetry(Retry{}), QuarantineKey(a.Conv), func() Body { return Bytes(data) })
	switch {
	case errors.Is(err, ErrExists):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("quarantine conversation %s: %w", a.Conv, err)
	}
	return true, nil
}

// addressOf returns the address in the first batch of a log, if that batch is small. It folds nothing,
// so it is safe for any log.
func addressOf(ctx context.Context, b Bucket, conv conversation.Key) (agent, id string) {
	if validConv(conv) != nil {
		return "", ""
	}
	data, err := readRetried(ctx, newRetry(Retry{}), func(ctx context.Context) ([]byte, error) {
		return getBounded(ctx, b, LogKey(conv, 0), maxFirstBatch)
	})
	if err != nil {
		return "", ""
	}
	first, err := DecodeBatch(data, maxFirstBatch)
	if err != nil {
		return "", ""
	}
	line, _, _ := strings.Cut(string(first.Lines), "\n")
	var created struct {
		Type  string `json:"type"`
		Agent string `json:"agent"`
		ID    string `json:"id"`
	}
	if json.Unmarshal([]byte(line), &created) != nil || created.Type != string(conversation.TypeConversationCreated) {
		return "", ""
	}
	return created.Agent, created.ID
}

// ReadQuarantine returns the quarantine of a conversation: ErrNotFound if there is none, a
// [*CorruptError] if the object is unreadable.
func ReadQuarantine(ctx context.Context, b Bucket, conv conversation.Key) (Quarantine, error) {
	if err := validConv(conv); err != nil {
		return Quarantine{}, err
	}
	a, err := readStored(ctx, b, QuarantineKey(conv), -1, maxQuarantineBytes, func(data []byte) (Quarantine, error) {
		a, err := DecodeQuarantine(data)
		if err == nil && a.Conv != conv {
			err = fmt.Errorf("object names conversation %s", a.Conv)
		}
		return a, err
	})
	if err != nil && !IsCorrupt(err) {
		err = fmt.Errorf("read quarantine of %s: %w", conv, err)
	}
	return a, err
}

// ListQuarantine lists the quarantined conversations, ordered by key. It skips keys of other objects.
func ListQuarantine(ctx context.Context, b Bucket) ([]conversation.Key, error) {
	var out []conversation.Key
	err := listAll(ctx, b, newRetry(Retry{}), ListQuery{Prefix: quarantineRoot}, func(page []ListedKey) error {
		for _, k := range page {
			if conv := conversation.Key(strings.TrimPrefix(k.Key, quarantineRoot)); validConv(conv) == nil {
				out = append(out, conv)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list quarantine: %w", err)
	}
	return out, nil
}

// WasPutBack reports whether [PutBack] wrote a journal. The work in such a journal is pending as long
// as the journal exists, even while the conversation is quarantined.
func (r JournalRef) WasPutBack() bool { return strings.HasPrefix(r.Member, backMember) }

// PutBack ends a quarantine. The next sweep of the journals resumes the pending work of the
// conversation. It returns ErrNotFound if the conversation is not quarantined.
//
// It claims the log first, which fences earlier writers. It then lists the claim in a journal of a
// pseudo-member, and deletes the quarantine last. That journal repeats the openings that other
// journals report, so that past crashes no longer count. If PutBack is interrupted, the conversation
// stays quarantined and the caller may retry. If the end of the log cannot be read, PutBack returns
// the error; the log must be repaired first.
func PutBack(ctx context.Context, b Bucket, conv conversation.Key) error {
	return putBack(ctx, b, conv, func(JournalEntry) error { return nil })
}

// Release calls [PutBack] only if open succeeds, in which the conversation's owner takes over the
// claim. Otherwise the conversation stays quarantined, and its pending work stays listed.
func Release(ctx context.Context, b Bucket, conv conversation.Key, open func(claim JournalEntry) error) error {
	return putBack(ctx, b, conv, open)
}

func putBack(ctx context.Context, b Bucket, conv conversation.Key, open func(claim JournalEntry) error) error {
	if _, err := ReadQuarantine(ctx, b, conv); err != nil && !IsCorrupt(err) {
		return err
	}
	at, err := claimFor(ctx, b, conv)
	if err != nil {
		return fmt.Errorf("put conversation %s back: %w", conv, err)
	}
	past, err := openingsOf(ctx, b, conv)
	if err != nil {
		return fmt.Errorf("put conversation %s back: %w", conv, err)
	}
	list := func() error {
		if err := NewJournalWriter(b).Write(ctx, Journal{Member: string(at.Nonce), Entries: append(past, at)}); err != nil {
			return err
		}
		return open(at)
	}
	remove := func() error { return b.Delete(ctx, QuarantineKey(conv)) }
	for _, step := range putBackSteps(list, remove) {
		if err := step(); err != nil {
			return fmt.Errorf("put conversation %s back: %w", conv, err)
		}
	}
	return nil
}

// ExpireSuspects records that the crashes reported by journals are past. It repeats the given opening
// entries in a journal of a pseudo-member named after by; they do not count while that journal exists.
func ExpireSuspects(ctx context.Context, b Bucket, by string, past []JournalEntry) error {
	if err := NewJournalWriter(b).Write(ctx, Journal{Member: backMember + by, Entries: past}); err != nil {
		return fmt.Errorf("expire suspects: %w", err)
	}
	return nil
}

// openingsOf returns the opening entries of a conversation in all journals.
func openingsOf(ctx context.Context, b Bucket, conv conversation.Key) (out []JournalEntry, err error) {
	refs, err := Journals(ctx, b)
	if err != nil {
		return nil, err
	}
	for _, ref := range refs {
		j, err := ReadJournal(ctx, b, ref.Member, ref.N)
		if err != nil && !errors.Is(err, ErrNotFound) && !IsCorrupt(err) {
			return nil, err
		}
		for _, e := range j.Entries {
			if e.Conv == conv && e.Opening && !slices.Contains(out, e) {
				out = append(out, e)
			}
		}
	}
	return out, nil
}

// claimFor appends a batch without records to a log, as a writer of its own, and returns it as a
// journal entry.
func claimFor(ctx context.Context, b Bucket, conv conversation.Key) (JournalEntry, error) {
	logs := NewLogs(b, nil)
	tail, err := logs.Tail(ctx, conv, -1)
	if err != nil {
		return JournalEntry{}, err
	}
	at, epoch := Start(), int64(1)
	if tail >= 0 {
		last, err := logs.Range(ctx, conv, tail, tail)
		if err != nil {
			return JournalEntry{}, err
		}
		at, epoch = last[0].Position(), last[0].Epoch+1
	}
	// No two claims follow the same batch, so the nonce is unique.
	nonce := Nonce(fmt.Sprintf("%s%.24s-%.24s", backMember, conv, at.Hash))
	if _, err := logs.Writer(conv, nonce, at, epoch).Append(ctx, nil, 0); err != nil {
		return JournalEntry{}, err
	}
	return JournalEntry{Conv: conv, Nonce: nonce, Seq: tail + 1}, nil
}
