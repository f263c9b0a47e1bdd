package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage/segment"
)

// ObjectName is a parsed key. Fields that a kind does not use are zero.
type ObjectName struct {
	Kind      ObjectKind
	Conv      conversation.Key
	First     int64  // First batch of a segment; else number of the batch, page, journal (of either kind) or epoch; for a checkpoint, timer or dead letter its batch.
	Last      int64  // Last batch of a segment.
	Digest    string // 32 digits for a checkpoint or page, 64 for an attachment.
	Member    string // Of a journal (of either kind), heartbeat or staged object.
	Shard     int    // Of a journal (of either kind) or timer.
	Agent     string // Agent and Day belong to an index entry.
	Day       string
	Truncated bool // Set for a truncated object, see [TruncatedKey].
}

// ParseKey parses a key of a bucket. It accepts exactly the keys that this package makes. For a
// truncated object it returns the name of the original.
func ParseKey(key string) (ObjectName, error) {
	n, ok := parseRoot(key)
	if !ok {
		n, ok = parseConvKey(key)
	}
	if !ok {
		return ObjectName{}, fmt.Errorf("parse key %q: unknown kind of object", key)
	}
	return n, nil
}

// parseRoot parses the keys that belong to no conversation.
func parseRoot(key string) (ObjectName, bool) {
	n, ok := ObjectName{Kind: KindOf(key)}, false
	_, rest, _ := strings.Cut(key, "/")
	switch n.Kind {
	case KindFormat:
		ok = true
	case KindJournal:
		n.Member, n.Shard, n.First, ok = parseListingKey(journalRoot, key)
	case KindExport:
		n.Member, n.Shard, n.First, ok = parseListingKey(exportRoot, key)
	case KindTimer:
		var ref TimerRef
		ref, ok = parseTimerKey(key)
		n.Conv, n.Shard, n.First = ref.Conv, TimerShard(ref.Conv), ref.Seq
	case KindDeadLetter:
		var l DeadLetter
		l, ok = parseDeadLetterKey(key)
		n.Conv, n.First = l.Conv, l.Seq
	case KindEpoch:
		var err error
		n.First, err = parseNumber(rest)
		ok = err == nil && n.First > 0
	case KindHeartbeat:
		n.Member, ok = rest, validMember(rest) == nil
	case KindStaged:
		member, name, _ := strings.Cut(rest, "/")
		n.Member, ok = member, validMember(member) == nil && validMember(name) == nil
	case KindMigration:
		ok = parseMigrationKey(key)
	case KindQuarantine:
		n.Conv = conversation.Key(rest)
		ok = validConv(n.Conv) == nil
	case KindProbe:
		ok = rest != ""
	case KindIndex:
		agent, rest, _ := strings.Cut(rest, "/")
		day, conv, _ := strings.Cut(rest, "/")
		_, err := time.Parse(time.DateOnly, day)
		n.Agent, n.Day, n.Conv = agent, day, conversation.Key(conv)
		ok = agent != "" && err == nil && validConv(n.Conv) == nil
	}
	return n, ok
}

// parseConvKey parses the keys of a conversation.
func parseConvKey(key string) (ObjectName, bool) {
	hh, rest, _ := strings.Cut(key, "/")
	name, rest, _ := strings.Cut(rest, "/")
	n := ObjectName{Kind: KindOf(key), Conv: conversation.Key(name)}
	if validConv(n.Conv) != nil || hh != name[:2] {
		return n, false
	}
	var err error
	_, rest, _ = strings.Cut(rest, "/")
	switch n.Kind {
	case KindHead:
	case KindBatch:
		n.First, err = parseNumber(rest)
		n.Last = n.First
	case KindSegment:
		n.First, n.Last, err = parseSegment(rest)
	case KindCheckpoint, KindPage:
		digits, digest, _ := strings.Cut(rest, "-")
		n.First, err = parseNumber(digits)
		n.Digest = digest
		err = errors.Join(err, segment.Unhex(make([]byte, 16), []byte(digest)))
	case KindTruncated:
		name, was, _ := strings.Cut(rest, "/")
		n, ok := parseConvKey(FolderOf(n.Conv) + was)
		ok = ok && !n.Truncated && segment.Plain(name)
		n.Truncated = true
		return n, ok
	case KindAttachment:
		n.Digest = rest
		err = segment.Unhex(make([]byte, 32), []byte(rest))
	default:
		return n, false
	}
	return n, err == nil
}

// TruncatedKey returns the key to which the truncation of this name moves an object of a conversation:
// its own key below the folder truncated/, which is never read.
func TruncatedKey(conv conversation.Key, name, key string) string {
	return TruncatedPrefix(conv, name) + strings.TrimPrefix(key, folder(conv))
}

// TruncatedPrefix returns the prefix of all objects that the truncation of this name has moved.
func TruncatedPrefix(conv conversation.Key, name string) string {
	return folder(conv) + "truncated/" + name + "/"
}

// CheckConv returns an error unless conv is the key of a conversation.
func CheckConv(conv conversation.Key) error { return validConv(conv) }

// FolderOf returns the prefix of all keys of a conversation except its index entries. conv must be a
// conversation's key.
func FolderOf(conv conversation.Key) string { return folder(conv) }

// Head is the decoded head of a conversation.
type Head struct {
	Seq    int64  // Batch of the checkpoint that the head names.
	Digest Digest // Digest of that checkpoint.
	Prev   string // Key of the checkpoint that was named before, "" if there was none.
}

// EncodeHead returns the object of a head.
func EncodeHead(h Head) ([]byte, error) {
	line, err := json.Marshal(headObject{Version: SchemaVersion, Seq: h.Seq, Digest: h.Digest, Prev: h.Prev})
	if err != nil {
		return nil, fmt.Errorf("encode head: %w", err)
	}
	return append(line, '\n'), nil
}

// DecodeHead reverses [EncodeHead] for a conversation.
func DecodeHead(conv conversation.Key, data []byte) (Head, error) {
	var h headObject
	if err := json.Unmarshal(data, &h); err != nil {
		return Head{}, fmt.Errorf("decode head: %w", err)
	}
	if h.Version != SchemaVersion || h.Seq < 0 || h.Seq > maxSeq || h.Prev != "" && !strings.HasPrefix(h.Prev, folder(conv)+"ckpt/") {
		return Head{}, fmt.Errorf("decode head: version %d, batch %d, the one before is %q", h.Version, h.Seq, h.Prev)
	}
	return Head{Seq: h.Seq, Digest: h.Digest, Prev: h.Prev}, nil
}

// DecodeCheckpoint decodes the object of a checkpoint. It does not verify the digest.
func (l *Logs) DecodeCheckpoint(data []byte) (*Checkpoint, error) {
	c, err := l.decodeCheckpoint(data)
	if err != nil {
		return nil, fmt.Errorf("decode checkpoint: %w", err)
	}
	return c, nil
}

// DecodeBatch is the function [DecodeBatch] with reused decoders.
func (l *Logs) DecodeBatch(data []byte) (Batch, error) { return decodeBatch(l.frames, data) }

// DecodeIndex decodes the object of an index entry.
func DecodeIndex(data []byte) (IndexEntry, error) {
	const maxIndexEntry = 4 << 10
	var s storedIndex
	if err := decodeStored(data, maxIndexEntry, &s); err != nil {
		return IndexEntry{}, fmt.Errorf("decode index entry: %w", err)
	}
	return IndexEntry{Address: conversation.Address{Agent: s.Agent, ID: s.ID}, Day: s.Day}, nil
}

// retriedBucket retries the reads of a bucket.
type retriedBucket struct {
	Bucket
	retry *retry
}

// Retried returns b with retries of its reads, as those of a log. Writes are still sent once.
func Retried(b Bucket, r Retry) Bucket { return &retriedBucket{Bucket: b, retry: newRetry(r)} }

// Unwrap returns the underlying bucket.
func (b *retriedBucket) Unwrap() Bucket { return b.Bucket }

// Get implements Bucket.
func (b *retriedBucket) Get(ctx context.Context, key string) ([]byte, error) {
	return readRetried(ctx, b.retry, func(ctx context.Context) ([]byte, error) { return b.Bucket.Get(ctx, key) })
}

// GetRange implements Bucket.
func (b *retriedBucket) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	return readRetried(ctx, b.retry, func(ctx context.Context) ([]byte, error) {
		return b.Bucket.GetRange(ctx, key, offset, length)
	})
}

// List implements Bucket.
func (b *retriedBucket) List(ctx context.Context, q ListQuery) (ListPage, error) {
	return readRetried(ctx, b.retry, func(ctx context.Context) (ListPage, error) { return b.Bucket.List(ctx, q) })
}

// Open implements Bucket. Errors while reading the body are not retried.
func (b *retriedBucket) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	for n := 0; ; n++ {
		content, size, err := b.Bucket.Open(ctx, key)
		if err == nil || !errors.Is(err, ErrUnavailable) || n+1 == b.retry.Reads || !b.retry.pause(ctx, n, []byte(key)) {
			return content, size, err
		}
	}
}
