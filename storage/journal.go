package storage

import (
	"context"
	"fmt"
	"strconv"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage/segment"
)

const journalRoot = "pending/"

// Journal is one pending-work journal: the full set of conversations of one node that have
// unsettled work. Who stands in it, and when it may go, is decided
// by its writer and by the sweeps; this package stores it.
type Journal struct {
	Member  string         // Incarnation of the node: 1 to 128 letters, digits, '-' or '_'.
	N       int64          // Number of the journal; of one member the highest is the newest.
	Entries []JournalEntry // May be empty.
}

// JournalEntry lists one conversation under the writer that has work for it.
type JournalEntry struct {
	Conv  conversation.Key `json:"conv"`
	Nonce Nonce            `json:"nonce"`
	Seq   int64            `json:"seq"` // Where the writer was when it was listed, -1 before its batch 0.
	// Opening says that the conversation was about to be opened, and no more: the nonce has
	// written nothing, and nothing is owed on account of the entry.
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

// listing is the journal as it is stored: as the one shard of its member.
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

// EncodeJournal returns the object of a journal: one zstd frame with a checksum;
// its content is JSON lines, a header {v, member, shard, shards, n, count} and one
// line {conv, nonce, seq, opening} per entry, in the order given. It is shard 0 of 1.
func EncodeJournal(j Journal) ([]byte, error) { return encodeListing(j.listing()) }

// DecodeJournal reverses EncodeJournal. It refuses another version, an entry count
// that differs from the header's, and content above DefaultMaxBytes. Fields it
// does not know are ignored.
func DecodeJournal(data []byte) (Journal, error) {
	return journalOf(decodeListing[JournalEntry](segment.NewFramer(DefaultMaxBytes, 1), data))
}

// JournalKey returns the object key of a journal.
func JournalKey(member string, n int64) string { return listingKey(journalRoot, member, 0, n) }

// JournalRef names the newest journal of one member, or of one shard of it.
type JournalRef struct {
	Member string
	Shard  int      // Of an export journal; others have none.
	N      int64    // Number of the newest.
	Keys   []string // Object keys of all that are stored, N included, lowest first.
}

// Journals finds every journal in the bucket by LIST, ordered by key. A key that
// is no journal key is nobody's journal and is passed over.
func Journals(ctx context.Context, b Bucket) ([]JournalRef, error) {
	return listings(ctx, b, journalRoot)
}

// ReadJournal returns one journal. ErrNotFound says it is gone; a [*CorruptError]
// that the object is not that journal.
func ReadJournal(ctx context.Context, b Bucket, member string, n int64) (Journal, error) {
	return journalOf(readListing[JournalEntry](ctx, b, journalRoot, member, 0, n))
}

// Write stores a journal under its key. Like a batch it is sent with the same
// bytes until the outcome is known; if the key is taken by the same content, that
// is a success, and ErrExists otherwise. ErrUncertain says ctx ended first: the
// caller may write the same journal again, or leave it behind for the next.
func (w *JournalWriter) Write(ctx context.Context, j Journal) error {
	return writeListing(ctx, w, journalRoot, j.listing())
}

// DeleteJournal deletes exactly the objects named, in order, once each. It tries
// all of them and returns what went wrong; what is left is swept again. A key that
// is no journal key is refused before anything is deleted.
func DeleteJournal(ctx context.Context, b Bucket, keys []string) error {
	if err := deleteListings(ctx, b, journalRoot, keys); err != nil {
		return fmt.Errorf("delete journal: %w", err)
	}
	return nil
}
