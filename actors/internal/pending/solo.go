package pending

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

const (
	// soloTimeout bounds the time that the opening of one suspect blocks all others.
	soloTimeout = 30 * time.Second
	// soloWait is the time that a suspect waits for openings in progress.
	soloWait = 5 * time.Second
	// holdTimeout is the time that a suspect waits for the node to be idle after one named crash. It
	// doubles for each further crash up to maxHold.
	holdTimeout, maxHold = time.Second, 30 * time.Second
	// idlePoll is the interval of checks for an idle node.
	idlePoll = 50 * time.Millisecond
	// maxPause bounds the random pause before a suspect is opened; pauseStep is added for each crash
	// that counts. Nodes that are killed more often than that quarantine nothing: the decisive crash
	// needs a node that has survived two steps.
	maxPause, pauseStep = 2 * time.Second, 5 * time.Second
	// trialTimeout bounds the trial of suspects before a node serves requests.
	trialTimeout = 30 * time.Second
)

// Marks in the nonces of journal entries of openings. An entry without a mark is one opening among
// others.
const (
	readMark  = "-read-"  // a read, among others
	aloneMark = "-alone-" // nothing else was being opened or read
	pauseMark = "-pause-" // about to be opened alone; a crash in the pause has another cause
)

// markedID returns the entry ID of one opening or read. A log may have several.
func (w *Sweeper) markedID(key conversation.Key, mark string) ID {
	return ID{key, storage.Nonce(fmt.Sprintf("%.40s%s%d", w.o.Member, mark, w.marks.next(key)))}
}

// maxMarks bounds the conversations with a known number.
const maxMarks = 4096

// marks numbers the entries of each conversation. A common counter would depend on the order of
// concurrent openings. The zero value is ready.
type marks struct {
	mu   sync.Mutex
	last map[conversation.Key]int64
	base int64 // upper bound for conversations not in last
	top  int64
}

func (m *marks) next(key conversation.Key) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last == nil || len(m.last) >= maxMarks {
		m.last, m.base = map[conversation.Key]int64{}, m.top
	}
	n := max(m.last[key], m.base) + 1
	m.last[key], m.top = n, max(m.top, n)
	return n
}

func hasMark(n storage.Nonce, mark string) bool { return strings.Contains(string(n), mark) }

// enterAlone permits a suspect to be opened or read while nothing else is, and lists that first. The
// caller calls leave, even after an error, when the machine has the log.
//
// A suspect with a named crash waits for the node to be idle, then pauses for a random time. A crash
// in the pause shows that nodes crash for another reason.
//
// ok is false for a conversation that is no suspect, or that was opened in the meantime.
func (w *Sweeper) enterAlone(ctx context.Context, key conversation.Key) (leave func(), ok bool, err error) {
	nothing := func() {}
	if !w.Quarantine.Suspects(key) || !suspectsTakeTurns() {
		return nothing, false, nil
	}
	if named, _ := w.Quarantine.evidence(key); named > 0 {
		w.awaitIdle(ctx, key, min(holdTimeout<<min(named-1, 8), maxHold))
	}
	if err := w.arrive(ctx, key); err != nil {
		return nothing, true, err
	}
	err = w.Quarantine.Refused(key)
	if ok = w.Quarantine.Suspects(key); err != nil || !ok {
		w.Quarantine.leave()
		return nothing, ok, err
	}
	leave, err = w.alone(ctx, key)
	return leave, true, err
}

// turnGap is the time between two suspects, in which the waiting openings pass the gate.
const turnGap = 300 * time.Microsecond

// maxArrival spreads the concurrent suspects of a sweep, so that they are ordered by a hash of their
// keys.
const maxArrival = 20 * time.Millisecond

func (w *Sweeper) arrive(ctx context.Context, key conversation.Key) error {
	elapse(ctx, time.Duration(hashOf(string(key))%uint64(maxArrival)))
	return w.Quarantine.enter(ctx)
}

// elapse sleeps for d, or until ctx ends.
func elapse(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func hashOf(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}

// alone is enterAlone after enter.
func (w *Sweeper) alone(ctx context.Context, key conversation.Key) (leave func(), err error) {
	nothing := func() {}
	named, counted := w.Quarantine.evidence(key)
	elapse(ctx, turnGap)
	open, empty, err := w.gate.close(ctx, soloWait)
	if err != nil {
		w.Quarantine.leave()
		return nothing, err
	}
	if named > 0 && empty && w.isIdle(key) {
		err = w.pause(ctx, key, counted)
	}
	s := &solo{sweeper: w, id: w.markedID(key, aloneMark), open: open}
	if !empty {
		s.id = w.markedID(key, readMark)
	}
	if err == nil {
		err = w.Journal.OpeningListed(ctx, s.id)
	}
	if err != nil {
		s.leave()
		return nothing, err
	}
	s.timeout = time.AfterFunc(soloTimeout, s.demote)
	return sync.OnceFunc(s.leave), nil
}

// pause waits before a suspect is opened, for a random time and longer after each crash that counts.
// The journal lists the pause.
func (w *Sweeper) pause(ctx context.Context, key conversation.Key, counted int) error {
	id := w.markedID(key, pauseMark)
	defer w.Journal.Opened(id) // The entry of the opening replaces it.
	if err := w.Journal.OpeningListed(ctx, id); err != nil {
		return err
	}
	seed := hashOf(string(id.Conv) + string(id.Nonce))
	elapse(ctx, time.Duration(seed%uint64(maxPause))+time.Duration(counted)*pauseStep)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("pause before opening conversation %s: %w", key, err)
	}
	return nil
}

// isIdle reports whether the journal of this node lists no other conversation.
func (w *Sweeper) isIdle(key conversation.Key) bool { return w.Journal.listsOnly(key) }

// awaitIdle waits up to limit until this node has no other conversation.
func (w *Sweeper) awaitIdle(ctx context.Context, key conversation.Key, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for !w.isIdle(key) {
		select {
		case <-time.After(idlePoll):
		case <-ctx.Done():
			return
		}
	}
}

// solo is the opening or read of a suspect while the gate is closed.
type solo struct {
	sweeper *Sweeper
	open    func()
	timeout *time.Timer

	mu   sync.Mutex
	id   ID
	over bool
}

// demote opens the gate because the suspect takes too long. From then on the journal lists its opening
// as one among others.
func (s *solo) demote() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	j := s.sweeper.Journal
	j.Opened(s.id)
	s.id = s.sweeper.markedID(s.id.Conv, readMark)
	j.Opening(s.id, s.open)
}

// leave ends the opening. If the conversation was opened, earlier crashes over it are expired.
func (s *solo) leave() {
	if s.timeout != nil {
		s.timeout.Stop()
	}
	s.mu.Lock()
	s.over = true
	s.sweeper.endReading(s.id)
	s.mu.Unlock()
	s.open()
	past := s.sweeper.Quarantine.takePast() // Before the next suspect enters, which changes waiting.
	s.sweeper.Quarantine.leave()
	s.sweeper.expireSuspects(past)
}

// expireSuspects stores that crashes over conversations opened since are expired. Otherwise the
// conversations would be suspects at the next start as long as the journals exist. While other
// suspects wait, several crashes are stored together.
func (w *Sweeper) expireSuspects(past []storage.JournalEntry) {
	if len(past) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), expireSuspectsTimeout)
	defer cancel()
	if err := storage.ExpireSuspects(ctx, w.o.Bucket, fmt.Sprintf("%.40s-%d", w.o.Member, w.stored.Add(1)), past); err != nil {
		w.o.Logger.Warn("expire suspects failed", "err", err)
	}
}
