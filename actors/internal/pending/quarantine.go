package pending

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

const (
	// quarantineTimeout bounds the write that sets a conversation aside.
	quarantineTimeout = 30 * time.Second
	// expireSuspectsTimeout bounds the write which says that crashes are past.
	expireSuspectsTimeout = 5 * time.Second
	// expireTogether is how many crashes are forgiven by one write while others wait.
	expireTogether = 16
	// firstLookTimeout bounds what a start waits to learn what must not be opened.
	firstLookTimeout = 5 * time.Second
)

// Asides knows which conversations are quarantined, and which are suspects: those that were
// being opened when a node crashed. Suspects are opened alone, so that the next crash
// names one.
//
// It is what the last look at the bucket has found. Safe for concurrent use.
type Quarantine struct {
	limit int           // failures, and crashes that count, after which a conversation is quarantined
	turn  chan struct{} // holds an element while a suspect is being opened here

	mu        sync.Mutex
	set       map[conversation.Key]bool
	fresh     map[conversation.Key]bool // quarantined by this node since a look began
	soon      map[conversation.Key]bool // about to be quarantined for failures of this node
	crashes   map[conversation.Key][]crash
	past      []storage.JournalEntry         // crashes over what was opened since, to be forgiven
	urgent    bool                           // some of these were named
	waiting   int                            // suspects that wait for their turn
	vain      map[conversation.Key]int       // unanswered probes of a suspect
	releasing conversation.Key               // quarantined, and being opened alone; "" is none
	due       map[conversation.Key]time.Time // when a quarantined conversation is tried again
}

// crash is what a journal reports of a node that crashed while it opened or read a conversation.
type crash struct {
	ref   storage.JournalRef
	entry storage.JournalEntry
	// named: nothing else was being opened or read. counts: nor worked on. paused: the opening
	// had not begun, so that the crash had another cause.
	named, counts, paused bool
}

func newQuarantine(limit int) *Quarantine {
	return &Quarantine{
		limit: limit, turn: make(chan struct{}, 1),
		set: map[conversation.Key]bool{}, fresh: map[conversation.Key]bool{}, soon: map[conversation.Key]bool{}, crashes: map[conversation.Key][]crash{},
		vain: map[conversation.Key]int{}, due: map[conversation.Key]time.Time{},
	}
}

// has reports whether a conversation is quarantined.
func (a *Quarantine) has(key conversation.Key) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.set[key]
}

// Suspects reports whether a node crashed while it opened a conversation, or read its log.
func (a *Quarantine) Suspects(key conversation.Key) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.crashes[key]) > 0
}

// evidence counts the crashes over a conversation while nothing else was being opened, and those
// that count against it.
func (a *Quarantine) evidence(key conversation.Key) (named, counted int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count(key)
}

// count is evidence. A crash in the pause before an opening takes one back: where nodes crash for
// another reason, that happens far more often than a crash in the opening. The caller holds mu.
func (a *Quarantine) count(key conversation.Key) (named, counted int) {
	for _, c := range a.crashes[key] {
		switch {
		case c.paused:
			counted--
		case c.counts:
			counted++
			named++
		case c.named:
			named++
		}
	}
	return named, max(0, counted)
}

// Count is how many conversations are quarantined.
func (a *Quarantine) Count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.set)
}

// Refused is the error of requests to a conversation that is quarantined, or is about to be; nil
// for any other.
func (a *Quarantine) Refused(key conversation.Key) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, counted := a.count(key); !a.set[key] && counted < a.limit || a.releasing == key {
		return nil
	}
	return &conversation.Error{Code: conversation.CodeQuarantined}
}

// look begins to find out what is quarantined.
func (a *Quarantine) look() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.fresh)
}

// looked takes what was found, and returns what is quarantined no more.
func (a *Quarantine) looked(found []conversation.Key) (back []conversation.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	set := make(map[conversation.Key]bool, len(found)+len(a.fresh))
	for _, key := range found {
		set[key] = true
	}
	for key := range a.fresh {
		set[key] = true
	}
	for key := range a.set {
		if !set[key] {
			back = append(back, key)
		}
	}
	a.set = set
	maps.DeleteFunc(a.due, func(key conversation.Key, _ time.Time) bool { return !set[key] })
	slices.Sort(back)
	return back
}

// begin reports whether a conversation is to be quarantined, which end ends: a second time
// might come after it was put back.
func (a *Quarantine) begin(key conversation.Key) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.soon[key] {
		return false
	}
	a.soon[key] = true
	return true
}

func (a *Quarantine) end(key conversation.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.soon, key)
}

func (a *Quarantine) add(key conversation.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.set[key], a.fresh[key] = true, true
}

// suspect takes which nodes have crashed over which conversations.
func (a *Quarantine) suspect(crashes map[conversation.Key][]crash) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.crashes = crashes
	maps.DeleteFunc(a.vain, func(key conversation.Key, _ int) bool { return crashes[key] == nil })
}

// clear ends the suspicion of a conversation that was opened, and returns the crashes over it.
func (a *Quarantine) clear(key conversation.Key) []crash {
	a.mu.Lock()
	defer a.mu.Unlock()
	crashes := a.crashes[key]
	delete(a.crashes, key)
	for _, c := range crashes {
		a.past, a.urgent = append(a.past, c.entry), a.urgent || c.named
	}
	return crashes
}

// takePast returns the crashes to be forgiven, once there are some and it is worth a write.
func (a *Quarantine) takePast() []storage.JournalEntry {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.urgent && a.waiting > 0 && len(a.past) < expireTogether {
		return nil
	}
	past := a.past
	a.past, a.urgent = nil, false
	return past
}

// named returns the conversations over which nodes crashed while nothing else was being opened,
// those that most crashed over first.
func (a *Quarantine) named() (keys []conversation.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	crashes := map[conversation.Key]int{}
	for key := range a.crashes {
		if n, _ := a.count(key); n > 0 {
			keys, crashes[key] = append(keys, key), n
		}
	}
	slices.SortFunc(keys, func(x, y conversation.Key) int {
		return cmp.Or(cmp.Compare(crashes[y], crashes[x]), cmp.Compare(x, y))
	})
	return keys
}

// asked takes note of whether a suspect that was asked for has answered.
func (a *Quarantine) asked(key conversation.Key, answered bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if answered {
		delete(a.vain, key)
		return
	}
	a.vain[key]++
}

// order is that in which suspects are asked for: those that have not answered come last,
// those that fewest nodes crashed over first.
func (a *Quarantine) order(keys []conversation.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	crashes := func(key conversation.Key) int {
		named, _ := a.count(key)
		return named
	}
	slices.SortFunc(keys, func(x, y conversation.Key) int {
		return cmp.Or(cmp.Compare(a.vain[x], a.vain[y]), cmp.Compare(crashes(x), crashes(y)), cmp.Compare(x, y))
	})
}

// enter waits until no other suspect is being opened here. Whoever entered leaves.
func (a *Quarantine) enter(ctx context.Context) error {
	a.mu.Lock()
	a.waiting++
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		a.waiting--
		a.mu.Unlock()
	}()
	select {
	case a.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for other conversations to be opened: %w", ctx.Err())
	}
}

func (a *Quarantine) leave() { <-a.turn }

// setAside quarantines a conversation.
func (w *Sweeper) quarantine(ctx context.Context, key conversation.Key, why string, failures int) error {
	ctx, cancel := context.WithTimeout(ctx, quarantineTimeout)
	defer cancel()
	did, err := storage.PutQuarantine(ctx, w.o.Bucket, storage.Quarantine{
		Conv: key, At: conversation.TimeOf(w.o.Wall()), Why: why, Failures: failures,
	})
	if err != nil {
		return err
	}
	w.Quarantine.add(key)
	if did {
		w.o.Logger.Error("conversation is quarantined", "conversation", string(key), "failures", failures, "err", errors.New(why),
			"remedy", "repair it; nodes try it again later, and parley log quarantine --release has them try it now")
	}
	return nil
}

// Failed counts that a log cannot be opened, for a reason that stays, and returns what sets
// the conversation aside when that is too often, else nil.
func (w *Sweeper) Failed(key conversation.Key, why error) (quarantine func(context.Context)) {
	n := w.unread.failed(key, w.o.Every)
	if n < w.Quarantine.limit || !w.Quarantine.begin(key) {
		return nil
	}
	return func(ctx context.Context) {
		defer w.Quarantine.end(key)
		err := w.quarantine(ctx, key, why.Error(), n)
		if err == nil {
			w.unread.opened(key) // Put back, it begins anew.
		} else if ctx.Err() == nil {
			w.o.Logger.Error("set conversation aside", "conversation", string(key), "err", err)
		}
	}
}

// IsNews notes why a log cannot be opened, and reports whether it is not what was noted
// last.
func (w *Sweeper) IsNews(key conversation.Key, err error) bool { return w.unread.news(key, err) }

// Survived takes note of a conversation that was opened here: the crashes over it before had
// another cause.
func (w *Sweeper) Survived(key conversation.Key) {
	w.unread.opened(key)
	for _, c := range w.Quarantine.clear(key) {
		w.answered(c.ref, c.entry)
	}
}

// loadQuarantine finds out what is quarantined.
func (w *Sweeper) loadQuarantine(ctx context.Context) error {
	w.Quarantine.look()
	keys, err := storage.ListQuarantine(ctx, w.o.Bucket)
	if err != nil {
		return err
	}
	for _, key := range w.Quarantine.looked(keys) {
		w.o.Logger.Info("conversation is put back", "conversation", string(key))
	}
	return nil
}

// FirstLook lists what must not be opened, before anything is, and tries the suspects that nodes
// have crashed over: nothing else is under way here yet. A bucket that does not answer soon holds
// up no start: then nothing is known until it has answered a sweep. The quarantined are listed
// first: a journal that comes slowly must not keep them unknown.
func (w *Sweeper) FirstLook(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, firstLookTimeout)
	defer cancel()
	err := w.loadQuarantine(limited)
	var s *stock
	if err == nil {
		s, err = w.scan(limited)
	}
	if err != nil && ctx.Err() == nil {
		w.o.Logger.Warn("look for what is quarantined", "err", err)
	}
	if err == nil {
		s.trial(ctx)
	}
}
