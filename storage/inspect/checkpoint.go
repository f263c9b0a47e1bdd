package inspect

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// maxCheckpoints bounds the checkpoints read per conversation. Normally there are two, and one more
// for every interrupted one.
const maxCheckpoints = 64

// marks are the head, checkpoints and pages of a conversation.
type marks struct {
	inspection *inspection
	head       *storage.Head // nil if it is absent or unreadable
	bad        error         // why it is unreadable, nil if readable or absent
	all        []*stored     // in the order of their batches
	pages      []string      // keys of all pages
}

// stored is a stored checkpoint.
type stored struct {
	key        string
	seq        int64 // its batch, from the key
	digest     storage.Digest
	checkpoint *storage.Checkpoint // without state and tail, nil if it does not decode
	bad        error               // why it cannot be used
	old        error               // set if it is of another version of the fold, which is not a defect
	reducer    int                 // fold version that the state needs
	state      [sha256.Size]byte
	history    [4][sha256.Size]byte
}

func (s *stored) pages(conv conversation.Key) []string {
	var keys []string
	if s.checkpoint != nil {
		for _, ref := range s.checkpoint.Pages {
			keys = append(keys, storage.PageKey(conv, ref))
		}
	}
	return keys
}

// readMarks reads the head, the checkpoints and the pages. The error is the bucket's.
func (l *inspection) readMarks(ctx context.Context) (*marks, error) {
	m := &marks{inspection: l}
	data, err := l.bucket.Get(ctx, storage.HeadKey(l.conv))
	switch {
	case errors.Is(err, storage.ErrNotFound):
	case err != nil:
		return nil, err
	default:
		head, err := storage.DecodeHead(l.conv, data)
		if m.bad = err; err == nil {
			m.head = &head
		}
	}
	if err := m.list(ctx, "page/", func(key string) error { m.pages = append(m.pages, key); return nil }); err != nil {
		return nil, err
	}
	l.sum.Pages = int64(len(m.pages))
	err = m.list(ctx, "ckpt/", func(key string) error {
		s, err := m.read(ctx, key)
		if s != nil {
			m.all = append(m.all, s)
		}
		if len(m.all) > maxCheckpoints {
			m.all = m.all[1:]
			l.dropped = true
		}
		return err
	})
	l.sum.Checkpoints = int64(len(m.all))
	return m, err
}

// list visits the valid keys of a folder.
func (m *marks) list(ctx context.Context, folder string, visit func(key string) error) error {
	return eachKey(ctx, m.inspection.bucket, storage.FolderOf(m.inspection.conv)+folder, func(k storage.ListedKey) error {
		if _, err := storage.ParseKey(k.Key); err != nil {
			m.inspection.foreign(k.Key)
			return nil
		}
		return visit(k.Key)
	})
}

// read reads a checkpoint and its pages. It returns nil if the checkpoint was deleted since it was
// listed.
func (m *marks) read(ctx context.Context, key string) (*stored, error) {
	data, err := m.inspection.bucket.Get(ctx, key)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	name, err := storage.ParseKey(key)
	if err != nil {
		return nil, err
	}
	s := &stored{key: key, seq: name.First, digest: sha256.Sum256(data)}
	if s.digest.String()[:32] != name.Digest {
		s.bad = fmt.Errorf("digest is %s", s.digest)
		return s, nil
	}
	s.checkpoint, s.bad = m.inspection.logs.DecodeCheckpoint(data)
	if s.bad == nil && s.checkpoint.At.Seq != name.First {
		s.bad = fmt.Errorf("object is of batch %d", s.checkpoint.At.Seq)
	}
	if s.bad == nil {
		err = m.open(ctx, s)
	}
	return s, err
}

// open decodes a checkpoint. The error is the bucket's.
func (m *marks) open(ctx context.Context, s *stored) error {
	c := s.checkpoint
	sum := newHistorySum()
	for _, ref := range c.Pages {
		data, err := m.inspection.logs.Page(ctx, m.inspection.conv, ref)
		switch {
		case err == nil:
			err = sum.add(data)
		case away(err) || ctx.Err() != nil:
			return err
		}
		if err != nil {
			s.bad = err
			return nil
		}
	}
	if len(c.Tail) > 0 {
		if s.bad = sum.add(c.Tail); s.bad != nil {
			return nil
		}
	}
	s.history = sum.sums()
	s.reducer, _ = conversation.ReducerOf(c.State) // the state may not decode
	state, err := conversation.DecodeState(c.State)
	if errors.Is(err, conversation.ErrReducer) {
		s.old, err = err, nil
	} else if err == nil {
		var line []byte
		if line, err = conversation.EncodeState(state); err == nil {
			s.state = sha256.Sum256(line)
		}
		if err == nil && int64(state.Head()) != c.At.Seq {
			err = fmt.Errorf("state ends at batch %d", int64(state.Head()))
		}
		if err == nil && state.History() != sum.counts {
			err = fmt.Errorf("pages hold %+v, state has %+v", sum.counts, state.History())
		}
	}
	if err == nil && state != nil {
		m.inspection.of(state)
	}
	s.bad, c.State, c.Tail = err, nil, nil
	return nil
}

// checkAll checks the checkpoints against the log and finds unreferenced ones.
func (m *marks) checkAll(c *chain, f *folded) {
	beyond := false
	for _, s := range m.all {
		switch {
		case s.seq > c.at.Seq: // Even an unusable checkpoint proves how far the log reached.
			beyond = true
			m.inspection.find(Corruption, KindMissingTail, s.key, s.seq, fmt.Sprintf(
				"the log ends with batch %[2]d, but a checkpoint is of batch %[1]d: accepted batches are lost; restore the log folder from a copy",
				s.seq, c.at.Seq))
		case s.bad == nil:
			s.bad = s.fits(c.wanted[s.seq], f.points[s.seq])
		}
	}
	if c.corrupt || beyond || !f.whole {
		return // Do not repair without proof from the log.
	}
	m.orphans(m.heads())
}

// fits checks a checkpoint against the log and its fold.
func (s *stored) fits(log *mark, fold *point) error {
	c := s.checkpoint
	if log == nil || log.writers == 0 {
		return errors.New("the log lacks its batch")
	}
	if c.At.Hash != log.hash {
		return fmt.Errorf("it continues hash %s, but batch %d has %s", c.At.Hash, c.At.Seq, log.hash)
	}
	n := len(log.claims) - len(c.Claims)
	// The count of earlier writers is informative and may be slightly wrong.
	if n < 0 || !slices.Equal(c.Claims, log.claims[n:]) {
		return fmt.Errorf("its %d writers are not the last of the %d in the log", len(c.Claims), log.writers)
	}
	if fold == nil || !fold.reached || s.old != nil || s.reducer < fold.reducer {
		return nil // Accept a fold of an older version too: it is complete.
	}
	if s.state != fold.state {
		return errors.New("its state differs from the fold of the log")
	}
	if s.history != fold.history {
		return errors.New("its pages differ from the fold of the log")
	}
	return nil
}

// heads checks the head and returns the checkpoints to keep: those that the repaired head names.
func (m *marks) heads() []*stored {
	var usable []*stored // newest first
	for _, s := range slices.Backward(m.all) {
		if s.bad == nil {
			usable = append(usable, s)
		}
	}
	named, before := m.named()
	if named != nil && named.bad == nil {
		kept := []*stored{named}
		if named.old != nil {
			m.inspection.find(Note, KindOldCheckpoint, named.key, named.checkpoint.At.Seq, fmt.Sprintf(
				"%v; the next opening folds the log", named.old))
		}
		if before != nil && before != named && before.bad == nil {
			kept = append(kept, before)
		}
		m.unusable(nil)
		return kept
	}
	if m.head == nil && m.bad == nil && len(m.all) == 1 && len(usable) == 1 {
		return nil // A writer crashed between its first checkpoint and the head.
	}
	kept := usable[:min(2, len(usable))]
	repairHead := m.repairHead(kept)
	key := storage.HeadKey(m.inspection.conv)
	switch {
	case m.bad != nil:
		m.inspection.find(Repairable, KindLostHead, key, -1, fmt.Sprintf(
			"the head is unreadable: %v; %s", m.bad, desc(kept)), repairHead...)
	case m.head == nil && len(kept) > 0:
		m.inspection.find(Repairable, KindLostHead, key, -1, "the head is missing although checkpoints exist; "+desc(kept), repairHead...)
	case m.head != nil && named == nil:
		gone := storage.CheckpointKey(m.inspection.conv, m.head.Seq, m.head.Digest)
		m.inspection.find(Repairable, KindLostCheckpoint, gone, m.head.Seq, "the head names this missing checkpoint; "+desc(kept), repairHead...)
	case named != nil:
		m.inspection.find(Repairable, KindLostCheckpoint, named.key, m.head.Seq, fmt.Sprintf(
			"the head names this unusable checkpoint: %v; %s", named.bad, desc(kept)), append(repairHead, step{key: named.key})...)
	}
	m.unusable(named)
	return kept
}

// named returns the checkpoints that the head names, nil if there is none.
func (m *marks) named() (newest, before *stored) {
	if m.head == nil {
		return nil, nil
	}
	for _, s := range m.all {
		if s.key == storage.CheckpointKey(m.inspection.conv, m.head.Seq, m.head.Digest) && (s.digest == m.head.Digest || s.bad != nil) {
			newest = s
		}
		if s.key == m.head.Prev {
			before = s
		}
	}
	return newest, before
}

// repairHead returns the steps that make the head name checkpoints.
func (m *marks) repairHead(kept []*stored) []step {
	key := storage.HeadKey(m.inspection.conv)
	if len(kept) == 0 {
		if m.head == nil && m.bad == nil {
			return nil
		}
		return []step{{key: key}}
	}
	head := storage.Head{Seq: kept[0].checkpoint.At.Seq, Digest: kept[0].digest}
	if len(kept) > 1 {
		head.Prev = kept[1].key
	}
	data, err := storage.EncodeHead(head)
	if err != nil {
		panic(fmt.Sprintf("inspect: %v", err)) // Numbers and digests always encode.
	}
	return []step{{key: key, head: data}}
}

// desc describes a repair of the head.
func desc(kept []*stored) string {
	if len(kept) == 0 {
		return "the log is complete; repair deletes the head, so that the log is folded"
	}
	return fmt.Sprintf("repair makes the head name the checkpoint of batch %d", kept[0].checkpoint.At.Seq)
}

// unusable finds the unusable checkpoints except the one that the head names.
func (m *marks) unusable(named *stored) {
	for _, s := range m.all {
		if s.bad != nil && s != named {
			m.inspection.find(Repairable, KindLostCheckpoint, s.key, -1, fmt.Sprintf(
				"this checkpoint is unusable: %v; the log is complete, and repair deletes the checkpoint", s.bad), step{key: s.key})
		}
	}
}

// orphans finds the objects that the repaired head does not name.
func (m *marks) orphans(kept []*stored) {
	var pages []string
	for _, s := range kept {
		pages = append(pages, s.pages(m.inspection.conv)...)
	}
	for _, s := range m.all {
		if s.bad == nil && !slices.Contains(kept, s) {
			m.inspection.find(Note, KindOrphanCheckpoint, s.key, s.checkpoint.At.Seq,
				"this checkpoint is unreferenced; repair deletes it", step{key: s.key})
		}
	}
	for _, key := range m.pages {
		if slices.Contains(pages, key) {
			continue
		}
		m.inspection.find(Note, KindOrphanPage, key, -1, "no usable checkpoint has this page; repair deletes it", step{key: key})
	}
}
