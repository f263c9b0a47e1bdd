package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage/segment"
)

// segmentReads bounds how often a lookup is retried because the segment found was merged concurrently.
const segmentReads = 4

// sizes are the size parameters of segments. Tests make them small.
type sizes struct {
	whole  int64 // Up to this size a segment is read whole, without reading its index first.
	tail   int64 // Bytes read at the end of a larger segment for its index.
	frames int64 // Approximate bytes of frames per read.
	merged int64 // From this size on a segment is not merged.
	width  int   // Number of segments of one size class that make one of the next, and the ratio of the classes.
}

func defaultSizes() sizes {
	return sizes{whole: 256 << 10, tail: 64 << 10, frames: 1 << 20, merged: 8 << 20, width: 16}
}

// SegmentRef names a stored segment.
type SegmentRef struct {
	First, Last int64 // First and last batch, inclusive.
	Size        int64 // Size of the object in bytes.
}

// SegmentKey returns the object key of the segment that holds the batches first to last. The key
// begins with last, so one LIST finds the segment of a batch.
func SegmentKey(conv conversation.Key, first, last int64) string {
	return segmentPrefix(conv) + number(last) + "-" + number(first)
}

func segmentPrefix(conv conversation.Key) string { return folder(conv) + "seg/" }

// parseSegment parses a key of SegmentKey without its prefix.
func parseSegment(name string) (first, last int64, err error) {
	a, b, _ := strings.Cut(name, "-")
	if last, err = parseNumber(a); err == nil {
		first, err = parseNumber(b)
	}
	if err == nil && first > last {
		err = fmt.Errorf("ends at %d and begins at %d", last, first)
	}
	return first, last, err
}

// Segments returns the segments of a conversation that end at or above a batch, ordered by their last
// batches. They may overlap.
func (l *Logs) Segments(ctx context.Context, conv conversation.Key, from int64) ([]SegmentRef, error) {
	if err := validAfter(conv, from); err != nil {
		return nil, fmt.Errorf("list segments of %s: %w", conv, err)
	}
	var refs []SegmentRef
	err := l.eachSegment(ctx, conv, from, l.pageKeys, func(ref SegmentRef) bool {
		refs = append(refs, ref)
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("list segments of %s: %w", conv, err)
	}
	return refs, nil
}

// eachSegment visits the segments that end at or above a batch, limit per LIST, until visit returns
// false.
func (l *Logs) eachSegment(ctx context.Context, conv conversation.Key, from int64, limit int, visit func(SegmentRef) bool) error {
	prefix := segmentPrefix(conv)
	q := ListQuery{Prefix: prefix, Limit: min(limit, l.pageKeys)}
	if from > 0 {
		q.After = prefix + number(from) // It sorts before the segments that end at from.
	}
	err := listAll(ctx, l.bucket, l.retry, q, func(page []ListedKey) error {
		for _, k := range page {
			first, last, err := parseSegment(strings.TrimPrefix(k.Key, prefix))
			if err != nil {
				return &CorruptError{Conv: conv, Key: k.Key, Seq: -1, Err: err}
			}
			if !visit(SegmentRef{First: first, Last: last, Size: k.Size}) {
				return errStopped
			}
		}
		return nil
	})
	if errors.Is(err, errStopped) {
		return nil
	}
	return err
}

// segmentsOf returns a few segments that hold a batch, because one may replace another that is
// corrupt. It takes one LIST unless parts of a merge are being deleted.
func (l *Logs) segmentsOf(ctx context.Context, conv conversation.Key, seq int64) ([]SegmentRef, error) {
	const enough, scanned = 3, 6
	var refs []SegmentRef
	seen := 0
	err := l.eachSegment(ctx, conv, max(seq, 0), scanned, func(ref SegmentRef) bool {
		if seen++; ref.First <= seq {
			refs = append(refs, ref)
		}
		return len(refs) < enough && (len(refs) == 0 || seen < scanned)
	})
	return refs, err
}

// fromSegments visits the batches in segments after a position, up to last. It returns the position of
// the last batch visited, or at if no segment holds the next one.
func (l *Logs) fromSegments(ctx context.Context, conv conversation.Key, at Position, last int64, check bool, visit func(Batch) error) (Position, error) {
	for tries := 0; at.Seq < last; {
		refs, err := l.segmentsOf(ctx, conv, at.Seq+1)
		if err != nil || len(refs) == 0 {
			return at, err
		}
		before := at
		for _, ref := range refs {
			err = l.readSegment(ctx, conv, ref, at.Seq+1, last, func(b Batch) error {
				if check {
					if err := follows(SegmentKey(conv, ref.First, ref.Last), conv, b, at); err != nil {
						return err
					}
				}
				at, check = b.Position(), true
				return visit(b)
			})
			if err == nil || at != before || !IsCorrupt(err) && !replaced(err) {
				break
			}
		}
		switch {
		case err == nil || at != before && (IsCorrupt(err) || replaced(err)):
			tries = 0
		case replaced(err) && tries < segmentReads:
			tries++
		default:
			return at, err
		}
	}
	return at, nil
}

// errReplaced reports that a listed segment is gone because a larger one replaced it. It is not
// corruption.
var errReplaced = errors.New("segment was replaced")

func replaced(err error) bool { return errors.Is(err, errReplaced) }

// replacedAt returns the retryable error for a replaced segment.
func replacedAt(key string) error {
	return &Error{Op: "get", Key: key, Kind: ErrUnavailable, Err: errReplaced}
}

// readSegment opens a segment and reads it.
func (l *Logs) readSegment(ctx context.Context, conv conversation.Key, ref SegmentRef, from, to int64, visit func(Batch) error) error {
	s, err := l.openSegment(ctx, conv, ref)
	if err != nil {
		return err
	}
	return s.read(ctx, from, to, visit)
}

// read visits the batches from to to, inclusive, as far as the segment holds them.
func (s *segmentReader) read(ctx context.Context, from, to int64, visit func(Batch) error) error {
	to = min(to, s.ref.Last)
	frame, offset := s.index.Find(from)
	for frame < len(s.index.Frames) && s.index.Frames[frame].Seq <= to {
		n, size := s.run(frame, to)
		data := s.whole
		if data == nil {
			var err error
			if data, err = s.bytes(ctx, offset, size, func([]byte) error { return nil }); err != nil {
				return err
			}
		} else {
			data = data[offset : offset+size]
		}
		for ; n > 0; n-- {
			end := s.index.Frames[frame].Size
			batches, err := s.batches(frame, data[:end])
			if err != nil {
				_, err = s.bytes(ctx, offset, end, func(data []byte) (err error) {
					batches, err = s.batches(frame, data)
					return err
				})
			}
			if err == nil {
				err = s.visit(batches, from, to, visit)
			}
			if err != nil {
				return err
			}
			data, offset = data[end:], offset+end
			frame++
		}
	}
	return nil
}

// segmentReader reads a stored segment after its index.
type segmentReader struct {
	logs  *Logs
	conv  conversation.Key
	ref   SegmentRef
	index *segment.Index
	whole []byte // nil if read in parts
	prev  *Hash  // hash at the end of the frame visited last
}

// openSegment reads the index of a segment.
func (l *Logs) openSegment(ctx context.Context, conv conversation.Key, ref SegmentRef) (*segmentReader, error) {
	s := &segmentReader{logs: l, conv: conv, ref: ref}
	need := ref.Size
	if need > l.sizes.whole {
		need = min(need, l.sizes.tail)
	}
	for {
		var short *segment.ShortError
		tail, err := s.bytes(ctx, ref.Size-need, need, func(tail []byte) (err error) {
			s.index, err = l.segments.Index(tail, ref.Size)
			if errors.As(err, &short) {
				return nil
			}
			if err == nil && (s.index.First != ref.First || s.index.Last != ref.Last) {
				err = fmt.Errorf("index has batches %d to %d", s.index.First, s.index.Last)
			}
			return err
		})
		switch {
		case err != nil:
			return nil, err
		case short != nil:
			need = short.Need
			continue
		case need == ref.Size:
			s.whole = tail
		}
		return s, nil
	}
}

func (s *segmentReader) key() string { return SegmentKey(s.conv, s.ref.First, s.ref.Last) }

func (s *segmentReader) corrupt(err error) error {
	return &CorruptError{Conv: s.conv, Key: s.key(), Seq: s.ref.First, Err: err}
}

// bytes reads a part of the object, and reads again if check rejects it.
func (s *segmentReader) bytes(ctx context.Context, offset, size int64, check func([]byte) error) ([]byte, error) {
	o := s.logs.retry.reads(s.logs.bucket, s.key())
	if o.size = size; size != s.ref.Size {
		o.get = func(ctx context.Context) ([]byte, error) { return s.logs.bucket.GetRange(ctx, s.key(), offset, size) }
	}
	data, err := readDecoded(ctx, o, func(data []byte) ([]byte, error) {
		err := fmt.Errorf("has %d bytes from %d on, want %d", len(data), offset, size)
		if int64(len(data)) == size {
			err = check(data)
		}
		if err != nil {
			return nil, s.corrupt(err)
		}
		return data, nil
	})
	if errors.Is(err, ErrNotFound) {
		err = replacedAt(s.key())
	}
	return data, err
}

// run returns the number of frames to read at once from frame on, and their bytes.
func (s *segmentReader) run(frame int, to int64) (n int, size int64) {
	for _, f := range s.index.Frames[frame:] {
		if f.Seq > to || n > 0 && size+f.Size > s.logs.sizes.frames {
			break
		}
		n, size = n+1, size+f.Size
	}
	return n, size
}

// batches decodes a frame.
func (s *segmentReader) batches(frame int, data []byte) ([]Batch, error) {
	batches, err := s.logs.segments.Frame(s.index, frame, data)
	if err == nil && s.prev != nil && batches[0].Prev != *s.prev {
		err = fmt.Errorf("frame %d does not follow the one before", frame)
	}
	return batches, err
}

// visit visits the batches of a frame that lie in the range.
func (s *segmentReader) visit(batches []Batch, from, to int64, visit func(Batch) error) error {
	s.prev = &batches[len(batches)-1].Hash
	for _, b := range batches {
		if b.Seq < from || b.Seq > to {
			continue
		}
		if err := visit(b); err != nil {
			return err
		}
	}
	return nil
}
