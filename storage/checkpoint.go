package storage

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage/segment"
)

// Checkpoint is the folded state of a log at a position. It makes the cost of opening a log
// independent of its length. The log stays authoritative: a checkpoint that is missing, corrupt or of
// another version is rebuilt from the log.
type Checkpoint struct {
	At Position
	// Claims are the newest claims up to At, in order. Writers counts all claims.
	Claims  []Claim
	Writers int64
	// Indexed is the day of the newest index entry, "" if there is none. See [IndexEntry].
	Indexed string
	// Exported is the last batch whose durable events all sinks have stored, -1 if none. It is nil if
	// no sink was configured.
	Exported *int64
	// Events is one JSON value about the event stream up to At, nil if there is none. Storage does not
	// interpret it.
	Events json.RawMessage
	// Pages are the closed history that State omits, oldest first.
	Pages []PageRef
	// State is one or more lines of JSON, the last without its newline. Tail is the closed history
	// that does not fill a page yet: zero or more lines, each with a newline. Storage interprets
	// neither.
	State, Tail []byte

	key, prev string // keys of the object and of the checkpoint that the head named before
}

// Claim is the first batch of a writer.
type Claim struct {
	Seq   int64 `json:"seq"`
	Nonce Nonce `json:"nonce"`
}

// PageRef names an immutable page of closed history.
type PageRef struct {
	N      int    `json:"n"`      // Number of the page in the conversation, from 0.
	Digest Digest `json:"sha256"` // Digest of the stored object.
	Size   int64  `json:"size"`   // Size of the object in bytes.
}

// headObject is the only object of a conversation that is overwritten. It is a hint at the newest
// checkpoint: a reader of a stale head reads a longer tail.
type headObject struct {
	Version int    `json:"v"`
	Seq     int64  `json:"seq"`
	Digest  Digest `json:"sha256"`
	Prev    string `json:"prev,omitempty"` // key of the checkpoint that the head named before
}

type checkpointHeader struct {
	Version int     `json:"v"`
	Seq     int64   `json:"seq"`
	Hash    Hash    `json:"hash"`
	Writers int64   `json:"writers"`
	Claims  []Claim `json:"claims"`
	Indexed string  `json:"indexed,omitempty"`
	// Exported is nil if no sink is configured.
	Exported *int64          `json:"exported,omitempty"`
	Events   json.RawMessage `json:"events,omitempty"`
	Pages    []PageRef       `json:"pages"`
	State    int             `json:"state"` // bytes of the state, including its last newline
}

// maxClaims bounds the claims of a checkpoint.
const maxClaims = 1024

// HeadKey returns the key of a conversation's head.
func HeadKey(conv conversation.Key) string { return folder(conv) + "head" }

// CheckpointKey returns the key of a checkpoint. The key holds the digest of the content, so two
// writers never need one key for different bytes.
func CheckpointKey(conv conversation.Key, seq int64, digest Digest) string {
	return folder(conv) + "ckpt/" + number(seq) + "-" + digest.String()[:32]
}

// PageKey returns the key of a page. As in [CheckpointKey], the key holds the digest.
func PageKey(conv conversation.Key, p PageRef) string {
	return folder(conv) + "page/" + number(int64(p.N)) + "-" + p.Digest.String()[:32]
}

// encodeCheckpoint returns the object of a checkpoint, one zstd frame of JSON lines: a header with v,
// seq, hash, writers, claims, indexed, exported, events, pages and state, then the lines of the state,
// then those of the tail.
func (l *Logs) encodeCheckpoint(c *Checkpoint) ([]byte, error) {
	if n := len(c.State); n == 0 || c.State[n-1] == '\n' {
		return nil, errors.New("state ends with a newline")
	}
	if err := segment.CheckLines(c.Tail); err != nil {
		return nil, fmt.Errorf("tail: %w", err)
	}
	h := checkpointHeader{SchemaVersion, c.At.Seq, c.At.Hash, c.Writers, c.Claims, c.Indexed, c.Exported, c.Events, c.Pages, len(c.State) + 1}
	if err := h.valid(); err != nil {
		return nil, err
	}
	head, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	content := make([]byte, 0, len(head)+len(c.State)+len(c.Tail)+2)
	content = append(append(append(append(append(content, head...), '\n'), c.State...), '\n'), c.Tail...)
	if int64(len(content)) > l.frames.Limit() {
		return nil, fmt.Errorf("%d bytes, limit %d", len(content), l.frames.Limit())
	}
	return l.frames.Encode(content), nil
}

func (l *Logs) decodeCheckpoint(data []byte) (*Checkpoint, error) {
	content, err := l.frames.Decode(data)
	if err != nil {
		return nil, err
	}
	line, rest, err := segment.CutLine(content)
	if err == nil {
		err = segment.CheckLines(rest)
	}
	if err != nil {
		return nil, err
	}
	var h checkpointHeader
	if err := json.Unmarshal(line, &h); err != nil {
		return nil, fmt.Errorf("read header: %w", err)
	}
	if h.State < 2 || h.State > len(rest) || rest[h.State-1] != '\n' {
		return nil, fmt.Errorf("state of %d bytes ends within a line", h.State)
	}
	state, tail := rest[:h.State-1], rest[h.State:]
	c := &Checkpoint{At: Position{Seq: h.Seq, Hash: h.Hash}, Claims: h.Claims, Writers: h.Writers, Indexed: h.Indexed, Exported: h.Exported, Events: h.Events, Pages: h.Pages, State: state, Tail: tail}
	return c, h.valid()
}

func (h *checkpointHeader) valid() error {
	switch {
	case h.Version != SchemaVersion:
		return fmt.Errorf("version %d, supported is %d", h.Version, SchemaVersion)
	case h.Seq < 0 || h.Seq > maxSeq:
		return fmt.Errorf("sequence number %d is out of range", h.Seq)
	case len(h.Claims) == 0 || len(h.Claims) > maxClaims || h.Writers < int64(len(h.Claims)):
		return fmt.Errorf("%d claims of %d writers", len(h.Claims), h.Writers)
	case h.Exported != nil && (*h.Exported < -1 || *h.Exported > maxSeq):
		return fmt.Errorf("exported up to %d, which is out of range", *h.Exported)
	}
	for i, c := range h.Claims {
		if c.Nonce.Validate() != nil || c.Seq < 0 || c.Seq > h.Seq || i > 0 && c.Seq <= h.Claims[i-1].Seq {
			return fmt.Errorf("claim %d is out of order", i)
		}
	}
	for i, p := range h.Pages {
		if p.N != i || p.Size <= 0 {
			return fmt.Errorf("page %d is numbered %d", i, p.N)
		}
	}
	return nil
}

// PutPage stores page n of closed history. It succeeds if the same page is stored already.
func (l *Logs) PutPage(ctx context.Context, conv conversation.Key, n int, content []byte) (PageRef, error) {
	if err := validConv(conv); err != nil {
		return PageRef{}, fmt.Errorf("put page: %w", err)
	}
	data := l.frames.Encode(content)
	ref := PageRef{N: n, Digest: sha256.Sum256(data), Size: int64(len(data))}
	err := createResolved(ctx, l.bucket, l.retry, PageKey(conv, ref), func() Body { return Bytes(data) })
	if err != nil && !errors.Is(err, ErrExists) {
		return ref, fmt.Errorf("put page %d: %w", n, err)
	}
	return ref, nil
}

// Page returns the content of a page. It returns a [*CorruptError] if the page is missing or does not
// match the reference.
func (l *Logs) Page(ctx context.Context, conv conversation.Key, ref PageRef) ([]byte, error) {
	if err := validConv(conv); err != nil {
		return nil, fmt.Errorf("get page: %w", err)
	}
	key := PageKey(conv, ref)
	data, err := l.getNamed(ctx, conv, key, ref.Digest)
	if err == nil {
		data, err = l.frames.Decode(data)
		if err != nil {
			err = &CorruptError{Conv: conv, Key: key, Err: err}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("get page %d: %w", ref.N, err)
	}
	return data, nil
}

// getNamed reads an object and verifies it against the digest in its key.
func (l *Logs) getNamed(ctx context.Context, conv conversation.Key, key string, digest Digest) ([]byte, error) {
	data, err := readDecoded(ctx, l.retry.reads(l.bucket, key), func(data []byte) ([]byte, error) {
		if got := Digest(sha256.Sum256(data)); got != digest {
			return nil, &CorruptError{Conv: conv, Key: key, Err: fmt.Errorf("digest is %s", got)}
		}
		return data, nil
	})
	if errors.Is(err, ErrNotFound) {
		err = &CorruptError{Conv: conv, Key: key, Err: err}
	}
	return data, err
}

// PutCheckpoint stores a checkpoint and makes the head name it. before is the checkpoint that the head
// named so far, nil if there is none. Until PutCheckpoint returns nil, readers find an earlier one.
// The checkpoint before stays for readers that have just read the head; the one before that is
// deleted.
func (l *Logs) PutCheckpoint(ctx context.Context, conv conversation.Key, c, before *Checkpoint) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("put checkpoint at %d: %w", c.At.Seq, err)
		}
	}()
	if err := validConv(conv); err != nil {
		return err
	}
	data, err := l.encodeCheckpoint(c)
	if err != nil {
		return err
	}
	head := headObject{Version: SchemaVersion, Seq: c.At.Seq, Digest: sha256.Sum256(data)}
	key := CheckpointKey(conv, head.Seq, head.Digest)
	if before != nil && before.key == key {
		c.key, c.prev = before.key, before.prev
		return nil
	}
	if before != nil {
		head.Prev = before.key
	}
	err = createResolved(ctx, l.bucket, l.retry, key, func() Body { return Bytes(data) })
	if err != nil && !errors.Is(err, ErrExists) {
		return err
	}
	line, err := json.Marshal(head)
	if err != nil {
		return err
	}
	attempt, cancel := context.WithTimeout(ctx, l.retry.Attempt)
	defer cancel()
	if err := l.bucket.Put(attempt, HeadKey(conv), Bytes(append(line, '\n'))); err != nil {
		return err
	}
	c.key, c.prev = key, head.Prev
	if before != nil && before.prev != "" && before.prev != key {
		// A failed delete only leaves garbage.
		_ = l.bucket.Delete(attempt, before.prev)
	}
	return nil
}

// Checkpoint returns the checkpoint that the head of a conversation names, or nil if there is none. A
// [*CorruptError] means that it cannot be used and the log must be folded instead. Any other error is
// the bucket's.
func (l *Logs) Checkpoint(ctx context.Context, conv conversation.Key) (*Checkpoint, error) {
	if err := validConv(conv); err != nil {
		return nil, fmt.Errorf("get checkpoint: %w", err)
	}
	key := HeadKey(conv)
	head, err := readDecoded(ctx, l.retry.reads(l.bucket, key), func(data []byte) (head headObject, err error) {
		err = json.Unmarshal(data, &head)
		if err == nil && (head.Version != SchemaVersion || head.Prev != "" && !strings.HasPrefix(head.Prev, folder(conv)+"ckpt/")) {
			err = fmt.Errorf("head of version %d names %q", head.Version, head.Prev)
		}
		if err != nil {
			err = &CorruptError{Conv: conv, Key: key, Err: err}
		}
		return head, err
	})
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, nil
	case IsCorrupt(err):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("get checkpoint: %w", err)
	}
	key = CheckpointKey(conv, head.Seq, head.Digest)
	data, err := l.getNamed(ctx, conv, key, head.Digest)
	if err != nil {
		return nil, fmt.Errorf("get checkpoint: %w", err)
	}
	c, err := l.decodeCheckpoint(data)
	if err == nil && c.At.Seq != head.Seq {
		err = fmt.Errorf("object is of batch %d", c.At.Seq)
	}
	if err != nil {
		return nil, &CorruptError{Conv: conv, Key: key, Seq: head.Seq, Err: err}
	}
	c.key, c.prev = key, head.Prev
	return c, nil
}
