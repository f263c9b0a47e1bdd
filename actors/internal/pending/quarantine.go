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
	// quarantineTimeout bounds the write that quarantines a conversation.
	quarantineTimeout = 30 * time.Second
	// expireSuspectsTimeout bounds the write that expires crashes.
	expireSuspectsTimeout = 5 * time.Second
	// expireTogether is the number of crashes expired by one write while other suspects wait.
	expireTogether = 16
	// initialScanTimeout bounds the scan at start for conversations that must not be opened.
	initialScanTimeout = 5 * time.Second
)

// Quarantine knows the quarantined conversations and the suspects: those that were being opened when a
// node crashed. Suspects are opened alone, so that the next crash identifies one.
//
// It reflects the last scan of the bucket. Safe for concurrent use.
type Quarantine struct {
	limit int           // number of failures, or of crashes that count, for a quarantine
	turn  chan struct{} // holds an element while a suspect is being opened here

	mu        sync.Mutex
	set       map[conversation.Key]bool
	fresh     map[conversation.Key]bool // quarantined by this node since the last scan began
	soon      map[conversation.Key]bool // being quarantined for failures on this node
	crashes   map[conversation.Key][]crash
	past      []storage.JournalEntry         // crashes over conversations opened since, to be expired
	urgent    bool                           // past has named crashes
	waiting   int                            // suspects waiting for their turn
	vain      map[conversation.Key]int       // unanswered probes of a suspect
	releasing conversation.Key               // quarantined, and being opened alone; "" is none
	due       map[conversation.Key]time.Time // next try of a quarantined conversation
}

// crash is a journal entry of a node that crashed while it opened or read a conversation.
type crash struct {
	ref   storage.JournalRef
	entry storage.JournalEntry
	// named: no other conversation was being opened or read. counts: named, and the node had no other
	// work. paused: the opening had not begun, so the crash had another cause.
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

// Suspects reports whether a node crashed while it opened a conversation or read its log.
func (a *Quarantine) Suspects(key conversation.Key) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.crashes[key]) > 0
}

// evidence returns the number of named crashes over a conversation, and of those that count against
// it.
func (a *Quarantine) evidence(key conversation.Key) (named, counted int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count(key)
}

// count counts the evidence like evidence; mu is held. A crash in the pause before an opening cancels
// one that counts. If nodes crash for another reason, such crashes are far more frequent than crashes
// in the opening.
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

// Count returns the number of quarantined conversations.
func (a *Quarantine) Count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.set)
}

// Refused returns the error of requests to a conversation that is quarantined or about to be, else
// nil.
func (a *Quarantine) Refused(key conversation.Key) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, counted := a.count(key); !a.set[key] && counted < a.limit || a.releasing == key {
		return nil
	}
	return &conversation.Error{Code: conversation.CodeQuarantined}
}

func (a *Quarantine) beginScan() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.fresh)
}

// endScan stores the listed conversations and returns those that are no longer quarantined.
func (a *Quarantine) endScan(found []conversation.Key) (back []conversation.Key) {
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

// begin reports whether the caller may quarantine a conversation, which end concludes. A concurrent
// second attempt could undo a release.
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

// suspect stores the crashes per conversation.
func (a *Quarantine) suspect(crashes map[conversation.Key][]crash) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.crashes = crashes
	maps.DeleteFunc(a.vain, func(key conversation.Key, _ int) bool { return crashes[key] == nil })
}

// clear removes the suspicion of a conversation that was opened, and returns the crashes over it.
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

// takePast returns the crashes to expire, if they justify a write.
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

// named returns the conversations with named crashes, those with most crashes first.
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

// probed records whether a probe of a suspect was answered.
func (a *Quarantine) probed(key conversation.Key, answered bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if answered {
		delete(a.vain, key)
		return
	}
	a.vain[key]++
}

// order sorts suspects for probing: by unanswered probes, then by named crashes, both ascending.
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

// enter waits until no other suspect is being opened here. The caller calls leave after success.
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
		return fmt.Errorf("wait for other openings: %w", ctx.Err())
	}
}

func (a *Quarantine) leave() { <-a.turn }

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
		w.o.Logger.Error("conversation quarantined", "conversation", string(key), "failures", failures, "err", errors.New(why),
			"remedy", "repair it; nodes retry later, or run parley log quarantine --release")
	}
	return nil
}

// Failed counts a permanent failure to open a log. At the limit it returns a function that quarantines
// the conversation, otherwise nil.
func (w *Sweeper) Failed(key conversation.Key, why error) (quarantine func(context.Context)) {
	n := w.unread.failed(key, w.o.Every)
	if n < w.Quarantine.limit || !w.Quarantine.begin(key) {
		return nil
	}
	return func(ctx context.Context) {
		defer w.Quarantine.end(key)
		err := w.quarantine(ctx, key, why.Error(), n)
		if err == nil {
			w.unread.opened(key) // A released conversation starts with no failures.
		} else if ctx.Err() == nil {
			w.o.Logger.Error("quarantine conversation failed", "conversation", string(key), "err", err)
		}
	}
}

// IsNewCause records why a log cannot be opened, and reports whether the cause differs from the last
// one.
func (w *Sweeper) IsNewCause(key conversation.Key, err error) bool { return w.unread.news(key, err) }

// Survived records that a conversation was opened here: earlier crashes over it had another cause.
func (w *Sweeper) Survived(key conversation.Key) {
	w.unread.opened(key)
	for _, c := range w.Quarantine.clear(key) {
		w.answered(c.ref, c.entry)
	}
}

func (w *Sweeper) loadQuarantine(ctx context.Context) error {
	w.Quarantine.beginScan()
	keys, err := storage.ListQuarantine(ctx, w.o.Bucket)
	if err != nil {
		return err
	}
	for _, key := range w.Quarantine.endScan(keys) {
		w.o.Logger.Info("conversation no longer quarantined", "conversation", string(key))
	}
	return nil
}

// InitialScan lists the conversations that must not be opened, before any is opened. It also tries the
// suspects with named crashes while the node has no other work. It is bounded: if the bucket does not
// answer, a later sweep does this. The quarantine is listed first, so that a slow journal does not
// delay it.
func (w *Sweeper) InitialScan(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, initialScanTimeout)
	defer cancel()
	err := w.loadQuarantine(limited)
	var s *scanResult
	if err == nil {
		s, err = w.scan(limited)
	}
	if err != nil && ctx.Err() == nil {
		w.o.Logger.Warn("initial quarantine scan failed", "err", err)
	}
	if err == nil {
		s.trial(ctx)
	}
}
