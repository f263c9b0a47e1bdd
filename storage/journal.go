package storage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage/segment"
)

const journalRoot = "wake/"

// maxKeptLines bounds the memory, in bytes, that a JournalWriter keeps for the next
// journal.
const maxKeptLines = 1 << 20

// Journal is one busy journal: the full set of conversations of one shard of one
// node that have unsettled work. Who stands in it, and when it may go, is decided
// by its writer and by the sweeps; this package stores it.
type Journal struct {
	Member  string         // Incarnation of the node: 1 to 128 letters, digits, '-' or '_'.
	Shard   int            // From 0.
	Shards  int            // How many shards this member had when it wrote.
	N       int64          // Number of the journal; of one member and shard the highest is the newest.
	Entries []JournalEntry // May be empty.
}

// JournalEntry lists one conversation under the writer that has work for it.
type JournalEntry struct {
	Conv  conversation.Key `json:"conv"`
	Nonce Nonce            `json:"nonce"`
	Seq   int64            `json:"seq"` // Where the writer was when it was listed, -1 before its batch 0.
}

type journalHeader struct {
	Version int    `json:"v"`
	Member  string `json:"member"`
	Shard   int    `json:"shard"`
	Shards  int    `json:"shards"`
	N       int64  `json:"n"`
	Count   int    `json:"count"`
}

func (j Journal) valid() error {
	switch {
	case len(j.Member) == 0 || len(j.Member) > 128 || !segment.Plain(j.Member):
		return fmt.Errorf("member %q: want 1 to 128 letters, digits, '-' or '_'", j.Member)
	case j.Shard < 0 || j.Shard >= j.Shards:
		return fmt.Errorf("shard %d of %d is out of range", j.Shard, j.Shards)
	case j.N < 0 || j.N > maxSeq:
		return fmt.Errorf("number %d is out of range", j.N)
	}
	for i, e := range j.Entries {
		if err := e.valid(); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
	}
	return nil
}

func (e JournalEntry) valid() error {
	if err := validConv(e.Conv); err != nil {
		return err
	}
	if err := e.Nonce.Validate(); err != nil {
		return err
	}
	if e.Seq < -1 || e.Seq > maxSeq {
		return fmt.Errorf("sequence number %d is out of range", e.Seq)
	}
	return nil
}

// EncodeJournal returns the object of a journal: one zstd frame with a checksum;
// its content is JSON lines, a header {v, member, shard, shards, n, count} and one
// line {conv, nonce, seq} per entry, in the order given.
func EncodeJournal(j Journal) ([]byte, error) {
	lines, err := journalLines(nil, j)
	if err != nil {
		return nil, fmt.Errorf("encode journal %d of %s: %w", j.N, j.Member, err)
	}
	return segment.NewFramer(DefaultMaxBytes, 1).Encode(lines), nil
}

// journalLines appends to dst what encoding/json would write. Nothing in a valid
// journal needs escaping.
func journalLines(dst []byte, j Journal) ([]byte, error) {
	if err := j.valid(); err != nil {
		return nil, err
	}
	dst = append(dst, `{"v":`...)
	dst = strconv.AppendInt(dst, SchemaVersion, 10)
	dst = append(dst, `,"member":"`...)
	dst = append(dst, j.Member...)
	dst = append(dst, `","shard":`...)
	dst = strconv.AppendInt(dst, int64(j.Shard), 10)
	dst = append(dst, `,"shards":`...)
	dst = strconv.AppendInt(dst, int64(j.Shards), 10)
	dst = append(dst, `,"n":`...)
	dst = strconv.AppendInt(dst, j.N, 10)
	dst = append(dst, `,"count":`...)
	dst = strconv.AppendInt(dst, int64(len(j.Entries)), 10)
	dst = append(dst, "}\n"...)
	for _, e := range j.Entries {
		dst = append(dst, `{"conv":"`...)
		dst = append(dst, e.Conv...)
		dst = append(dst, `","nonce":"`...)
		dst = append(dst, e.Nonce...)
		dst = append(dst, `","seq":`...)
		dst = strconv.AppendInt(dst, e.Seq, 10)
		dst = append(dst, "}\n"...)
	}
	if len(dst) > DefaultMaxBytes {
		return nil, fmt.Errorf("%d bytes, limit %d", len(dst), DefaultMaxBytes)
	}
	return dst, nil
}

// DecodeJournal reverses EncodeJournal. It refuses another version, an entry count
// that differs from the header's, and content above DefaultMaxBytes. Fields it
// does not know are ignored.
func DecodeJournal(data []byte) (Journal, error) {
	return decodeJournal(segment.NewFramer(DefaultMaxBytes, 1), data)
}

func decodeJournal(f *segment.Framer, data []byte) (Journal, error) {
	lines, err := f.Decode(data)
	if err != nil {
		return Journal{}, fmt.Errorf("decode journal: %w", err)
	}
	line, lines, err := segment.CutLine(lines)
	if err != nil {
		return Journal{}, fmt.Errorf("decode journal header: %w", err)
	}
	var h journalHeader
	if err := json.Unmarshal(line, &h); err != nil {
		return Journal{}, fmt.Errorf("decode journal header: %w", err)
	}
	if h.Version != SchemaVersion {
		return Journal{}, fmt.Errorf("decode journal: version %d, supported is %d", h.Version, SchemaVersion)
	}
	j := Journal{Member: h.Member, Shard: h.Shard, Shards: h.Shards, N: h.N}
	for len(lines) > 0 {
		var e JournalEntry
		if line, lines, err = segment.CutLine(lines); err == nil {
			err = json.Unmarshal(line, &e)
		}
		if err != nil {
			return Journal{}, fmt.Errorf("decode journal entry %d: %w", len(j.Entries), err)
		}
		j.Entries = append(j.Entries, e)
	}
	if len(j.Entries) != h.Count {
		return Journal{}, fmt.Errorf("decode journal: %d entries, header says %d", len(j.Entries), h.Count)
	}
	if err := j.valid(); err != nil {
		return Journal{}, fmt.Errorf("decode journal: %w", err)
	}
	return j, nil
}

// JournalKey returns the object key of a journal.
func JournalKey(member string, shard int, n int64) string {
	return journalRoot + member + "/" + strconv.Itoa(shard) + "/" + number(n)
}

// parseJournalKey reports whether key is exactly what JournalKey returns.
func parseJournalKey(key string) (member string, shard int, n int64, ok bool) {
	parts := strings.Split(key, "/")
	if len(parts) != 4 {
		return "", 0, 0, false
	}
	member = parts[1]
	shard, errShard := strconv.Atoi(parts[2])
	n, errN := parseNumber(parts[3])
	if errShard != nil || errN != nil || JournalKey(member, shard, n) != key {
		return "", 0, 0, false
	}
	return member, shard, n, (Journal{Member: member, Shard: shard, Shards: shard + 1, N: n}).valid() == nil
}

// JournalRef names the newest journal of one shard of one member.
type JournalRef struct {
	Member string
	Shard  int
	N      int64    // Number of the newest.
	Keys   []string // Object keys of all that are stored, N included, lowest first.
}

// Journals finds every journal in the bucket by LIST, ordered by key. A key that
// is no journal key is nobody's journal and is passed over.
func Journals(ctx context.Context, b Bucket) ([]JournalRef, error) {
	var refs []JournalRef
	err := listAll(ctx, b, newRetry(Retry{}), ListQuery{Prefix: journalRoot}, func(page []ListedKey) error {
		for _, k := range page {
			member, shard, n, ok := parseJournalKey(k.Key)
			if !ok {
				continue
			}
			last := len(refs) - 1
			if last < 0 || refs[last].Member != member || refs[last].Shard != shard {
				refs = append(refs, JournalRef{Member: member, Shard: shard})
				last++
			}
			refs[last].N = n
			refs[last].Keys = append(refs[last].Keys, k.Key)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list journals: %w", err)
	}
	return refs, nil
}

// ReadJournal returns one journal. ErrNotFound says it is gone; a [*CorruptError]
// that the object is not that journal.
func ReadJournal(ctx context.Context, b Bucket, member string, shard int, n int64) (Journal, error) {
	key := JournalKey(member, shard, n)
	data, err := readRetried(ctx, newRetry(Retry{}), func(ctx context.Context) ([]byte, error) { return b.Get(ctx, key) })
	if err != nil {
		return Journal{}, fmt.Errorf("read journal: %w", err)
	}
	j, err := DecodeJournal(data)
	if err == nil && (j.Member != member || j.Shard != shard || j.N != n) {
		err = fmt.Errorf("header says journal %d of shard %d of %s", j.N, j.Shard, j.Member)
	}
	if err != nil {
		return Journal{}, &CorruptError{Key: key, Seq: n, Err: err}
	}
	return j, nil
}

// JournalWriter stores journals one after another. It belongs to one goroutine at
// a time.
type JournalWriter struct {
	bucket Bucket
	frames *segment.Framer
	retry  *retry
	lines  []byte // Content of the last journal; its memory serves the next.
}

// NewJournalWriter returns a writer of journals in b.
func NewJournalWriter(b Bucket) *JournalWriter {
	return &JournalWriter{bucket: b, frames: segment.NewFramer(DefaultMaxBytes, 1), retry: newRetry(Retry{})}
}

// Write stores a journal under its key. Like a batch it is sent with the same
// bytes until the outcome is known; if the key is taken by the same content, that
// is a success, and ErrExists otherwise. ErrUncertain says ctx ended first: the
// caller may write the same journal again, or leave it behind for the next.
func (w *JournalWriter) Write(ctx context.Context, j Journal) error {
	lines, err := journalLines(w.lines[:0], j)
	if err != nil {
		return fmt.Errorf("write journal %d of %s: %w", j.N, j.Member, &Error{Op: "create", Key: journalRoot, Kind: ErrRefused, Err: err})
	}
	if w.lines = lines; cap(lines) > maxKeptLines {
		w.lines = nil
	}
	key, data := JournalKey(j.Member, j.Shard, j.N), w.frames.Encode(lines)
	err = createResolved(ctx, w.bucket, w.retry, key, func() Body { return Bytes(data) })
	if errors.Is(err, ErrExists) {
		err = w.sameContent(ctx, key, lines, err)
	}
	if err != nil {
		return fmt.Errorf("write journal %d of %s: %w", j.N, j.Member, err)
	}
	return nil
}

// sameContent returns nil if the object under key holds lines, and exists if it
// holds anything else. Content is compared, not the frame: another version may
// compress the same lines to other bytes.
func (w *JournalWriter) sameContent(ctx context.Context, key string, lines []byte, exists error) error {
	data, err := readResolved(ctx, w.retry, func(ctx context.Context) ([]byte, error) { return w.bucket.Get(ctx, key) })
	if err != nil {
		return &Error{Op: "create", Key: key, Kind: ErrUncertain, Err: err}
	}
	if stored, err := w.frames.Decode(data); err != nil || !bytes.Equal(stored, lines) {
		return exists
	}
	return nil
}

// DeleteJournal deletes exactly the objects named, in order, once each. It tries
// all of them and returns what went wrong; what is left is swept again. A key that
// is no journal key is refused before anything is deleted.
func DeleteJournal(ctx context.Context, b Bucket, keys []string) error {
	for _, key := range keys {
		if _, _, _, ok := parseJournalKey(key); !ok {
			return &Error{Op: "delete", Key: key, Kind: ErrRefused, Err: errors.New("not a journal key")}
		}
	}
	var errs []error
	for _, key := range keys {
		if err := b.Delete(ctx, key); err != nil {
			errs = append(errs, fmt.Errorf("delete journal: %w", err))
		}
	}
	return errors.Join(errs...)
}
