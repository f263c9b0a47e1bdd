package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage/segment"
)

const (
	// maxSegmentBatches bounds the batches of one segment before merging, so that an interrupted
	// compaction of a long log keeps its progress.
	maxSegmentBatches = 1024
	// removedAtOnce is the concurrency of batch deletes.
	removedAtOnce = 16
)

// Compactor packs the batches of one conversation into segments and reports the objects that they
// replace. Any number of compactors may work on one log, on any view of it: all of them store the same
// history, and delete only objects that segments contain.
//
// Guarantees:
//
//  1. A segment holds only batches that continue the hash of the segment before it and that another
//     batch has continued (R6).
//  2. Garbage is only batches that a segment holds, and segments that a larger one contains. The
//     first batch of a writer (R3) and the highest of the log (R5) are never garbage.
//
// A Compactor belongs to one goroutine at a time. It caches the segments it knows.
type Compactor struct {
	logs    *Logs
	conv    conversation.Key
	refs    []SegmentRef // that no other contains, in order
	covered Position     // up to which they go
	known   bool         // refs and covered reflect the segments in the bucket
}

// Compactor returns a compactor of a conversation. It sends no request.
func (l *Logs) Compactor(conv conversation.Key) *Compactor {
	return &Compactor{logs: l, conv: conv, covered: Start()}
}

// Covered returns the number of the last batch known to be in a segment, -1 if none.
func (c *Compactor) Covered() int64 { return c.covered.Seq }

// Compact stores segments of the batches from the last covered one to upTo, if there are at least
// least of them. recent are the newest durable batches that the caller holds in memory, contiguous;
// Compact reads the batches between the segments and recent. It returns the keys to delete with
// [Logs.Remove] after a grace period for readers. After an error, garbage still holds the keys that
// are safe to delete.
func (c *Compactor) Compact(ctx context.Context, upTo int64, recent []Batch, least int) (garbage []string, err error) {
	if err := validAfter(c.conv, upTo); err != nil {
		return nil, fmt.Errorf("compact log of %s: %w", c.conv, err)
	}
	if upTo+1 < int64(least) {
		return nil, nil
	}
	for tries := 0; tries < segmentReads; tries++ {
		if garbage, err = c.compact(ctx, upTo, recent, least); err == nil {
			return garbage, nil
		}
		c.known = false
		// Another compactor has merged a segment; read the segments and all garbage again.
		if !replaced(err) {
			break
		}
	}
	return garbage, fmt.Errorf("compact log of %s: %w", c.conv, err)
}

func (c *Compactor) compact(ctx context.Context, upTo int64, recent []Batch, least int) (garbage []string, err error) {
	if !c.known {
		if garbage, err = c.refresh(ctx, upTo-int64(least)); err != nil || !c.known {
			return garbage, err
		}
	}
	if upTo-c.covered.Seq >= int64(max(least, 1)) {
		stored, err := c.store(ctx, upTo, recent)
		garbage = append(garbage, stored...)
		if err != nil {
			return garbage, err
		}
	}
	merged, err := c.merge(ctx)
	return append(garbage, merged...), err
}

// refresh reads the segments of the log and the garbage of earlier compactions. It stops early if the
// segments reach beyond limit.
func (c *Compactor) refresh(ctx context.Context, limit int64) (garbage []string, err error) {
	c.covered = Start()
	all, err := c.logs.Segments(ctx, c.conv, 0)
	if err != nil {
		return nil, err
	}
	c.refs = chainOf(all)
	if n := len(c.refs); n > 0 && c.refs[n-1].Last > limit {
		c.covered.Seq = c.refs[n-1].Last
		return nil, nil
	}
	if err := c.cover(ctx); err != nil {
		return nil, err
	}
	if len(c.refs) > 0 {
		if garbage, err = c.leftovers(ctx, all); err != nil {
			return nil, err
		}
	}
	c.known = true
	return garbage, nil
}

// cover finds the last batch that segments hold. It ignores a corrupt last segment: its batches may
// still exist and are compacted again.
func (c *Compactor) cover(ctx context.Context) error {
	for n := len(c.refs); n > 0; n = len(c.refs) {
		s, err := c.logs.openSegment(ctx, c.conv, c.refs[n-1])
		if err == nil {
			c.covered = Position{Seq: s.index.Last, Hash: s.index.Hash}
			return nil
		}
		if !IsCorrupt(err) {
			return err
		}
		c.refs = c.refs[:n-1]
	}
	return nil
}

// chainOf returns the fewest segments that cover a log from batch 0 on.
func chainOf(all []SegmentRef) (chain []SegmentRef) {
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, func(a, b SegmentRef) int { return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(b.Last, a.Last)) })
	for i := 0; i < len(sorted); {
		end := int64(-1)
		if n := len(chain); n > 0 {
			end = chain[n-1].Last
		}
		best := -1
		for ; i < len(sorted) && sorted[i].First <= end+1; i++ {
			if best < 0 || sorted[i].Last > sorted[best].Last {
				best = i
			}
		}
		if best < 0 || sorted[best].Last <= end {
			break
		}
		chain = append(chain, sorted[best])
	}
	return chain
}

// leftovers returns the keys that existing segments make deletable: batches that they hold, and
// segments that one of them contains. It reads each segment as a whole first, because deleting for a
// corrupt segment would lose data.
func (c *Compactor) leftovers(ctx context.Context, all []SegmentRef) ([]string, error) {
	seqs, err := c.stored(ctx)
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, ref := range c.refs {
		n, _ := slices.BinarySearch(seqs, ref.Last+1)
		own, err := c.replacedBy(ctx, ref, seqs[:n], all)
		if err != nil && !IsCorrupt(err) {
			return nil, err
		}
		keys, seqs = append(keys, own...), seqs[n:]
	}
	return keys, nil
}

// replacedBy returns the keys of the batches seqs and of the segments that ref contains. After an
// error it returns no keys.
func (c *Compactor) replacedBy(ctx context.Context, ref SegmentRef, seqs []int64, all []SegmentRef) (keys []string, err error) {
	for _, part := range slices.Backward(all) { // as in merge
		if part != ref && ref.First <= part.First && part.Last <= ref.Last {
			keys = append(keys, SegmentKey(c.conv, part.First, part.Last))
		}
	}
	if len(keys)+len(seqs) == 0 {
		return nil, nil
	}
	s, err := c.logs.openSegment(ctx, c.conv, ref)
	if err != nil {
		return nil, err
	}
	if keys = append(c.unpinned(seqs, s.index.Claims()), keys...); len(keys) == 0 {
		return nil, nil
	}
	if err := s.read(ctx, ref.First, ref.Last, func(Batch) error { return nil }); err != nil {
		return nil, err
	}
	return keys, nil
}

// stored lists the batches in the log up to the last covered one.
func (c *Compactor) stored(ctx context.Context) ([]int64, error) {
	var seqs []int64
	q := ListQuery{Prefix: logPrefix(c.conv), Limit: c.logs.pageKeys}
	err := listAll(ctx, c.logs.bucket, c.logs.retry, q, func(page []ListedKey) error {
		for _, k := range page {
			seq, err := seqOf(c.conv, q.Prefix, k.Key)
			if err != nil {
				return err
			}
			if seq > c.covered.Seq {
				return errStopped
			}
			seqs = append(seqs, seq)
		}
		return nil
	})
	if errors.Is(err, errStopped) {
		err = nil
	}
	return seqs, err
}

// unpinned returns the keys of the batches that are not claims (R3). Both lists ascend.
func (c *Compactor) unpinned(seqs, claims []int64) []string {
	var keys []string
	for _, seq := range seqs {
		if _, claim := slices.BinarySearch(claims, seq); !claim || !pinFirst() {
			keys = append(keys, LogKey(c.conv, seq))
		}
	}
	return keys
}

// store writes segments of the batches after the covered ones, up to upTo.
func (c *Compactor) store(ctx context.Context, upTo int64, recent []Batch) (garbage []string, err error) {
	b := c.logs.segments.Build()
	put := func() error {
		keys, err := c.put(ctx, b)
		garbage = append(garbage, keys...)
		b = c.logs.segments.Build()
		return err
	}
	var last *Batch // not known to have a successor (R5)
	err = c.each(ctx, recent, func(next Batch) error {
		if last != nil {
			if err := c.add(b, *last); err != nil {
				return err
			}
			if int64(b.Size()) >= c.logs.sizes.merged || last.Seq-c.covered.Seq >= maxSegmentBatches {
				if err := put(); err != nil {
					return err
				}
			}
		}
		if last = nil; next.Seq > upTo {
			return errStopped
		}
		last = &next
		return nil
	})
	if err != nil && !errors.Is(err, errStopped) {
		return garbage, err
	}
	if !keepHighest() && last != nil {
		if err := c.add(b, *last); err != nil {
			return garbage, err
		}
	}
	if b.Last() < 0 {
		return garbage, nil
	}
	return garbage, put()
}

// add adds a batch to the segment after the covered ones.
func (c *Compactor) add(b *segment.Builder, next Batch) error {
	if b.Last() < 0 && checkChain() {
		if err := follows(LogKey(c.conv, next.Seq), c.conv, next, c.covered); err != nil {
			return err
		}
	}
	return b.Add(next)
}

// each visits the batches after the covered ones: first those it reads from the log, then recent.
func (c *Compactor) each(ctx context.Context, recent []Batch, visit func(Batch) error) error {
	skip := 0
	for skip < len(recent) && recent[skip].Seq <= c.covered.Seq {
		skip++
	}
	recent = recent[skip:]
	if len(recent) == 0 || recent[0].Seq != c.covered.Seq+1 {
		for b, err := range c.logs.Batches(ctx, c.conv, c.covered) {
			if err != nil {
				return err
			}
			if len(recent) > 0 && b.Seq >= recent[0].Seq {
				break
			}
			if err := visit(b); err != nil {
				return err
			}
		}
	}
	for _, b := range recent {
		if err := visit(b); err != nil {
			return err
		}
	}
	return nil
}

// put stores a segment and returns the keys of the batches that it replaces.
func (c *Compactor) put(ctx context.Context, b *segment.Builder) ([]string, error) {
	ref, index, err := c.create(ctx, b)
	if err != nil {
		return nil, err
	}
	c.refs = append(c.refs, ref)
	c.covered = Position{Seq: index.Last, Hash: index.Hash}
	seqs := make([]int64, 0, index.Last-index.First+1)
	for seq := index.First; seq <= index.Last; seq++ {
		seqs = append(seqs, seq)
	}
	return c.unpinned(seqs, index.Claims()), nil
}

// create stores a segment. A segment that exists already must hold the same batches.
func (c *Compactor) create(ctx context.Context, b *segment.Builder) (SegmentRef, *segment.Index, error) {
	data, index, err := b.Finish()
	if err != nil {
		return SegmentRef{}, nil, err
	}
	ref := SegmentRef{First: index.First, Last: index.Last, Size: int64(len(data))}
	key := SegmentKey(c.conv, ref.First, ref.Last)
	err = createResolved(ctx, c.logs.bucket, c.logs.retry, key, func() Body { return Bytes(data) })
	if errors.Is(err, ErrExists) {
		ref, err = c.existing(ctx, ref, index.Hash)
	}
	return ref, index, err
}

// existing reads a segment that exists already, written by another compactor or by a request whose
// answer was lost. It may have another size, and batches are deleted because of it.
func (c *Compactor) existing(ctx context.Context, want SegmentRef, hash Hash) (SegmentRef, error) {
	refs, err := c.logs.Segments(ctx, c.conv, want.Last)
	if err != nil {
		return want, err
	}
	i := slices.IndexFunc(refs, func(r SegmentRef) bool { return r.First == want.First && r.Last == want.Last })
	if i < 0 {
		return want, replacedAt(SegmentKey(c.conv, want.First, want.Last))
	}
	var last Hash
	err = c.logs.readSegment(ctx, c.conv, refs[i], want.First, want.Last, func(b Batch) error {
		last = b.Hash
		return nil
	})
	if err == nil && last != hash {
		err = &CorruptError{Conv: c.conv, Key: SegmentKey(c.conv, want.First, want.Last), Seq: want.Last,
			Err: fmt.Errorf("last hash is %s, want %s of the log", last, hash)}
	}
	return refs[i], err
}

// merge joins consecutive segments of one size class into one, repeatedly, and returns the keys that
// it has replaced.
func (c *Compactor) merge(ctx context.Context) (garbage []string, err error) {
	for {
		from, to := c.mergeable()
		if from == to {
			return garbage, nil
		}
		parts := slices.Clone(c.refs[from:to])
		whole, err := c.join(ctx, parts)
		if err != nil {
			return garbage, err
		}
		c.refs = slices.Replace(c.refs, from, to, whole)
		// From the highest on: if the deletes are interrupted, the remaining parts are the lowest. A
		// lookup then finds one of them or the merged segment.
		for _, ref := range slices.Backward(parts) {
			garbage = append(garbage, SegmentKey(c.conv, ref.First, ref.Last))
		}
	}
}

// mergeable returns a run of consecutive segments that together reach a higher size class than each of
// them, or an empty run. Each rewrite therefore moves data up a class. The last class takes two
// segments, the others, which come first, sizes.width.
func (c *Compactor) mergeable() (from, to int) {
	for class := range sizeClasses {
		from, total := 0, int64(0)
		for i, ref := range c.refs {
			if i > 0 && ref.First != c.refs[i-1].Last+1 {
				from, total = i, 0
			}
			if total += ref.Size; c.logs.sizes.class(ref.Size) > class {
				from, total = i+1, 0
			}
			enough := i+1-from >= c.logs.sizes.width || class == sizeClasses-1 && i > from
			if enough && c.logs.sizes.class(total) > class {
				return from, i + 1
			}
		}
	}
	return 0, 0
}

// sizeClasses is the number of classes of mergeable segments. Segments above the last class are never
// merged.
const sizeClasses = 3

// class returns the class of a size in bytes, from 0. Two segments below the last class never exceed
// merged together.
func (s sizes) class(bytes int64) int {
	class, width := sizeClasses, int64(s.width)
	for limit := s.merged / 2; bytes < limit && class > 0; limit /= width {
		class--
	}
	return class
}

// join stores one segment with the content of parts.
func (c *Compactor) join(ctx context.Context, parts []SegmentRef) (SegmentRef, error) {
	b := c.logs.segments.Build()
	for _, ref := range parts {
		if err := c.logs.readSegment(ctx, c.conv, ref, ref.First, ref.Last, b.Add); err != nil {
			return SegmentRef{}, err
		}
	}
	ref, _, err := c.create(ctx, b)
	return ref, err
}

// Remove deletes the keys that a [Compactor] reported, with one attempt each: first batches, several
// at once, then segments, in order and one at a time. It tries all keys until ctx ends and returns the
// joined errors; a later compaction finds the rest. If a key is not a batch or segment of the
// conversation, Remove returns an error before it deletes anything.
func (l *Logs) Remove(ctx context.Context, conv conversation.Key, keys []string) error {
	for _, key := range keys {
		number, inLog := strings.CutPrefix(key, logPrefix(conv))
		_, logErr := parseNumber(number)
		name, inSegments := strings.CutPrefix(key, segmentPrefix(conv))
		_, _, segErr := parseSegment(name)
		if (!inLog || logErr != nil) && (!inSegments || segErr != nil) {
			return &Error{Op: "delete", Key: key, Kind: ErrRefused, Err: errors.New("not a batch or segment of the conversation")}
		}
	}
	var batches, merged []string
	for _, key := range keys {
		if strings.HasPrefix(key, segmentPrefix(conv)) {
			merged = append(merged, key)
		} else {
			batches = append(batches, key)
		}
	}
	return errors.Join(l.remove(ctx, batches, removedAtOnce), l.remove(ctx, merged, 1))
}

// remove deletes keys, atOnce at a time, until ctx ends.
func (l *Logs) remove(ctx context.Context, keys []string, atOnce int) error {
	var wg sync.WaitGroup
	errs := make([]error, len(keys))
	slots := make(chan struct{}, atOnce)
	for i, key := range keys {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			attempt, cancel := context.WithTimeout(ctx, l.retry.Attempt)
			defer cancel()
			errs[i] = l.bucket.Delete(attempt, key)
		})
	}
	wg.Wait()
	return errors.Join(append(errs, context.Cause(ctx))...)
}
