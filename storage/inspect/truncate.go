package inspect

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/segment"
)

// Errors of [Truncate]. The log is unchanged.
var (
	// ErrReadable reports that the log is readable to its end.
	ErrReadable = errors.New("the log is readable to its end; nothing to truncate")
	// ErrGrown reports that the log was written to during the check.
	ErrGrown = errors.New("the log has grown: stop every node, then retry")
)

// TruncateReport describes the data that a truncation loses, or would lose.
type TruncateReport struct {
	Conv        conversation.Key `json:"conversation"`
	Last        int64            `json:"last"`        // Last batch that is kept, -1 if none.
	Reason      string           `json:"reason"`      // Why the log is unreadable after it.
	Batches     []LostBatch      `json:"batches"`     // In order.
	Submissions []LostSubmission `json:"submissions"` // From the readable ones of those batches.
	Quarantine  string           `json:"quarantine"`  // Prefix of the truncated objects; "" before the truncation.
	Next        int64            `json:"next"`        // Batch at which the log continues.
}

// LostBatch is a truncated batch.
type LostBatch struct {
	Seq     int64                             `json:"seq"`
	Key     string                            `json:"key"`               // Of the object that holds it.
	Error   string                            `json:"error,omitempty"`   // Why it is unreadable.
	Records map[conversation.RecordType]int64 `json:"records,omitempty"` // Number of records by type.
}

// LostSubmission is a submission that loses its admission or settlement. Without its admission it was
// never sent; without its settlement it is pending again.
type LostSubmission struct {
	ID       conversation.SubmissionID `json:"id"`
	Admitted bool                      `json:"admitted,omitempty"` // Its admission is lost.
	Settled  conversation.Outcome      `json:"settled,omitempty"`  // Lost settlement, "" if none.
}

// Truncate truncates a log that is unreadable before its end, from the first corrupt or missing batch on.
// Unless opts.Write is set it only reports.
//
// Truncated objects are moved to another prefix. Claims of single-use writers take their numbers and
// the next one. A claim is never deleted, so a paused writer finds its next key taken, whatever it
// stored last. The number after them is created first, and never replaced: if it exists, Truncate returns
// [ErrGrown]. The first truncated number is replaced last, so until then the log is as corrupt as
// before and an interrupted Truncate can be repeated. Truncate returns the report even with an error, because a
// repeated Truncate finds claims in place of some lost batches.
//
// Kept batches of a segment that crosses the boundary are stored one by one. No checkpoint, page or
// segment of truncated batches stays where readers find it. If a settlement is pending afterwards, a
// pending-work journal lists it for the next sweep. A [*ServedError] means that a node serves the
// bucket, as far as heartbeats show it.
func Truncate(ctx context.Context, b storage.Bucket, conv conversation.Key, opts *RepairOptions) (*TruncateReport, error) {
	c := &cutter{TruncateReport: TruncateReport{Conv: conv}, inspection: newVerifier(b, nil, nil).newInspection(conv), bucket: b}
	if opts != nil {
		c.opts = *opts
	}
	if c.opts.Watch <= 0 {
		c.opts.Watch = defaultWatch
	}
	err := storage.CheckConv(conv)
	if err == nil {
		_, err = storage.CheckFormat(ctx, b)
	}
	if err == nil && c.opts.Write {
		err = served(ctx, b, c.opts.Watch)
	}
	for _, step := range []func(context.Context) error{c.read, c.list, c.lose} {
		if err == nil {
			err = step(ctx)
		}
	}
	if err == nil && c.opts.Write {
		if err = c.write(ctx); err != nil {
			return &c.TruncateReport, c.failed(err)
		}
	}
	if err != nil {
		return nil, c.failed(err)
	}
	return &c.TruncateReport, nil
}

func (c *cutter) failed(err error) error {
	return fmt.Errorf("truncate the log of %s: %w", c.Conv, err)
}

// cutter truncates one log.
type cutter struct {
	TruncateReport
	inspection *inspection
	bucket     storage.Bucket // sends every write once
	opts       RepairOptions

	at      storage.Position // position of the last batch kept
	writers int64            // up to at
	state   *conversation.State
	hashes  map[int64]storage.Hash // hashes of the kept batches that have checkpoints

	logs     []storage.ListedKey // truncated batch objects
	rest     []string            // and truncated segments, checkpoints and pages
	segments []storage.SegmentRef
	alone    int64  // first kept batch whose segment is truncated; after the last one if none
	head     []byte // to be written, nil if no checkpoint remains
	hadHead  bool
	highest  int64 // number that ever existed, as far as known
}

// read folds the readable part of the log.
func (c *cutter) read(ctx context.Context) error {
	c.at, c.state, c.hashes = storage.Start(), conversation.NewState(), map[int64]storage.Hash{}
	err := eachKey(ctx, c.inspection.bucket, storage.FolderOf(c.Conv)+"ckpt/", func(k storage.ListedKey) error {
		if name, err := storage.ParseKey(k.Key); err == nil {
			c.hashes[name.First] = storage.Hash{}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for b, err := range c.inspection.logs.Batches(ctx, c.Conv, storage.Start()) {
		if err == nil {
			err = c.take(b)
		}
		if err != nil {
			return c.stopped(ctx, err)
		}
	}
	if c.at.Seq < 0 {
		return ErrNoConversation
	}
	return ErrReadable
}

// take folds one batch.
func (c *cutter) take(b storage.Batch) error {
	records, err := conversation.DecodeRecords(b.Lines)
	if err == nil {
		err = c.state.Apply(conversation.Batch{Offset: conversation.Offset(b.Seq), Records: records})
	}
	if err != nil {
		return fmt.Errorf("batch %d: %w", b.Seq, err)
	}
	if b.Seq%foldStep == 0 {
		_, err = c.state.Cut()
	}
	c.at = b.Position()
	if b.First {
		c.writers++
	}
	if _, wanted := c.hashes[b.Seq]; wanted {
		c.hashes[b.Seq] = b.Hash
	}
	return err
}

// stopped records why the log ends early. A claim before the corruption is not shown to readers, but it
// verifies itself and continues the log, so it is kept.
func (c *cutter) stopped(ctx context.Context, why error) error {
	var newer *conversation.UnknownRecordError
	if away(why) || ctx.Err() != nil || errors.As(why, &newer) {
		return why
	}
	c.Reason = why.Error()
	if storage.IsCorrupt(why) {
		data, err := c.inspection.bucket.Get(ctx, storage.LogKey(c.Conv, c.at.Seq+1))
		if err != nil && away(err) {
			return err
		}
		if err == nil {
			b, err := c.inspection.logs.DecodeBatch(data)
			if err == nil && b.First && b.Seq == c.at.Seq+1 && b.Prev == c.at.Hash {
				// If the fold fails, the batch is truncated.
				_ = c.take(b)
			}
		}
	}
	c.Last = c.at.Seq
	return nil
}

// list finds the objects after the last batch kept.
func (c *cutter) list(ctx context.Context) error {
	c.highest, c.alone = c.at.Seq, c.at.Seq+1
	var left []string // checkpoints that may be kept, in order
	var pages []string
	err := eachKey(ctx, c.inspection.bucket, storage.FolderOf(c.Conv), func(k storage.ListedKey) error {
		name, err := storage.ParseKey(k.Key)
		if err != nil || name.Truncated {
			return nil // unknown key
		}
		switch name.Kind {
		case storage.KindBatch:
			c.highest = max(c.highest, name.First)
			if name.First > c.at.Seq {
				c.logs = append(c.logs, k)
			}
		case storage.KindSegment:
			if name.Last <= c.at.Seq {
				return nil
			}
			c.alone = min(c.alone, name.First)
			c.highest = max(c.highest, name.Last)
			c.rest = append(c.rest, k.Key)
			c.segments = append(c.segments, storage.SegmentRef{First: name.First, Last: name.Last, Size: k.Size})
		case storage.KindCheckpoint:
			c.highest = max(c.highest, name.First)
			if name.First > c.at.Seq {
				c.rest = append(c.rest, k.Key)
			} else {
				left = append(left, k.Key)
			}
		case storage.KindPage:
			pages = append(pages, k.Key)
		case storage.KindHead:
			c.hadHead = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.chooseHead(ctx, left, pages)
}

// chooseHead finds the newest checkpoint of the kept batches, and moves the pages that it does not
// name to rest.
func (c *cutter) chooseHead(ctx context.Context, checkpoints, pages []string) error {
	named := map[string]bool{}
	for _, key := range slices.Backward(checkpoints) {
		data, err := c.inspection.bucket.Get(ctx, key)
		if err != nil {
			return err
		}
		k, err := c.inspection.logs.DecodeCheckpoint(data)
		if err != nil || c.head != nil || k.At.Hash != c.hashes[k.At.Seq] {
			continue // of another log, or corrupt: verify reports it
		}
		if c.head, err = storage.EncodeHead(storage.Head{Seq: k.At.Seq, Digest: sha256.Sum256(data)}); err != nil {
			return err
		}
		for _, ref := range k.Pages {
			named[storage.PageKey(c.Conv, ref)] = true
		}
	}
	for _, key := range pages {
		if !named[key] {
			c.rest = append(c.rest, key)
		}
	}
	return nil
}

// lose reports the content of the truncated batches.
func (c *cutter) lose(ctx context.Context) error {
	lost := map[conversation.SubmissionID]*LostSubmission{}
	seen := map[int64]bool{}
	for _, k := range c.logs {
		name, _ := storage.ParseKey(k.Key) // parsed in list
		seen[name.First] = true
		data, err := c.inspection.bucket.Get(ctx, k.Key)
		if err != nil {
			return err
		}
		b, err := c.inspection.logs.DecodeBatch(data)
		c.lost(lost, LostBatch{Seq: name.First, Key: k.Key}, b, err)
	}
	codec := segment.NewCodec(c.inspection.opts.MaxBatchBytes, 1)
	for _, ref := range c.segments {
		s := newSegmentWalk(c.inspection.bucket, codec, c.Conv, ref)
		for seq := ref.First; seq <= ref.Last; {
			b, err := s.read(ctx)
			if err != nil && away(err) {
				return err
			}
			next := seq + 1
			if err != nil {
				next = max(next, s.skip())
			}
			for ; seq < next; seq++ {
				if seq > c.at.Seq && !seen[seq] {
					seen[seq] = true
					c.lost(lost, LostBatch{Seq: seq, Key: s.key}, b, err)
				}
			}
		}
	}
	slices.SortFunc(c.Batches, func(a, b LostBatch) int { return int(min(max(a.Seq-b.Seq, -1), 1)) })
	for _, s := range lost {
		// Its admission may be in an unreadable batch.
		s.Admitted = s.Admitted || c.state.Submission(s.ID) == nil
		c.Submissions = append(c.Submissions, *s)
	}
	slices.SortFunc(c.Submissions, func(a, b LostSubmission) int { return strings.Compare(string(a.ID), string(b.ID)) })
	c.Next = c.highest + 2
	return nil
}

// lost reports one truncated batch.
func (c *cutter) lost(lost map[conversation.SubmissionID]*LostSubmission, l LostBatch, b storage.Batch, err error) {
	var records []conversation.Record
	if err == nil {
		records, err = conversation.DecodeRecords(b.Lines)
	}
	if err != nil {
		l.Error = err.Error()
	}
	of := func(id conversation.SubmissionID) *LostSubmission {
		if lost[id] == nil {
			lost[id] = &LostSubmission{ID: id}
		}
		return lost[id]
	}
	for _, r := range records {
		if l.Records == nil {
			l.Records = map[conversation.RecordType]int64{}
		}
		l.Records[r.Type()]++
		switch r := r.(type) {
		case *conversation.SubmissionAdmitted:
			of(r.Submission).Admitted = true
		case *conversation.SubmissionSettled:
			of(r.Submission).Settled = r.Outcome
		}
	}
	c.Batches = append(c.Batches, l)
}

// write performs the truncation.
func (c *cutter) write(ctx context.Context) error {
	name := "cut-" + rand.Text()
	c.Quarantine = storage.TruncatedPrefix(c.Conv, name)
	for _, k := range c.logs {
		if err := c.keep(ctx, name, k.Key); err != nil {
			return err
		}
	}
	for _, key := range c.rest {
		if err := c.keep(ctx, name, key); err != nil {
			return err
		}
	}
	claims, err := c.claims(name)
	if err != nil {
		return err
	}
	// From here on a writer that has stored the highest batch is fenced.
	last := len(claims) - 1
	switch err := c.bucket.Create(ctx, storage.LogKey(c.Conv, c.highest+1), storage.Bytes(claims[last])); {
	case errors.Is(err, storage.ErrExists):
		return ErrGrown
	case err != nil:
		return err
	}
	put := func(i int) error {
		return c.bucket.Put(ctx, storage.LogKey(c.Conv, c.at.Seq+1+int64(i)), storage.Bytes(claims[i]))
	}
	for i := last - 1; i > 0; i-- {
		if err := put(i); err != nil {
			return err
		}
	}
	if err := c.part(ctx); err != nil {
		return err
	}
	if err := c.discard(ctx); err != nil {
		return err
	}
	if err := c.listPending(ctx, name); err != nil {
		return err
	}
	if err := put(0); err != nil {
		return err
	}
	return c.check(ctx)
}

// keep copies an object to the truncated folder.
func (c *cutter) keep(ctx context.Context, name, key string) error {
	data, err := c.inspection.bucket.Get(ctx, key)
	if err != nil {
		return err
	}
	if len(data) == 0 {
		return nil // An empty object; stores of ours reject it.
	}
	return c.bucket.Create(ctx, storage.TruncatedKey(c.Conv, name, key), storage.Bytes(data))
}

// claims returns a claim for every number that was in use and for the one after them, each of another
// writer.
func (c *cutter) claims(name string) ([][]byte, error) {
	var out [][]byte
	prev := c.at.Hash
	for seq := c.at.Seq + 1; seq <= c.highest+1; seq++ {
		h := storage.Header{
			Version: storage.SchemaVersion, Seq: seq, Nonce: storage.Nonce(fmt.Sprintf("%s-%d", name, seq)), First: true, Prev: prev,
			Epoch: c.writers + int64(len(out)),
		}
		data, hash, err := storage.EncodeBatch(h, nil)
		if err != nil {
			return nil, err
		}
		out, prev = append(out, data), hash
	}
	return out, nil
}

// part stores the kept batches of a truncated segment, one by one.
func (c *cutter) part(ctx context.Context) error {
	for next := c.alone; next <= c.at.Seq; {
		batches, err := c.inspection.logs.Range(ctx, c.Conv, next, c.at.Seq)
		if err != nil {
			return err
		}
		for _, b := range batches {
			if err := c.store(ctx, b); err != nil {
				return err
			}
		}
		next += int64(len(batches))
	}
	return nil
}

// store stores a batch under its own key, unless it is readable there.
func (c *cutter) store(ctx context.Context, b storage.Batch) error {
	data, _, err := storage.EncodeBatch(b.Header, b.Lines)
	if err != nil {
		return err
	}
	key := storage.LogKey(c.Conv, b.Seq)
	if err := c.bucket.Create(ctx, key, storage.Bytes(data)); !errors.Is(err, storage.ErrExists) {
		return err
	}
	there, err := c.inspection.bucket.Get(ctx, key)
	if err != nil {
		return err
	}
	if _, err := c.inspection.logs.DecodeBatch(there); err == nil {
		return nil
	}
	return c.bucket.Put(ctx, key, storage.Bytes(data))
}

// discard deletes the objects derived from truncated batches.
func (c *cutter) discard(ctx context.Context) error {
	key := storage.HeadKey(c.Conv)
	switch {
	case c.head != nil:
		if err := c.bucket.Put(ctx, key, storage.Bytes(c.head)); err != nil {
			return err
		}
	case c.hadHead:
		if err := c.bucket.Delete(ctx, key); err != nil {
			return err
		}
	}
	for _, key := range c.rest {
		if err := c.bucket.Delete(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// listPending lists the conversation in a pending-work journal, like that of a crashed node, if a settlement
// is pending.
func (c *cutter) listPending(ctx context.Context, name string) error {
	if !c.state.Exists() || len(c.state.Unsettled()) == 0 {
		return nil
	}
	return storage.NewJournalWriter(c.bucket).Write(ctx, storage.Journal{Member: name, Entries: []storage.JournalEntry{
		{Conv: c.Conv, Nonce: storage.Nonce(fmt.Sprintf("%s-%d", name, c.highest+1)), Seq: c.highest + 1},
	}})
}

// check reads the log as readers do.
func (c *cutter) check(ctx context.Context) error {
	end := int64(-1)
	for b, err := range c.inspection.logs.Batches(ctx, c.Conv, storage.Start()) {
		if err != nil {
			return fmt.Errorf("read the log after truncation: %w", err)
		}
		end = b.Seq
	}
	if end != c.highest+1 {
		return fmt.Errorf("log ends at batch %d after truncation, want %d", end, c.highest+1)
	}
	return nil
}
