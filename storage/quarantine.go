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
	// maxQuarantineBytes bounds the object that sets a conversation aside, maxFirstBatch what is
	// read of a log to learn whose it is.
	maxQuarantineBytes, maxFirstBatch = 64 << 10, 1 << 20
	// maxWhy bounds the words of [Quarantine.Why], in bytes.
	maxWhy = 4 << 10
	// backMember begins the name of every member that is none: what one lists was put back.
	// Names of nodes have no '-'.
	backMember = "back-"
)

// Aside says that nobody opens a conversation until somebody puts it back.
type Quarantine struct {
	Conv conversation.Key `json:"conv"`
	// Agent and ID are the conversation's address, "" where it was not known.
	Agent string            `json:"agent,omitempty"`
	ID    string            `json:"id,omitempty"`
	At    conversation.Time `json:"at"`
	// Why is for people; of more than 4 KiB the beginning is kept.
	Why string `json:"why"`
	// Failures is how often it could not be opened, 0 if an operator quarantined it.
	Failures int `json:"failures"`
	// Tries is how often a node has tried to open it since, Tried when the last try began.
	Tries int               `json:"tries,omitempty"`
	Tried conversation.Time `json:"tried,omitempty"`
}

const (
	// firstTry is how long a quarantined conversation is not tried, lastTry the longest time between two tries.
	firstTry, lastTry = 10 * time.Minute, 24 * time.Hour
)

// TryAfter is how long after the last try, or the first quarantine, a node may try to open the
// conversation: 10 minutes, after each try twice as long as before, up to a day. A node that
// starts, perhaps with another program, waits 10 minutes at most. Ok is false if an operator quarantined it.
func (a Quarantine) TryAfter(starts bool) (wait time.Duration, ok bool) {
	wait = firstTry
	if !starts {
		wait = min(firstTry<<min(a.Tries, 16), lastTry)
	}
	return wait, a.Failures > 0
}

// RecordTry stores that a quarantined conversation is about to be tried. It replaces the object: an
// outcome that is not known may restore it later, as if the conversation were quarantined anew.
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

// QuarantineKey returns the object key of what sets a conversation aside.
func QuarantineKey(conv conversation.Key) string { return quarantineRoot + string(conv) }

// EncodeQuarantine returns the object: one line of JSON, {v, conv, agent, id, at, why, failures, tries, tried}.
func EncodeQuarantine(a Quarantine) ([]byte, error) {
	if err := validConv(a.Conv); err != nil {
		return nil, fmt.Errorf("encode what sets a conversation aside: %w", err)
	}
	if len(a.Why) > maxWhy {
		a.Why = strings.ToValidUTF8(a.Why[:maxWhy], "")
	}
	data, err := json.Marshal(storedQuarantine{storedVersion{SchemaVersion}, a})
	if err != nil {
		return nil, fmt.Errorf("encode what sets a conversation aside: %w", err)
	}
	return append(data, '\n'), nil
}

// DecodeQuarantine reverses EncodeQuarantine. It refuses an object of another version. Fields it does
// not know are ignored.
func DecodeQuarantine(data []byte) (Quarantine, error) {
	var a storedQuarantine
	err := decodeStored(data, maxQuarantineBytes, &a)
	if err == nil {
		err = validConv(a.Conv)
	}
	if err != nil {
		return Quarantine{}, fmt.Errorf("decode what sets a conversation aside: %w", err)
	}
	return a.Quarantine, nil
}

// PutQuarantine sets a conversation aside, until [PutBack]. It is nil, and did is false, if that
// was so. Where a has no address it is read from the first batch, if that is short.
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
		return false, fmt.Errorf("set conversation %s aside: %w", a.Conv, err)
	}
	return true, nil
}

// addressOf returns what the first batch of a log says, if it says it in few bytes. It folds
// nothing, so that it may be asked of any log.
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

// ReadQuarantine returns what sets a conversation aside. ErrNotFound says that nothing does; a
// [*CorruptError] that nobody can tell why.
func ReadQuarantine(ctx context.Context, b Bucket, conv conversation.Key) (Quarantine, error) {
	if err := validConv(conv); err != nil {
		return Quarantine{}, err
	}
	a, err := readStored(ctx, b, QuarantineKey(conv), -1, maxQuarantineBytes, func(data []byte) (Quarantine, error) {
		a, err := DecodeQuarantine(data)
		if err == nil && a.Conv != conv {
			err = fmt.Errorf("it says conversation %s", a.Conv)
		}
		return a, err
	})
	if err != nil && !IsCorrupt(err) {
		err = fmt.Errorf("read why conversation %s is quarantined: %w", conv, err)
	}
	return a, err
}

// ListQuarantine finds every conversation that is quarantined by LIST, ordered by key. A key that
// is no conversation's is passed over.
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
		return nil, fmt.Errorf("list what is quarantined: %w", err)
	}
	return out, nil
}

// WasPutBack reports whether a journal was written by [PutBack]. What it lists is owed as
// long as the journal stands, also while the conversation is quarantined.
func (r JournalRef) WasPutBack() bool { return strings.HasPrefix(r.Member, backMember) }

// PutBack ends what [PutQuarantine] began: whoever sweeps the journals next takes up what the
// conversation owes. ErrNotFound says that it is not quarantined.
//
// It claims the log first, so that no writer of before can add to it unseen, then lists the
// claim in a journal of a member that does not live, and deletes the object last. That
// journal repeats what others say of nodes that died over it: so much is past. Where it
// is interrupted the conversation is still quarantined, and it can be repeated. A log whose
// end cannot be read is refused, with the error: it has to be mended first.
func PutBack(ctx context.Context, b Bucket, conv conversation.Key) error {
	return putBack(ctx, b, conv, func(JournalEntry) error { return nil })
}

// Release is [PutBack] if open succeeds, which has the owner of the conversation answer for the
// claim. Otherwise it stays quarantined, and its pending work stays listed.
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
	forget := func() error { return b.Delete(ctx, QuarantineKey(conv)) }
	for _, step := range putBackSteps(list, forget) {
		if err := step(); err != nil {
			return fmt.Errorf("put conversation %s back: %w", conv, err)
		}
	}
	return nil
}

// ExpireSuspects stores that crashes which journals report are past: the entries of openings are
// repeated by a journal of a member that does not live, named by, and count no more while it stands.
func ExpireSuspects(ctx context.Context, b Bucket, by string, past []JournalEntry) error {
	if err := NewJournalWriter(b).Write(ctx, Journal{Member: backMember + by, Entries: past}); err != nil {
		return fmt.Errorf("forgive crashes: %w", err)
	}
	return nil
}

// openingsOf returns what journals say of openings of a conversation.
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

// claimFor writes a batch without records to a log, as a writer that is used once, and
// returns it as an entry of a journal.
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
	// No two claims follow the same batch, so the name is used once.
	nonce := Nonce(fmt.Sprintf("%s%.24s-%.24s", backMember, conv, at.Hash))
	if _, err := logs.Writer(conv, nonce, at, epoch).Append(ctx, nil, 0); err != nil {
		return JournalEntry{}, err
	}
	return JournalEntry{Conv: conv, Nonce: nonce, Seq: tail + 1}, nil
}
