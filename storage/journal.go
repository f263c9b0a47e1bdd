package storage

import (
	"context"
	"fmt"
	"strconv"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage/segment"
)

const journalRoot = "pending/"

// Journal is one pending-work journal: all conversations of one node that have unsettled work. Its
// writer and the sweeps decide on entries and deletion; this package stores it.
type Journal struct {
	Member  string         // Incarnation of the node: 1 to 128 letters, digits, '-' or '_'.
	N       int64          // Number of the journal; the highest of a member is the newest.
	Entries []JournalEntry // May be empty.
}

// JournalEntry lists one conversation under the writer that has work for it.
type JournalEntry struct {
	Conv  conversation.Key `json:"conv"`
	Nonce Nonce            `json:"nonce"`
	Seq   int64            `json:"seq"` // Position of the writer when it was listed, -1 before its batch 0.
	// Opening marks a conversation that was about to be opened: the nonce has written nothing, and the
	// entry implies no pending work.
	Opening bool `json:"opening,omitempty"`
}

func (e JournalEntry) valid() error {
	if err := validConv(e.Conv); err != nil {
		return err
	}
	if err := e.Nonce.Validate(); err != nil {
		return err
	}
	return validListed(e.Seq)
}

func (e JournalEntry) appendTo(dst []byte) []byte {
	dst = append(dst, `{"conv":"`...)
	dst = append(dst, e.Conv...)
	dst = append(dst, `","nonce":"`...)
	dst = append(dst, e.Nonce...)
	dst = append(dst, `","seq":`...)
	dst = strconv.AppendInt(dst, e.Seq, 10)
	if e.Opening {
		dst = append(dst, `,"opening":true`...)
	}
	return append(dst, '}')
}

// listing returns the stored form of the journal, the one shard of its member.
func (j Journal) listing() listing[JournalEntry] {
	return listing[JournalEntry]{Member: j.Member, Shards: 1, N: j.N, Entries: j.Entries}
}

// journalOf reverses listing.
func journalOf(l listing[JournalEntry], err error) (Journal, error) {
	if err == nil && l.Shard != 0 {
		return Journal{}, fmt.Errorf("decode journal: header says shard %d, want 0", l.Shard)
	}
	return Journal{Member: l.Member, N: l.N, Entries: l.Entries}, err
}

// EncodeJournal returns the object of a journal, one zstd frame with a checksum. Its content is JSON
// lines: a header {v, member, shard, shards, n, count} and one line {conv, nonce, seq, opening} per
// entry, in the given order. It is shard 0 of 1.
func EncodeJournal(j Journal) ([]byte, error) { return encodeListing(j.listing()) }

// DecodeJournal reverses [EncodeJournal]. It rejects another version, an entry count that differs from
// the header's, and content above DefaultMaxBytes. It ignores unknown fields.
func DecodeJournal(data []byte) (Journal, error) {
	return journalOf(decodeListing[JournalEntry](segment.NewFramer(DefaultMaxBytes, 1), data))
}

// JournalKey returns the object key of a journal.
func JournalKey(member string, n int64) string { return listingKey(journalRoot, member, 0, n) }

// JournalRef names the newest journal of one member, or of one shard of it.
type JournalRef struct {
	Member string
	Shard  int      // Shard of an export journal, 0 for others.
	N      int64    // Number of the newest.
	Keys   []string // Keys of all stored journals, N included, lowest first.
}

// Journals lists every journal in the bucket, ordered by key. It skips keys of other objects.
func Journals(ctx context.Context, b Bucket) ([]JournalRef, error) {
	return listings(ctx, b, journalRoot)
}

// ReadJournal returns one journal: ErrNotFound if it is deleted, a [*CorruptError] if the object is
// not that journal.
func ReadJournal(ctx context.Context, b Bucket, member string, n int64) (Journal, error) {
	return journalOf(readListing[JournalEntry](ctx, b, journalRoot, member, 0, n))
}

// Write stores a journal under its key. It retries with the same bytes until the outcome is known. If
// the key exists with the same content, that is a success, otherwise ErrExists. If ctx ends first it
// returns ErrUncertain: the caller may write the same journal again, or write the next one.
func (w *JournalWriter) Write(ctx context.Context, j Journal) error {
	return writeListing(ctx, w, journalRoot, j.listing())
}

// DeleteJournal deletes the given keys in order, with one attempt each. It tries all and returns the
// joined errors; a later sweep deletes the rest. If a key is not a journal key, it returns an error
// before it deletes anything.
func DeleteJournal(ctx context.Context, b Bucket, keys []string) error {
	if err := deleteListings(ctx, b, journalRoot, keys); err != nil {
		return fmt.Errorf("delete journal: %w", err)
	}
	return nil
}
