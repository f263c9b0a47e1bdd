package inspect

import (
	"context"
	"errors"
	"fmt"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/segment"
)

const (
	// indexTail is the number of bytes at the end of a segment that are read for its index.
	indexTail = 64 << 10
	// framesAtOnce is the approximate number of bytes of frames per read.
	framesAtOnce = 1 << 20
)

// segmentWalk reads a segment sequentially.
type segmentWalk struct {
	bucket storage.Bucket
	codec  *segment.Codec
	key    string
	ref    storage.SegmentRef

	index   *segment.Index // nil until opened
	frame   int            // next frame to decode
	offset  int64          // offset of the next frame to read, in bytes
	data    []byte         // frames that are read but not decoded
	batches []storage.Batch
	prev    *segment.Hash // hash at the end of the last frame

	bad   error // why it is invalid
	at    int64 // batch at which that showed
	clash bool  // it is readable but not part of the log
	gone  bool  // it was deleted after the listing
}

func newSegmentWalk(b storage.Bucket, codec *segment.Codec, conv conversation.Key, ref storage.SegmentRef) *segmentWalk {
	return &segmentWalk{bucket: b, codec: codec, ref: ref, key: storage.SegmentKey(conv, ref.First, ref.Last)}
}

// open reads the index.
func (s *segmentWalk) open(ctx context.Context) error {
	need := min(s.ref.Size, indexTail)
	for {
		tail, err := s.bytes(ctx, s.ref.Size-need, need)
		if err != nil {
			return err
		}
		x, err := s.codec.Index(tail, s.ref.Size)
		var short *segment.ShortError
		switch {
		case errors.As(err, &short):
			need = short.Need
			continue
		case err != nil:
			return err
		}
		s.index = x // Keep the index of another segment too, so that it can be printed.
		if x.First != s.ref.First || x.Last != s.ref.Last {
			return fmt.Errorf("index has batches %d to %d", x.First, x.Last)
		}
		return nil
	}
}

func (s *segmentWalk) bytes(ctx context.Context, offset, size int64) ([]byte, error) {
	switch {
	case size == 0:
		return nil, errors.New("segment is empty")
	case size == s.ref.Size:
		return s.bucket.Get(ctx, s.key)
	default:
		return s.bucket.GetRange(ctx, s.key, offset, size)
	}
}

// read returns the next batch. After the last one it returns no batch.
func (s *segmentWalk) read(ctx context.Context) (storage.Batch, error) {
	if s.index == nil {
		if err := s.open(ctx); err != nil {
			return storage.Batch{}, err
		}
	}
	if len(s.batches) == 0 {
		if err := s.decode(ctx); err != nil {
			return storage.Batch{}, err
		}
	}
	b := s.batches[0]
	s.batches = s.batches[1:]
	return b, nil
}

// skip skips the unreadable part and returns the next batch: the first of the next frame, if the index
// is readable, or the one after the segment.
func (s *segmentWalk) skip() int64 {
	x := s.index
	if x == nil || x.First != s.ref.First || x.Last != s.ref.Last || s.frame+1 >= len(x.Frames) {
		return s.ref.Last + 1
	}
	s.frame++
	next := x.Frames[s.frame].Seq
	_, s.offset = x.Find(next)
	s.data, s.prev = nil, nil
	return next
}

// decode decodes the next frame.
func (s *segmentWalk) decode(ctx context.Context) error {
	frames := s.index.Frames[s.frame:]
	if len(frames) == 0 {
		return errors.New("segment has no more batches")
	}
	if len(s.data) == 0 {
		size := frames[0].Size
		for _, f := range frames[1:] {
			if size+f.Size > framesAtOnce {
				break
			}
			size += f.Size
		}
		data, err := s.bytes(ctx, s.offset, size)
		if err != nil {
			return err
		}
		if int64(len(data)) != size {
			return fmt.Errorf("has %d bytes from %d on, want %d", len(data), s.offset, size)
		}
		s.data, s.offset = data, s.offset+size
	}
	size := frames[0].Size
	batches, err := s.codec.Frame(s.index, s.frame, s.data[:size])
	if err != nil {
		return err
	}
	if s.prev != nil && batches[0].Prev != *s.prev {
		return fmt.Errorf("frame %d does not follow the one before", s.frame)
	}
	s.prev = &batches[len(batches)-1].Hash
	s.batches, s.data, s.frame = batches, s.data[size:], s.frame+1
	return nil
}
