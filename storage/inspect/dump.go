package inspect

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/segment"
)

// KeyError reports a key that is not a key of Parley.
type KeyError struct{ Key string }

// Error implements error.
func (e *KeyError) Error() string {
	var templates []string
	for _, t := range storage.KeyTemplates() {
		templates = append(templates, t.Template)
	}
	return fmt.Sprintf("%q is not an object key; keys are %s, with all digits", e.Key, strings.Join(templates, ", "))
}

// Dump writes the content of an object to w, as lines of JSON. The first line of an object describes
// it: its member "object" is the kind. Lines of records, states and pages follow unchanged. For an
// attachment only size and digest are printed.
//
// For a corrupt object, Dump writes the readable part and returns a [*storage.CorruptError]. Other
// errors are a [*KeyError], and the bucket's.
func Dump(ctx context.Context, b storage.Bucket, key string, w io.Writer) error {
	name, err := storage.ParseKey(key)
	if err != nil {
		return &KeyError{key}
	}
	d := &dumper{w: w, bucket: storage.Retried(b, storage.Retry{}), key: key, name: name}
	switch name.Kind {
	case storage.KindSegment:
		err = d.segment(ctx)
	case storage.KindAttachment:
		err = d.attachment(ctx)
	default:
		err = d.object(ctx)
	}
	switch {
	case err == nil:
		return nil
	case d.failed != nil:
		return fmt.Errorf("write dump: %w", d.failed)
	case away(err) || errors.Is(err, storage.ErrNotFound) || ctx.Err() != nil:
		return fmt.Errorf("dump %s: %w", key, err)
	}
	return &storage.CorruptError{Conv: name.Conv, Key: key, Seq: name.First, Err: err}
}

// dumper prints one object.
type dumper struct {
	w      io.Writer
	bucket storage.Bucket
	key    string
	name   storage.ObjectName
	failed error // error of w
}

func (d *dumper) write(b []byte) error {
	_, err := d.w.Write(b)
	if err != nil {
		d.failed = err
	}
	return err
}

// value writes one line of JSON.
func (d *dumper) value(v any) error {
	line, err := conversation.EncodeJSON(v)
	if err != nil {
		return err
	}
	return d.write(append(line, '\n'))
}

// textLine is the printed form of a line that is not JSON.
type textLine struct {
	Object string `json:"object"`
	Text   string `json:"text"`
}

// lines writes lines unchanged, and those that are not JSON as text.
func (d *dumper) lines(lines []byte) error {
	for len(lines) > 0 {
		line, rest, _ := bytes.Cut(lines, []byte("\n"))
		lines = rest
		var err error
		if json.Valid(line) {
			if err = d.write(line); err == nil {
				err = d.write([]byte("\n"))
			}
		} else {
			err = d.value(textLine{"line", string(line)})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// batchLine is the printed form of a batch without its records.
type batchLine struct {
	Object  storage.ObjectKind `json:"object"`
	Key     string             `json:"key,omitempty"`
	Bytes   int                `json:"bytes,omitempty"` // Size of the object.
	Decoded int                `json:"decoded"`         // Size of the records.
	Records int                `json:"records"`
	storage.Header
	Hash storage.Hash `json:"hash"`
}

func (d *dumper) batch(b storage.Batch, line batchLine) error {
	line.Header, line.Hash = b.Header, b.Hash
	line.Decoded, line.Records = len(b.Lines), bytes.Count(b.Lines, []byte("\n"))
	if err := d.value(line); err != nil {
		return err
	}
	return d.lines(b.Lines)
}

// objectLine is the printed form of any other object.
type objectLine struct {
	Object  storage.ObjectKind `json:"object"`
	Key     string             `json:"key"`
	Bytes   int64              `json:"bytes"`
	Decoded int                `json:"decoded,omitempty"`
	SHA256  string             `json:"sha256,omitempty"`
	Value   any                `json:"value,omitempty"`
}

// object prints an object that is read as a whole.
func (d *dumper) object(ctx context.Context) error {
	data, err := d.read(ctx)
	if err != nil {
		return err
	}
	line := objectLine{Object: d.name.Kind, Key: d.key, Bytes: int64(len(data))}
	switch d.name.Kind {
	case storage.KindBatch:
		return d.logObject(data)
	case storage.KindCheckpoint, storage.KindPage:
		sum := sha256.Sum256(data)
		line.SHA256 = hex.EncodeToString(sum[:])
		return d.named(data, line)
	case storage.KindJournal:
		return d.journal(data, line)
	case storage.KindExport:
		return d.export(data, line)
	case storage.KindHead:
		_, err = storage.DecodeHead(d.name.Conv, data)
	case storage.KindEpoch:
		var e storage.Epoch
		if e, err = storage.DecodeEpoch(data); err == nil && e.N != d.name.First {
			err = fmt.Errorf("object names epoch %d", e.N)
		}
	case storage.KindHeartbeat:
		var h storage.Heartbeat
		if h, err = storage.DecodeHeartbeat(data); err == nil && h.Member != d.name.Member {
			err = fmt.Errorf("object names member %s", h.Member)
		}
	case storage.KindTimer:
		var t storage.Timer
		if t, err = storage.DecodeTimer(data); err == nil && storage.TimerKey(t) != d.key {
			err = fmt.Errorf("object names conversation %s, batch %d", t.Conv, t.Seq)
		}
	case storage.KindDeadLetter:
		var l storage.DeadLetter
		if l, err = storage.DecodeDeadLetter(data); err == nil && storage.DeadLetterKey(l) != d.key {
			err = fmt.Errorf("object names post %s of conversation %s, batch %d", l.Post, l.Conv, l.Seq)
		}
	case storage.KindQuarantine:
		var a storage.Quarantine
		if a, err = storage.DecodeQuarantine(data); err == nil && a.Conv != d.name.Conv {
			err = fmt.Errorf("object names conversation %s", a.Conv)
		}
	case storage.KindIndex:
		var e storage.IndexEntry
		if e, err = storage.DecodeIndex(data); err == nil && storage.IndexKey(e) != d.key {
			err = fmt.Errorf("object names conversation %q of agent %q on %s", e.Address.ID, e.Address.Agent, e.Day)
		}
	}
	return errors.Join(d.text(data, line), err)
}

// read returns the object, unless it is longer than any valid one.
func (d *dumper) read(ctx context.Context) ([]byte, error) {
	const limit = storage.DefaultMaxBytes + objectOverhead
	content, size, err := d.bucket.Open(ctx, d.key)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	if size > limit {
		return nil, fmt.Errorf("%d bytes exceed the limit of such objects", size)
	}
	return io.ReadAll(content)
}

// text prints an object that is stored as JSON, or its readable part.
func (d *dumper) text(data []byte, line objectLine) error {
	if json.Valid(data) {
		line.Value = json.RawMessage(data)
		if d.value(line) == nil {
			return d.failed
		}
		line.Value = nil // Nested deeper than the encoder accepts.
	}
	if err := d.value(line); err != nil || d.name.Kind == storage.KindProbe {
		return err // Omit the content of probes.
	}
	return errors.Join(d.lines(data), notJSON(data))
}

func notJSON(data []byte) error {
	if json.Valid(data) {
		return nil
	}
	return errors.New("not JSON")
}

// logObject prints a batch object.
func (d *dumper) logObject(data []byte) error {
	b, err := storage.DecodeBatch(data, 0)
	if err == nil {
		if b.Seq != d.name.First {
			err = fmt.Errorf("header names batch %d", b.Seq)
		}
		return errors.Join(d.batch(b, batchLine{Object: storage.KindBatch, Key: d.key, Bytes: len(data)}), err)
	}
	return errors.Join(d.content(data, objectLine{Object: storage.KindBatch, Key: d.key, Bytes: int64(len(data))}), err)
}

// content prints the lines of a frame, if it is one.
func (d *dumper) content(data []byte, line objectLine) error {
	lines, err := segment.NewFramer(storage.DefaultMaxBytes, 1).Decode(data)
	line.Decoded = len(lines)
	if werr := d.value(line); werr != nil {
		return werr
	}
	if err != nil {
		return err
	}
	return d.lines(lines)
}

// named prints a checkpoint or a page.
func (d *dumper) named(data []byte, line objectLine) error {
	err := d.content(data, line)
	if err != nil {
		return err
	}
	if line.SHA256[:32] != d.name.Digest {
		return fmt.Errorf("digest is %s", line.SHA256)
	}
	if d.name.Kind == storage.KindPage {
		return nil
	}
	c, err := storage.NewLogs(d.bucket, nil).DecodeCheckpoint(data)
	if err == nil && c.At.Seq != d.name.First {
		err = fmt.Errorf("object is of batch %d", c.At.Seq)
	}
	return err
}

func (d *dumper) journal(data []byte, line objectLine) error {
	j, err := storage.DecodeJournal(data)
	if err == nil && (j.Member != d.name.Member || j.N != d.name.First) {
		err = fmt.Errorf("header names journal %d of %s", j.N, j.Member)
	}
	return errors.Join(d.content(data, line), err)
}

func (d *dumper) export(data []byte, line objectLine) error {
	j, err := storage.DecodeExportJournal(data)
	if err == nil && (j.Member != d.name.Member || j.Shard != d.name.Shard || j.N != d.name.First) {
		err = fmt.Errorf("header names export journal %d of shard %d of %s", j.N, j.Shard, j.Member)
	}
	return errors.Join(d.content(data, line), err)
}

// segmentLine is the printed form of a segment without its batches.
type segmentLine struct {
	objectLine
	Index *segment.Index `json:"index,omitempty"`
}

// segment prints the index and every batch.
func (d *dumper) segment(ctx context.Context) error {
	content, size, err := d.bucket.Open(ctx, d.key)
	if err != nil {
		return err
	}
	if err := content.Close(); err != nil {
		return err
	}
	s := newSegmentWalk(d.bucket, segment.NewCodec(storage.DefaultMaxBytes, 1), d.name.Conv,
		storage.SegmentRef{First: d.name.First, Last: d.name.Last, Size: size})
	flaw := s.open(ctx)
	line := segmentLine{objectLine{Object: storage.KindSegment, Key: d.key, Bytes: size}, s.index}
	if err := d.value(line); err != nil || s.index == nil {
		return errors.Join(err, flaw)
	}
	for seq := s.index.First; seq <= s.index.Last; seq++ {
		b, err := s.read(ctx)
		if err != nil {
			return errors.Join(flaw, err)
		}
		if err := d.batch(b, batchLine{Object: storage.KindBatch}); err != nil {
			return err
		}
	}
	return flaw
}

// attachment prints the size and digest of an attachment.
func (d *dumper) attachment(ctx context.Context) error {
	content, size, err := d.bucket.Open(ctx, d.key)
	if err != nil {
		return err
	}
	defer content.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, content); err != nil {
		return err
	}
	got := hex.EncodeToString(sum.Sum(nil))
	if err := d.value(objectLine{Object: storage.KindAttachment, Key: d.key, Bytes: size, SHA256: got}); err != nil {
		return err
	}
	if got != d.name.Digest {
		return fmt.Errorf("digest is %s", got)
	}
	return nil
}
