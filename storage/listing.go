package storage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/parleyrun/parley/storage/segment"
)

// maxReusedBytes bounds the buffer, in bytes, that a JournalWriter reuses.
const maxReusedBytes = 1 << 20

// listing is the common form of both kinds of journal: a numbered set of entries of one shard of one
// member.
type listing[E listed] struct {
	Member  string
	Shard   int
	Shards  int
	N       int64
	Entries []E
}

// listed is an entry of a listing. It appends itself in the form of encoding/json; a valid entry needs
// no escaping.
type listed interface {
	JournalEntry | ExportEntry
	valid() error
	appendTo(dst []byte) []byte
}

type listingHeader struct {
	Version int    `json:"v"`
	Member  string `json:"member"`
	Shard   int    `json:"shard"`
	Shards  int    `json:"shards"`
	N       int64  `json:"n"`
	Count   int    `json:"count"`
}

func (j listing[E]) valid() error {
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

func validListed(seq int64) error {
	if seq < -1 || seq > maxSeq {
		return fmt.Errorf("sequence number %d is out of range", seq)
	}
	return nil
}

func encodeListing[E listed](j listing[E]) ([]byte, error) {
	lines, err := j.lines(nil)
	if err != nil {
		return nil, fmt.Errorf("encode journal %d of %s: %w", j.N, j.Member, err)
	}
	return segment.NewFramer(DefaultMaxBytes, 1).Encode(lines), nil
}

// lines appends the content of the object to dst.
func (j listing[E]) lines(dst []byte) ([]byte, error) {
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
		dst = append(e.appendTo(dst), '\n')
	}
	if len(dst) > DefaultMaxBytes {
		return nil, fmt.Errorf("%d bytes, limit %d", len(dst), DefaultMaxBytes)
	}
	return dst, nil
}

func decodeListing[E listed](f *segment.Framer, data []byte) (listing[E], error) {
	var none listing[E]
	lines, err := f.Decode(data)
	if err != nil {
		return none, fmt.Errorf("decode journal: %w", err)
	}
	line, lines, err := segment.CutLine(lines)
	if err != nil {
		return none, fmt.Errorf("decode journal header: %w", err)
	}
	var h listingHeader
	if err := json.Unmarshal(line, &h); err != nil {
		return none, fmt.Errorf("decode journal header: %w", err)
	}
	if h.Version != SchemaVersion {
		return none, fmt.Errorf("decode journal: version %d, supported is %d", h.Version, SchemaVersion)
	}
	j := listing[E]{Member: h.Member, Shard: h.Shard, Shards: h.Shards, N: h.N}
	for len(lines) > 0 {
		var e E
		if line, lines, err = segment.CutLine(lines); err == nil {
			err = json.Unmarshal(line, &e)
		}
		if err != nil {
			return none, fmt.Errorf("decode journal entry %d: %w", len(j.Entries), err)
		}
		j.Entries = append(j.Entries, e)
	}
	if len(j.Entries) != h.Count {
		return none, fmt.Errorf("decode journal: %d entries, header says %d", len(j.Entries), h.Count)
	}
	if err := j.valid(); err != nil {
		return none, fmt.Errorf("decode journal: %w", err)
	}
	return j, nil
}

// listingKey returns the object key of a journal below root.
func listingKey(root, member string, shard int, n int64) string {
	return root + member + "/" + strconv.Itoa(shard) + "/" + number(n)
}

// parseListingKey reverses listingKey. ok is false for any other key.
func parseListingKey(root, key string) (member string, shard int, n int64, ok bool) {
	parts := strings.Split(key, "/")
	if len(parts) != 4 {
		return "", 0, 0, false
	}
	member = parts[1]
	shard, errShard := strconv.Atoi(parts[2])
	n, errN := parseNumber(parts[3])
	if errShard != nil || errN != nil || listingKey(root, member, shard, n) != key || root == journalRoot && shard != 0 {
		return "", 0, 0, false
	}
	return member, shard, n, (listing[JournalEntry]{Member: member, Shard: shard, Shards: shard + 1, N: n}).valid() == nil
}

// listings lists every journal below root.
func listings(ctx context.Context, b Bucket, root string) ([]JournalRef, error) {
	var refs []JournalRef
	err := listAll(ctx, b, newRetry(Retry{}), ListQuery{Prefix: root}, func(page []ListedKey) error {
		for _, k := range page {
			member, shard, n, ok := parseListingKey(root, k.Key)
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

func readListing[E listed](ctx context.Context, b Bucket, root, member string, shard int, n int64) (listing[E], error) {
	key := listingKey(root, member, shard, n)
	j, err := readDecoded(ctx, newRetry(Retry{}).reads(b, key), func(data []byte) (listing[E], error) {
		j, err := decodeListing[E](segment.NewFramer(DefaultMaxBytes, 1), data)
		if err == nil && (j.Member != member || j.Shard != shard || j.N != n) {
			err = fmt.Errorf("header names journal %d of shard %d of %s", j.N, j.Shard, j.Member)
		}
		if err != nil {
			return listing[E]{}, &CorruptError{Key: key, Seq: n, Err: err}
		}
		return j, nil
	})
	if err != nil && !IsCorrupt(err) {
		err = fmt.Errorf("read journal: %w", err)
	}
	return j, err
}

// JournalWriter stores successive journals. It belongs to one goroutine at a time.
type JournalWriter struct {
	bucket Bucket
	frames *segment.Framer
	retry  *retry
	kept   []byte // Content of the last journal; its buffer is reused.
}

// NewJournalWriter returns a writer of journals in b.
func NewJournalWriter(b Bucket) *JournalWriter {
	return &JournalWriter{bucket: b, frames: segment.NewFramer(DefaultMaxBytes, 1), retry: newRetry(Retry{})}
}

func writeListing[E listed](ctx context.Context, w *JournalWriter, root string, j listing[E]) error {
	lines, err := j.lines(w.kept[:0])
	if err != nil {
		return fmt.Errorf("write journal %d of %s: %w", j.N, j.Member, &Error{Op: "create", Key: root, Kind: ErrRefused, Err: err})
	}
	if w.kept = lines; cap(lines) > maxReusedBytes {
		w.kept = nil
	}
	key, data := listingKey(root, j.Member, j.Shard, j.N), w.frames.Encode(lines)
	err = createResolved(ctx, w.bucket, w.retry, key, func() Body { return Bytes(data) })
	if errors.Is(err, ErrExists) {
		err = w.sameContent(ctx, key, lines, err)
	}
	if err != nil {
		return fmt.Errorf("write journal %d of %s: %w", j.N, j.Member, err)
	}
	return nil
}

// sameContent returns nil if the object under key holds lines, and exists otherwise. It compares the
// content rather than the frame, because another version may compress the same lines to other bytes.
func (w *JournalWriter) sameContent(ctx context.Context, key string, lines []byte, exists error) error {
	o := w.retry.reads(w.bucket, key)
	o.attempts = 0
	stored, err := readDecoded(ctx, o, func(data []byte) ([]byte, error) {
		stored, err := w.frames.Decode(data)
		if err != nil {
			return nil, &CorruptError{Key: key, Err: err}
		}
		return stored, nil
	})
	switch {
	case err != nil && !IsCorrupt(err):
		return &Error{Op: "create", Key: key, Kind: ErrUncertain, Err: err}
	case err != nil || !bytes.Equal(stored, lines):
		return exists
	}
	return nil
}

func deleteListings(ctx context.Context, b Bucket, root string, keys []string) error {
	for _, key := range keys {
		if _, _, _, ok := parseListingKey(root, key); !ok {
			return &Error{Op: "delete", Key: key, Kind: ErrRefused, Err: errors.New("not a journal key")}
		}
	}
	var errs []error
	for _, key := range keys {
		errs = append(errs, b.Delete(ctx, key))
	}
	return errors.Join(errs...)
}
