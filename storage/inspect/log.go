package inspect

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/segment"
)

const (
	// keptClaims is the maximum number of claims in a checkpoint.
	keptClaims = 1024
	// aheadBytes bounds the prefetched objects of one log, in bytes.
	aheadBytes = 16 << 20
)

// logObject is a batch object.
type logObject struct {
	seq   int64
	key   string
	batch storage.Batch
	bad   error // why it is unreadable
	gone  bool  // it was deleted after the listing
}

// mark describes the log at a batch.
type mark struct {
	hash    storage.Hash
	claims  []storage.Claim // the newest, in order
	writers int64
}

// chain reads a log from batch 0 on, object by object and without the reader of package storage: all
// segments and all batch objects in parallel.
type chain struct {
	*inspection
	segments []*segmentWalk // not begun yet, in order
	open     []*segmentWalk // holding the next batch
	done     []*segmentWalk
	pull     func() (logObject, error, bool)
	next     *logObject // nil after the last one

	at      storage.Position
	known   bool // at.Hash is known: the batch was readable
	covered bool // batch at.Seq is in a segment
	claims  []storage.Claim
	writers int64
	wanted  map[int64]*mark // batches to record
	corrupt bool
}

// follow reads the log. Afterwards at is its end.
func (c *chain) follow(ctx context.Context) error {
	c.at, c.known = storage.Start(), true
	if err := c.listSegments(ctx); err != nil {
		return err
	}
	pull, stop := iter.Pull2(c.objects(ctx))
	defer stop()
	c.pull = pull
	if err := c.advance(); err != nil {
		return err
	}
	for {
		c.begin()
		seq := c.at.Seq + 1
		if len(c.open) == 0 && (c.next == nil || c.next.seq > seq) {
			if !c.gap(seq) {
				break
			}
			continue
		}
		if err := c.batch(ctx, seq); err != nil {
			return err
		}
	}
	if c.covered {
		c.corrupt = true
		c.find(Corruption, KindMissingTail, storage.LogKey(c.conv, c.at.Seq+1), c.at.Seq+1, fmt.Sprintf(
			"the log ends with batch %d of a segment; segments hold only batches that others follow, so batches are lost; "+
				"restore the log folder from a copy", c.at.Seq))
	}
	c.checkAll()
	return nil
}

// listSegments lists the segments in the order of their first batches.
func (c *chain) listSegments(ctx context.Context) error {
	codec := segment.NewCodec(c.opts.MaxBatchBytes, 1)
	prefix := storage.FolderOf(c.conv) + "seg/"
	err := eachKey(ctx, c.bucket, prefix, func(k storage.ListedKey) error {
		name, err := storage.ParseKey(k.Key)
		if err != nil {
			c.find(Corruption, KindForeignKey, k.Key, -1, "it is not a segment, and readers of the log fail over it; move it elsewhere")
			return nil
		}
		c.sum.Segments++
		c.segments = append(c.segments, newSegmentWalk(c.bucket, codec, c.conv,
			storage.SegmentRef{First: name.First, Last: name.Last, Size: k.Size}))
		return nil
	})
	// Of segments that begin together, the longest counts.
	slices.SortStableFunc(c.segments, func(a, b *segmentWalk) int {
		if a.ref.First != b.ref.First {
			return int(min(max(a.ref.First-b.ref.First, -1), 1))
		}
		return int(min(max(b.ref.Last-a.ref.Last, -1), 1))
	})
	return err
}

// advance reads the next batch object.
func (c *chain) advance() error {
	o, err, ok := c.pull()
	if err != nil {
		return err
	}
	c.next = nil
	if ok {
		c.next = &o
	}
	return nil
}

// begin opens the segments that hold the next batch and closes those that have ended.
func (c *chain) begin() {
	seq := c.at.Seq + 1
	c.open = slices.DeleteFunc(c.open, func(s *segmentWalk) bool {
		over := s.bad != nil || s.gone || s.ref.Last < seq
		if over {
			c.done = append(c.done, s)
		}
		return over
	})
	for len(c.segments) > 0 && c.segments[0].ref.First <= seq {
		c.open = append(c.open, c.segments[0])
		c.segments = c.segments[1:]
	}
}

// gap continues after a gap, and returns false at the end of the log.
func (c *chain) gap(seq int64) bool {
	next := int64(-1)
	if c.next != nil {
		next = c.next.seq
	}
	if len(c.segments) > 0 && (next < 0 || c.segments[0].ref.First < next) {
		next = c.segments[0].ref.First
	}
	if next < 0 {
		return false
	}
	c.corrupt = true
	c.find(Corruption, KindGap, storage.LogKey(c.conv, seq), seq, fmt.Sprintf(
		"batches %d to %d are missing in the log and in segments; restore them from a copy", seq, next-1))
	c.at, c.known, c.covered = storage.Position{Seq: next - 1}, false, false
	return true
}

// batch determines the batch of a number and checks all objects that hold it.
func (c *chain) batch(ctx context.Context, seq int64) error {
	var object *logObject
	if c.next != nil && c.next.seq == seq {
		object = c.next
		if err := c.advance(); err != nil {
			return err
		}
		if object.gone {
			object = nil
		}
	}
	held, err := c.fromSegments(ctx, seq)
	if err != nil {
		return err
	}
	switch {
	case held != nil:
		c.take(*held, true)
		c.compare(object, *held)
	case object == nil:
		c.missing(seq)
	case object.bad != nil:
		c.corrupt = true
		c.find(Corruption, KindUnreadableBatch, object.key, seq, fmt.Sprintf(
			"batch %d is unreadable, and no segment holds it: %v; restore the object from a copy", seq, object.bad))
		c.at, c.known, c.covered = storage.Position{Seq: seq}, false, false
	default:
		if !c.fits(object.batch) {
			c.corrupt = true
			c.find(Corruption, KindChain, object.key, seq, fmt.Sprintf(
				"batch %d follows hash %s, but batch %d has %s: it belongs to another log; restore the object from a copy",
				seq, object.batch.Prev, c.at.Seq, c.at.Hash))
		}
		c.take(object.batch, false)
	}
	return nil
}

// missing skips a batch that only unreadable segments hold.
func (c *chain) missing(seq int64) {
	next := seq
	if c.next != nil {
		next = c.next.seq - 1
	} else {
		for _, s := range c.open {
			next = max(next, s.ref.Last)
		}
	}
	for _, s := range c.segments {
		next = min(next, s.ref.First-1)
	}
	next = max(next, seq)
	c.corrupt = true
	c.find(Corruption, KindGap, storage.LogKey(c.conv, seq), seq, fmt.Sprintf(
		"batches %d to %d are missing because their segments are unreadable; restore those from a copy", seq, next))
	c.at, c.known, c.covered = storage.Position{Seq: next}, false, false
}

func (c *chain) fits(b storage.Batch) bool { return !c.known || b.Prev == c.at.Hash }

// fromSegments reads the batch from all segments that hold it. It returns nil if none continues the
// log.
func (c *chain) fromSegments(ctx context.Context, seq int64) (*storage.Batch, error) {
	var held *storage.Batch
	for _, s := range c.open {
		if s.bad != nil || s.gone {
			continue
		}
		b, err := s.read(ctx)
		switch {
		case errors.Is(err, storage.ErrNotFound):
			s.gone = true
			continue
		case err != nil && (away(err) || ctx.Err() != nil):
			return nil, err
		case err != nil:
			s.bad, s.at = err, seq
			continue
		case !c.fits(b):
			s.bad = fmt.Errorf("batch %d follows hash %s, but batch %d has %s", seq, b.Prev, c.at.Seq, c.at.Hash)
			s.at, s.clash = seq, true
			continue
		case held != nil && b.Hash != held.Hash:
			s.bad, s.at, s.clash = fmt.Errorf("batch %d differs from another segment", seq), seq, true
			continue
		}
		held = &b
	}
	return held, nil
}

// take appends a batch to the log read so far.
func (c *chain) take(b storage.Batch, covered bool) {
	c.at, c.known, c.covered = b.Position(), true, covered
	c.sum.Batches++
	if b.First {
		c.writers++
		if c.claims = append(c.claims, storage.Claim{Seq: b.Seq, Nonce: b.Nonce}); len(c.claims) > 2*keptClaims {
			c.claims = slices.Clone(c.claims[keptClaims:])
		}
	}
	if m := c.wanted[b.Seq]; m != nil {
		*m = mark{b.Hash, slices.Clone(c.claims), c.writers}
	}
}

// compare checks a batch object against the same batch in a segment.
func (c *chain) compare(o *logObject, held storage.Batch) {
	key := storage.LogKey(c.conv, held.Seq)
	at := held.Position()
	switch {
	case o == nil && held.First:
		c.find(Corruption, KindMissingPin, key, held.Seq, fmt.Sprintf(
			"batch %d, the first of a writer, is missing in the log, where it keeps its number taken; "+
				"a segment has its content; restore the object from a copy", held.Seq))
	case o == nil:
	case o.bad != nil && held.First:
		c.find(Repairable, KindUnreadableBatch, key, held.Seq, fmt.Sprintf(
			"batch %d, the first of a writer, is unreadable: %v; repair writes it again from a segment", held.Seq, o.bad),
			step{key: key, batch: &at})
	case o.bad != nil:
		c.find(Repairable, KindUnreadableBatch, key, held.Seq, fmt.Sprintf(
			"batch %d is unreadable: %v; a segment holds it, and repair deletes the object", held.Seq, o.bad), step{key: key})
	case o.batch.Hash == held.Hash && held.First:
		c.sum.Pins++
	case o.batch.Hash == held.Hash:
		c.sum.Leftovers++
	case o.batch.First && !held.First:
		c.find(Note, KindOrphanBatch, key, held.Seq, fmt.Sprintf(
			"late claim of writer %s: a segment holds another batch %d; the claim is never read, and repair deletes it",
			o.batch.Nonce, held.Seq), step{key: key})
	default:
		c.corrupt = true
		c.find(Corruption, KindForeignBatch, key, held.Seq, fmt.Sprintf(
			"batch %d of writer %s differs from the one in a segment and is not a late claim; find its writer, and restore the object from a copy",
			held.Seq, o.batch.Nonce))
	}
}

// checkAll checks the segments: the fewest readable ones form a chain, and the others within it are not
// needed.
func (c *chain) checkAll() {
	c.done = append(c.done, c.open...)
	var good []*segmentWalk
	for _, s := range c.done {
		if s.bad == nil && !s.gone {
			good = append(good, s)
		}
	}
	slices.SortStableFunc(good, func(a, b *segmentWalk) int {
		if d := a.ref.First - b.ref.First; d != 0 {
			return int(min(max(d, -1), 1))
		}
		return int(min(max(b.ref.Last-a.ref.Last, -1), 1))
	})
	needed := cover(good)
	for _, s := range c.done {
		within := holds(needed, s.ref)
		switch {
		case s.gone || slices.Contains(needed, s):
		case s.bad == nil:
			c.find(Note, KindDuplicateSegment, s.key, s.ref.First, fmt.Sprintf(
				"other readable segments hold batches %d to %d too; the next compaction or repair deletes this one", s.ref.First, s.ref.Last), step{key: s.key})
		case within && !s.clash:
			c.find(Repairable, KindDuplicateSegment, s.key, s.ref.First, fmt.Sprintf(
				"it is unreadable at batch %d: %v; other segments hold all its batches, and repair deletes this one", s.at, s.bad), step{key: s.key})
		default:
			text := "other objects hold its batches unless a gap is reported"
			if s.clash {
				text = "it belongs to another log"
			}
			c.corrupt = c.corrupt || s.clash
			c.find(Corruption, KindUnreadableSegment, s.key, s.at, fmt.Sprintf(
				"segment of batches %d to %d is unusable from batch %d on: %v; %s; restore the object from a copy",
				s.ref.First, s.ref.Last, s.at, s.bad, text))
		}
	}
}

// cover returns the fewest segments that hold the batches of all.
func cover(sorted []*segmentWalk) []*segmentWalk {
	var out []*segmentWalk
	end := int64(-1)
	for i := 0; i < len(sorted); {
		best := sorted[i]
		for ; i < len(sorted) && (sorted[i].ref.First <= end+1 || sorted[i] == best); i++ {
			if sorted[i].ref.Last > best.ref.Last {
				best = sorted[i]
			}
		}
		if best.ref.Last > end {
			out = append(out, best)
			end = best.ref.Last
		}
	}
	return out
}

// holds reports whether segments in order hold all batches of another one.
func holds(in []*segmentWalk, ref storage.SegmentRef) bool {
	next := ref.First
	for _, s := range in {
		if s.ref.First <= next && next <= s.ref.Last {
			next = s.ref.Last + 1
		}
	}
	return next > ref.Last
}

// objects yields the batch objects in order and prefetches several.
func (c *chain) objects(ctx context.Context) iter.Seq2[logObject, error] {
	return func(yield func(logObject, error) bool) {
		var wg sync.WaitGroup
		defer wg.Wait()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		type fetched struct {
			object logObject
			data   []byte // decoded in turn, because a small object may decompress to much more
			err    error
		}
		type ahead struct {
			slot chan fetched
			size int64
		}
		var window []ahead
		held := int64(0)
		first := func() bool {
			f := <-window[0].slot
			held -= window[0].size
			window = window[1:]
			if f.data != nil {
				c.decode(&f.object, f.data)
			}
			return yield(f.object, f.err) && f.err == nil
		}
		err := eachKey(ctx, c.bucket, storage.FolderOf(c.conv)+"log/", func(k storage.ListedKey) error {
			name, err := storage.ParseKey(k.Key)
			if err != nil {
				c.find(Corruption, KindForeignKey, k.Key, -1, "it is not a batch, and readers of the log fail over it; move it elsewhere")
				return nil
			}
			c.sum.Objects++
			slot := make(chan fetched, 1)
			window, held = append(window, ahead{slot, k.Size}), held+k.Size
			wg.Go(func() {
				o, data, err := c.fetch(ctx, name.First, k)
				slot <- fetched{o, data, err}
			})
			for len(window) >= c.opts.Prefetch || held > aheadBytes && len(window) > 1 {
				if !first() {
					return errStop
				}
			}
			return nil
		})
		for err == nil && len(window) > 0 {
			if !first() {
				return
			}
		}
		if err != nil && !errors.Is(err, errStop) {
			yield(logObject{}, err)
		}
	}
}

// fetch reads one batch object. The error is the bucket's.
func (c *chain) fetch(ctx context.Context, seq int64, k storage.ListedKey) (logObject, []byte, error) {
	o := logObject{seq: seq, key: k.Key}
	if k.Size > c.opts.MaxBatchBytes+objectOverhead {
		o.bad = fmt.Errorf("object has %d bytes", k.Size)
		return o, nil, nil
	}
	data, err := c.bucket.Get(ctx, k.Key)
	if errors.Is(err, storage.ErrNotFound) {
		o.gone = true
		return o, nil, nil
	}
	return o, data, err
}

func (c *chain) decode(o *logObject, data []byte) {
	if o.batch, o.bad = c.logs.DecodeBatch(data); o.bad == nil && o.batch.Seq != o.seq {
		o.bad = fmt.Errorf("header names batch %d", o.batch.Seq)
	}
}
