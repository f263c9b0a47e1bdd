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

// ObjectName is what a key says about its object. Fields that a kind does not have are
// zero.
type ObjectName struct {
	Kind   ObjectKind
	Conv   conversation.Key
	First  int64  // First batch of a segment, the batch of a batch, checkpoint, timer or letter, the number of a page, journal (of either kind) or epoch.
	Last   int64  // Last batch of a segment.
	Digest string // 32 digits of a checkpoint or page, 64 of an attachment.
	Member string // Of a journal (of either kind) or heartbeat, or who staged something.
	Shard  int    // Of a journal (of either kind) or timer.
	Agent  string // Of an index entry, as is Day.
	Day    string
	Cut    bool // It was cut off its log and is kept aside, see [TruncatedKey].
}

// ParseKey reads a key of a bucket. It accepts exactly the keys that this package makes.
// Of what was cut off a log it tells what it was.
func ParseKey(key string) (ObjectName, error) {
	n, ok := parseRoot(key)
	if !ok {
		n, ok = parseConvKey(key)
	}
	if !ok {
		return ObjectName{}, fmt.Errorf("parse key %q: no object of Parley has such a key", key)
	}
	return n, nil
}

// parseRoot reads the keys that belong to no conversation.
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

// parseConvKey reads the keys of a conversation.
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
		ok = ok && !n.Cut && segment.Plain(name)
		n.Cut = true
		return n, ok
	case KindAttachment:
		n.Digest = rest
		err = segment.Unhex(make([]byte, 32), []byte(rest))
	default:
		return n, false
	}
	return n, err == nil
}

// TruncatedKey returns under which key an object of a conversation is kept that a cut of this
// name has taken away: the rest of its own key below a folder that nobody reads.
func TruncatedKey(conv conversation.Key, name, key string) string {
	return TruncatedPrefix(conv, name) + strings.TrimPrefix(key, folder(conv))
}

// TruncatedPrefix is the prefix of all that a cut of this name has taken away.
func TruncatedPrefix(conv conversation.Key, name string) string {
	return folder(conv) + "truncated/" + name + "/"
}

// CheckConv returns an error unless conv is the key of a conversation.
func CheckConv(conv conversation.Key) error { return validConv(conv) }

// FolderOf is the prefix of all keys of a conversation but its index entries. conv must
// be a conversation's key.
func FolderOf(conv conversation.Key) string { return folder(conv) }

// Head is what the head of a conversation says.
type Head struct {
	Seq    int64  // Batch of the checkpoint that it names.
	Digest Digest // Of that object.
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

// DecodeHead reverses EncodeHead for a conversation.
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

// DecodeCheckpoint reads the object of a checkpoint. Its digest is not looked at.
func (l *Logs) DecodeCheckpoint(data []byte) (*Checkpoint, error) {
	c, err := l.decodeCheckpoint(data)
	if err != nil {
		return nil, fmt.Errorf("decode checkpoint: %w", err)
	}
	return c, nil
}

// DecodeBatch is the function of this name, for many batches.
func (l *Logs) DecodeBatch(data []byte) (Batch, error) { return decodeBatch(l.frames, data) }

// DecodeIndex reads the object of an index entry.
func DecodeIndex(data []byte) (IndexEntry, error) {
	const maxIndexEntry = 4 << 10
	var s storedIndex
	if err := decodeStored(data, maxIndexEntry, &s); err != nil {
		return IndexEntry{}, fmt.Errorf("decode index entry: %w", err)
	}
	return IndexEntry{Address: conversation.Address{Agent: s.Agent, ID: s.ID}, Day: s.Day}, nil
}

// retriedBucket repeats the reads of a bucket.
type retriedBucket struct {
	Bucket
	retry *retry
}

// Retried returns b with its reads repeated as those of a log are. Writes are sent once,
// as ever.
func Retried(b Bucket, r Retry) Bucket { return &retriedBucket{Bucket: b, retry: newRetry(r)} }

// Unwrap returns the bucket whose reads are repeated.
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

// Open implements Bucket. What breaks while it is read is not repeated.
func (b *retriedBucket) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	for n := 0; ; n++ {
		content, size, err := b.Bucket.Open(ctx, key)
		if err == nil || !errors.Is(err, ErrUnavailable) || n+1 == b.retry.Reads || !b.retry.pause(ctx, n, []byte(key)) {
			return content, size, err
		}
	}
}
