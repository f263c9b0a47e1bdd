package storage

import (
	"context"
	"fmt"
	"strconv"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage/segment"
)

const exportRoot = "export/"

// ExportShards is the number of export journals of a node. A node writes only the shards that changed,
// so a large backlog costs small writes. Readers use the number in the header.
const ExportShards = 64

// ExportShard returns the shard of a conversation. conv must be a conversation's key.
func ExportShard(conv conversation.Key) int {
	n, _ := strconv.ParseUint(string(conv[:min(2, len(conv))]), 16, 8) // a key is hexadecimal
	return int(n % ExportShards)
}

// ExportJournal is the export journal of one shard of one node. It lists every conversation of the
// shard whose durable events have not reached all sinks. Its writer and the sweeps decide on entries
// and deletion.
type ExportJournal struct {
	Member  string        // Incarnation of the node: 1 to 128 letters, digits, '-' or '_'.
	Shard   int           // From 0.
	Shards  int           // Number of shards when the member wrote it.
	N       int64         // Number of the journal; the highest of a member and shard is the newest.
	Entries []ExportEntry // May be empty.
}

// ExportEntry lists one conversation.
type ExportEntry struct {
	Conv conversation.Key `json:"conv"`
	Seq  int64            `json:"seq"` // The last batch whose events all sinks have stored, -1 if none.
}

func (e ExportEntry) valid() error {
	if err := validConv(e.Conv); err != nil {
		return err
	}
	return validListed(e.Seq)
}

func (e ExportEntry) appendTo(dst []byte) []byte {
	dst = append(dst, `{"conv":"`...)
	dst = append(dst, e.Conv...)
	dst = append(dst, `","seq":`...)
	return append(strconv.AppendInt(dst, e.Seq, 10), '}')
}

// EncodeExportJournal is [EncodeJournal] for export journals, whose entries are {conv, seq}.
func EncodeExportJournal(j ExportJournal) ([]byte, error) {
	return encodeListing(listing[ExportEntry](j))
}

// DecodeExportJournal reverses EncodeExportJournal and is as strict as [DecodeJournal].
func DecodeExportJournal(data []byte) (ExportJournal, error) {
	j, err := decodeListing[ExportEntry](segment.NewFramer(DefaultMaxBytes, 1), data)
	return ExportJournal(j), err
}

// ExportJournalKey returns the object key of an export journal.
func ExportJournalKey(member string, shard int, n int64) string {
	return listingKey(exportRoot, member, shard, n)
}

// ExportJournals is [Journals] for export journals.
func ExportJournals(ctx context.Context, b Bucket) ([]JournalRef, error) {
	return listings(ctx, b, exportRoot)
}

// ReadExportJournal is [ReadJournal] for export journals.
func ReadExportJournal(ctx context.Context, b Bucket, member string, shard int, n int64) (ExportJournal, error) {
	j, err := readListing[ExportEntry](ctx, b, exportRoot, member, shard, n)
	return ExportJournal(j), err
}

// WriteExport is [JournalWriter.Write] for export journals.
func (w *JournalWriter) WriteExport(ctx context.Context, j ExportJournal) error {
	return writeListing(ctx, w, exportRoot, listing[ExportEntry](j))
}

// DeleteExportJournal is [DeleteJournal] for export journals.
func DeleteExportJournal(ctx context.Context, b Bucket, keys []string) error {
	if err := deleteListings(ctx, b, exportRoot, keys); err != nil {
		return fmt.Errorf("delete export journal: %w", err)
	}
	return nil
}
