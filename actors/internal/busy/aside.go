package busy

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
	// asideTimeout bounds the write that sets a conversation aside.
	asideTimeout = 30 * time.Second
	// firstLookTimeout bounds what a start waits to learn what must not be opened.
	firstLookTimeout = 5 * time.Second
)

// Asides knows which conversations nobody may open, and which are suspects: those that were
// being opened when a node died. Suspects are opened one at a time, so that the next death
// names one.
//
// It is what the last look at the bucket has found. Safe for concurrent use.
type Asides struct {
	limit int           // failures after which a conversation is set aside
	turn  chan struct{} // holds an element while a suspect is being opened here

	mu     sync.Mutex
	set    map[conversation.Key]bool
	fresh  map[conversation.Key]bool // set aside by this node since a look began
	soon   map[conversation.Key]bool // about to be set aside for failures of this node
	deaths map[conversation.Key][]death
	vain   map[conversation.Key]int // how often a suspect was asked for and nobody answered
}

// death is what a journal says of a node that died while it opened a conversation.
type death struct {
	ref   storage.JournalRef
	entry storage.JournalEntry
}

func newAsides(limit int) *Asides {
	return &Asides{
		limit: limit, turn: make(chan struct{}, 1),
		set: map[conversation.Key]bool{}, fresh: map[conversation.Key]bool{}, soon: map[conversation.Key]bool{}, deaths: map[conversation.Key][]death{},
		vain: map[conversation.Key]int{},
	}
}

// has reports whether a conversation is set aside.
func (a *Asides) has(key conversation.Key) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.set[key]
}

// Suspects reports whether a node died while it opened a conversation, or read its log.
func (a *Asides) Suspects(key conversation.Key) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.deaths[key]) > 0
}

// died counts the nodes that died while they opened a conversation.
func (a *Asides) died(key conversation.Key) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.nodes(key)
}

// nodes is died. Reads do not count: many are under way when a node dies of something else,
// and what they have died of ends the next that opens it, too. The caller holds mu.
func (a *Asides) nodes(key conversation.Key) int {
	members := map[string]bool{}
	for _, d := range a.deaths[key] {
		if !isReading(d.entry.Nonce) {
			members[d.ref.Member] = true
		}
	}
	return len(members)
}

// Count is how many conversations are set aside.
func (a *Asides) Count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.set)
}

// Refused is what those get who want something of a conversation that is set aside, or is
// about to be; nil for any other.
func (a *Asides) Refused(key conversation.Key) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.set[key] && a.nodes(key) < a.limit {
		return nil
	}
	return &conversation.Error{Code: conversation.CodeSetAside}
}

// look begins to find out what is set aside.
func (a *Asides) look() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.fresh)
}

// looked takes what was found, and returns what is set aside no more.
func (a *Asides) looked(found []conversation.Key) (back []conversation.Key) {
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
	slices.Sort(back)
	return back
}

// begin reports whether a conversation is to be set aside, which end ends: a second time
// might come after it was put back.
func (a *Asides) begin(key conversation.Key) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.soon[key] {
		return false
	}
	a.soon[key] = true
	return true
}

func (a *Asides) end(key conversation.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.soon, key)
}

func (a *Asides) add(key conversation.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.set[key], a.fresh[key] = true, true
}

// suspect takes over which nodes died over which conversations.
func (a *Asides) suspect(deaths map[conversation.Key][]death) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deaths = deaths
	maps.DeleteFunc(a.vain, func(key conversation.Key, _ int) bool { return deaths[key] == nil })
}

// clear takes back that a conversation is a suspect, because it was opened, and returns what
// spoke against it.
func (a *Asides) clear(key conversation.Key) []death {
	a.mu.Lock()
	defer a.mu.Unlock()
	deaths := a.deaths[key]
	delete(a.deaths, key)
	return deaths
}

// asked takes note of whether a suspect that was asked for has answered.
func (a *Asides) asked(key conversation.Key, answered bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if answered {
		delete(a.vain, key)
		return
	}
	a.vain[key]++
}

// order is that in which suspects are asked for: those that have not answered come last,
// those that fewest nodes died over first.
func (a *Asides) order(keys []conversation.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	slices.SortFunc(keys, func(x, y conversation.Key) int {
		return cmp.Or(cmp.Compare(a.vain[x], a.vain[y]), cmp.Compare(a.nodes(x), a.nodes(y)), cmp.Compare(x, y))
	})
}

// enter waits until no other suspect is being opened here. Whoever entered leaves.
func (a *Asides) enter(ctx context.Context) error {
	select {
	case a.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for other conversations to be opened: %w", ctx.Err())
	}
}

func (a *Asides) leave() { <-a.turn }

// setAside has nobody open a conversation until an operator puts it back.
func (w *Sweeper) setAside(ctx context.Context, key conversation.Key, why string, failures int) error {
	ctx, cancel := context.WithTimeout(ctx, asideTimeout)
	defer cancel()
	did, err := storage.SetAside(ctx, w.o.Bucket, storage.Aside{
		Conv: key, At: conversation.TimeOf(w.o.Wall()), Why: why, Failures: failures,
	})
	if err != nil {
		return err
	}
	w.Asides.add(key)
	if did {
		w.o.Logger.Error("conversation is set aside", "conversation", string(key), "failures", failures, "err", errors.New(why),
			"remedy", "mend it, then parley log aside --put-back")
	}
	return nil
}

// Failed counts that a log cannot be opened, for a reason that stays, and returns what sets
// the conversation aside when that is too often, else nil.
func (w *Sweeper) Failed(key conversation.Key, why error) (setAside func(context.Context)) {
	n := w.unread.failed(key, w.o.Every)
	if n < w.Asides.limit || !w.Asides.begin(key) {
		return nil
	}
	return func(ctx context.Context) {
		defer w.Asides.end(key)
		err := w.setAside(ctx, key, why.Error(), n)
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

// Survived takes note of a conversation that was opened here: what died over it before died
// of something else.
func (w *Sweeper) Survived(key conversation.Key) {
	w.unread.opened(key)
	for _, d := range w.Asides.clear(key) {
		w.answered(d.ref, d.entry)
	}
}

// lookAside finds out what is set aside.
func (w *Sweeper) lookAside(ctx context.Context) error {
	w.Asides.look()
	keys, err := storage.ListAside(ctx, w.o.Bucket)
	if err != nil {
		return err
	}
	for _, key := range w.Asides.looked(keys) {
		w.o.Logger.Info("conversation is put back", "conversation", string(key))
	}
	return nil
}

// FirstLook finds out what must not be opened, before anything is. A bucket that does not
// tell soon holds up no start: then nothing is known until it has told a sweep. What is set
// aside is asked first: a journal that comes slowly must not keep that unknown.
func (w *Sweeper) FirstLook(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, firstLookTimeout)
	defer cancel()
	err := w.lookAside(limited)
	if err == nil {
		_, err = w.takeStock(limited)
	}
	if err != nil && ctx.Err() == nil {
		w.o.Logger.Warn("look for what is set aside", "err", err)
	}
}
