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

// maxCheckpoints bounds how many checkpoints of one conversation are read. There are two,
// and one more for every one that was interrupted.
const maxCheckpoints = 64

// marks are the head, the checkpoints and the pages of a conversation.
type marks struct {
	look  *look
	head  *storage.Head // nil if there is none that can be read
	bad   error         // why it cannot be read, nil if it can or is not there
	all   []*stored     // in the order of their batches
	pages []string      // keys of all pages
}

// stored is a checkpoint that is stored.
type stored struct {
	key        string
	seq        int64 // of its batch, as the key says
	digest     storage.Digest
	checkpoint *storage.Checkpoint // without state and tail, nil if it does not decode
	bad        error               // why it cannot be used
	old        error               // it is of another version of the fold, which is no flaw
	reducer    int                 // the version that the state needs
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

// readMarks reads them. The error is the bucket's.
func (l *look) readMarks(ctx context.Context) (*marks, error) {
	m := &marks{look: l}
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

// list visits the keys of a folder that have the right form.
func (m *marks) list(ctx context.Context, folder string, visit func(key string) error) error {
	return eachKey(ctx, m.look.bucket, storage.FolderOf(m.look.conv)+folder, func(k storage.ListedKey) error {
		if _, err := storage.ParseKey(k.Key); err != nil {
			m.look.foreign(k.Key)
			return nil
		}
		return visit(k.Key)
	})
}

// read reads a checkpoint, nil if it has gone meanwhile, and its pages.
func (m *marks) read(ctx context.Context, key string) (*stored, error) {
	data, err := m.look.bucket.Get(ctx, key)
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
		s.bad = fmt.Errorf("its digest is %s", s.digest)
		return s, nil
	}
	s.checkpoint, s.bad = m.look.logs.DecodeCheckpoint(data)
	if s.bad == nil && s.checkpoint.At.Seq != name.First {
		s.bad = fmt.Errorf("it is of batch %d", s.checkpoint.At.Seq)
	}
	if s.bad == nil {
		err = m.open(ctx, s)
	}
	return s, err
}

// open decodes what a checkpoint holds. The error is the bucket's.
func (m *marks) open(ctx context.Context, s *stored) error {
	c := s.checkpoint
	sum := newHistorySum()
	for _, ref := range c.Pages {
		data, err := m.look.logs.Page(ctx, m.look.conv, ref)
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
	s.reducer, _ = conversation.ReducerOf(c.State) // or it does not decode
	state, err := conversation.DecodeState(c.State)
	if errors.Is(err, conversation.ErrReducer) {
		s.old, err = err, nil
	} else if err == nil {
		var line []byte
		if line, err = conversation.EncodeState(state); err == nil {
			s.state = sha256.Sum256(line)
		}
		if err == nil && int64(state.Head()) != c.At.Seq {
			err = fmt.Errorf("its state ends at batch %d", int64(state.Head()))
		}
		if err == nil && state.History() != sum.counts {
			err = fmt.Errorf("its pages hold %+v, its state wants %+v", sum.counts, state.History())
		}
	}
	if err == nil && state != nil {
		m.look.of(state)
	}
	s.bad, c.State, c.Tail = err, nil, nil
	return nil
}

// judge holds the checkpoints against the log, and finds what nobody names.
func (m *marks) judge(c *chain, f *folded) {
	beyond := false
	for _, s := range m.all {
		switch {
		case s.seq > c.at.Seq: // Also one that cannot be used says how far the log went.
			beyond = true
			m.look.find(Corruption, KindMissingTail, s.key, s.seq, fmt.Sprintf(
				"a checkpoint is of batch %d, and the log ends with batch %d: what lies between was accepted and is lost; restore the log folder from a copy",
				s.seq, c.at.Seq))
		case s.bad == nil:
			s.bad = s.fits(c.wanted[s.seq], f.points[s.seq])
		}
	}
	if c.damaged || beyond || !f.whole {
		return // What the log does not prove is not to be mended.
	}
	m.orphans(m.heads())
}

// fits holds a checkpoint against the log and what that folds to.
func (s *stored) fits(log *mark, fold *point) error {
	c := s.checkpoint
	if log == nil || log.writers == 0 {
		return errors.New("the log has no such batch")
	}
	if c.At.Hash != log.hash {
		return fmt.Errorf("it continues hash %s, batch %d has %s", c.At.Hash, c.At.Seq, log.hash)
	}
	n := len(log.claims) - len(c.Claims)
	// How many writers there were before those is for people, and may be wrong by some.
	if n < 0 || !slices.Equal(c.Claims, log.claims[n:]) {
		return fmt.Errorf("it names %d writers, which are not the last of the %d in the log", len(c.Claims), log.writers)
	}
	if fold == nil || !fold.reached || s.old != nil || s.reducer < fold.reducer {
		return nil // Also what an older version has folded: it left nothing to the log.
	}
	if s.state != fold.state {
		return errors.New("its state is not what the log folds to")
	}
	if s.history != fold.history {
		return errors.New("its pages are not what the log folds to")
	}
	return nil
}

// heads judges the head and returns the checkpoints that are to stay: those that the head
// names, once it is right.
func (m *marks) heads() []*stored {
	var usable []*stored // the newest first
	for _, s := range slices.Backward(m.all) {
		if s.bad == nil {
			usable = append(usable, s)
		}
	}
	named, before := m.named()
	if named != nil && named.bad == nil {
		kept := []*stored{named}
		if named.old != nil {
			m.look.find(Note, KindOldCheckpoint, named.key, named.checkpoint.At.Seq, fmt.Sprintf(
				"%v; the log is folded at the next opening", named.old))
		}
		if before != nil && before != named && before.bad == nil {
			kept = append(kept, before)
		}
		m.unusable(nil)
		return kept
	}
	if m.head == nil && m.bad == nil && len(m.all) == 1 && len(usable) == 1 {
		return nil // A writer has ended between its first checkpoint and the head.
	}
	kept := usable[:min(2, len(usable))]
	mend := m.mend(kept)
	key := storage.HeadKey(m.look.conv)
	switch {
	case m.bad != nil:
		m.look.find(Repairable, KindLostHead, key, -1, fmt.Sprintf(
			"the head cannot be read: %v; %s", m.bad, what(kept)), mend...)
	case m.head == nil && len(kept) > 0:
		m.look.find(Repairable, KindLostHead, key, -1, "the head is missing, although there are checkpoints; "+what(kept), mend...)
	case m.head != nil && named == nil:
		gone := storage.CheckpointKey(m.look.conv, m.head.Seq, m.head.Digest)
		m.look.find(Repairable, KindLostCheckpoint, gone, m.head.Seq, "the head names this checkpoint, and it is missing; "+what(kept), mend...)
	case named != nil:
		m.look.find(Repairable, KindLostCheckpoint, named.key, m.head.Seq, fmt.Sprintf(
			"the head names this checkpoint, and it cannot be used: %v; %s", named.bad, what(kept)), append(mend, step{key: named.key})...)
	}
	m.unusable(named)
	return kept
}

// named returns the checkpoints that the head names, nil where there is none.
func (m *marks) named() (newest, before *stored) {
	if m.head == nil {
		return nil, nil
	}
	for _, s := range m.all {
		if s.key == storage.CheckpointKey(m.look.conv, m.head.Seq, m.head.Digest) && (s.digest == m.head.Digest || s.bad != nil) {
			newest = s
		}
		if s.key == m.head.Prev {
			before = s
		}
	}
	return newest, before
}

// mend is how the head is made to name checkpoints.
func (m *marks) mend(kept []*stored) []step {
	key := storage.HeadKey(m.look.conv)
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
		panic(fmt.Sprintf("inspect: %v", err)) // It is made of numbers and digests.
	}
	return []step{{key: key, head: data}}
}

// what says what a repair of the head does.
func what(kept []*stored) string {
	if len(kept) == 0 {
		return "the log has everything, and repair deletes the head, so that it is folded"
	}
	return fmt.Sprintf("repair lets the head name the checkpoint of batch %d", kept[0].checkpoint.At.Seq)
}

// unusable finds the checkpoints that cannot be used but for the one the head names.
func (m *marks) unusable(named *stored) {
	for _, s := range m.all {
		if s.bad != nil && s != named {
			m.look.find(Repairable, KindLostCheckpoint, s.key, -1, fmt.Sprintf(
				"this checkpoint cannot be used: %v; the log has everything, and repair deletes it", s.bad), step{key: s.key})
		}
	}
}

// orphans finds what no head names, once it is right.
func (m *marks) orphans(kept []*stored) {
	var pages []string
	for _, s := range kept {
		pages = append(pages, s.pages(m.look.conv)...)
	}
	for _, s := range m.all {
		if s.bad == nil && !slices.Contains(kept, s) {
			m.look.find(Note, KindOrphanCheckpoint, s.key, s.checkpoint.At.Seq,
				"no head names this checkpoint; repair deletes it", step{key: s.key})
		}
	}
	for _, key := range m.pages {
		if slices.Contains(pages, key) {
			continue
		}
		m.look.find(Note, KindOrphanPage, key, -1, "no checkpoint that is named and can be used has this page; repair deletes it", step{key: key})
	}
}
