package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage/segment"
)

// segmentReads bounds how often a place is looked up anew because the segment that was
// found has been merged into another one meanwhile.
const segmentReads = 4

// sizes are what segments are made and read by. Tests make them small.
type sizes struct {
	whole  int64 // Up to how many bytes a segment is read at once instead of its index first.
	tail   int64 // How many bytes at the end of a larger one are read for its index.
	frames int64 // About how many bytes of frames are read at once.
	merged int64 // From which size on a segment is not merged any more.
	width  int   // How many segments of one size class make one of the next, and by how much the classes differ.
}

func defaultSizes() sizes {
	return sizes{whole: 256 << 10, tail: 64 << 10, frames: 1 << 20, merged: 8 << 20, width: 16}
}

// SegmentRef names a stored segment.
type SegmentRef struct {
	First, Last int64 // Its batches, both included.
	Size        int64 // Bytes of the object.
}

// SegmentKey returns the object key of the segment that holds the batches first to
// last. The last one comes first, so that one LIST finds who holds a batch.
func SegmentKey(conv conversation.Key, first, last int64) string {
	return segmentPrefix(conv) + number(last) + "-" + number(first)
}

func segmentPrefix(conv conversation.Key) string { return folder(conv) + "seg/" }

// parseSegment reads a key as SegmentKey returns it, without its prefix.
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

// Segments returns the segments of a conversation that end at or above a batch, in the
// order of their last batches. They may overlap.
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

// eachSegment visits the segments that end at or above a batch, so many for each LIST,
// until visit returns false.
func (l *Logs) eachSegment(ctx context.Context, conv conversation.Key, from int64, limit int, visit func(SegmentRef) bool) error {
	prefix := segmentPrefix(conv)
	q := ListQuery{Prefix: prefix, Limit: min(limit, l.pageKeys)}
	if from > 0 {
		q.After = prefix + number(from) // It sorts before its own segments.
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

// segmentsOf returns segments that hold a batch, at most a few: damage of one may be made
// good by another. It takes one LIST, but where the parts of a merge are being deleted.
func (l *Logs) segmentsOf(ctx context.Context, conv conversation.Key, seq int64) ([]SegmentRef, error) {
	const enough, looked = 3, 6
	var refs []SegmentRef
	seen := 0
	err := l.eachSegment(ctx, conv, max(seq, 0), looked, func(ref SegmentRef) bool {
		if seen++; ref.First <= seq {
			refs = append(refs, ref)
		}
		return len(refs) < enough && (len(refs) == 0 || seen < looked)
	})
	return refs, err
}

// fromSegments visits the batches after a position that segments hold, up to a last
// one, and returns the position of the last that was visited: the given one if no
// segment holds the next.
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

// errReplaced says that a segment that was listed is not there any more: no damage, a
// larger one has its batches.
var errReplaced = errors.New("segment was replaced meanwhile")

func replaced(err error) bool { return errors.Is(err, errReplaced) }

// replacedAt returns the error for a key: who asks again may have an answer.
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

// read visits the batches from one to another, both included, as far as the segment
// holds them.
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

// segmentReader is a stored segment whose index was read.
type segmentReader struct {
	logs  *Logs
	conv  conversation.Key
	ref   SegmentRef
	index *segment.Index
	whole []byte // nil if it is read in parts
	prev  *Hash  // what the frame visited last ends with
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
				err = fmt.Errorf("index says batches %d to %d", s.index.First, s.index.Last)
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

// bytes reads a part of the object, and again what check does not accept.
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

// run returns how many frames from one on are to be read at once, and their bytes.
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

// visit visits the wanted batches of a frame.
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
