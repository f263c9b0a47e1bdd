package actors

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

// asides knows which conversations nobody may open, and which are suspects: those that were
// being opened when a node died. Suspects are opened one at a time, so that the next death
// names one.
//
// It is what the last look at the bucket has found. Safe for concurrent use.
type asides struct {
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

func newAsides(limit int) *asides {
	return &asides{
		limit: limit, turn: make(chan struct{}, 1),
		set: map[conversation.Key]bool{}, fresh: map[conversation.Key]bool{}, soon: map[conversation.Key]bool{}, deaths: map[conversation.Key][]death{},
		vain: map[conversation.Key]int{},
	}
}

// has reports whether a conversation is set aside.
func (a *asides) has(key conversation.Key) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.set[key]
}

// suspects reports whether a node died while it opened a conversation, or read its log.
func (a *asides) suspects(key conversation.Key) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.deaths[key]) > 0
}

// died counts the nodes that died while they opened a conversation.
func (a *asides) died(key conversation.Key) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.nodes(key)
}

// nodes is died. Reads do not count: many are under way when a node dies of something else,
// and what they have died of ends the next that opens it, too. The caller holds mu.
func (a *asides) nodes(key conversation.Key) int {
	members := map[string]bool{}
	for _, d := range a.deaths[key] {
		if !isReading(d.entry.Nonce) {
			members[d.ref.Member] = true
		}
	}
	return len(members)
}

// count is how many conversations are set aside.
func (a *asides) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.set)
}

// refused is what those get who want something of a conversation that is set aside, or is
// about to be; nil for any other.
func (a *asides) refused(key conversation.Key) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.set[key] && a.nodes(key) < a.limit {
		return nil
	}
	return &conversation.Error{Code: conversation.CodeSetAside}
}

// look begins to find out what is set aside.
func (a *asides) look() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.fresh)
}

// looked takes what was found, and returns what is set aside no more.
func (a *asides) looked(found []conversation.Key) (back []conversation.Key) {
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
func (a *asides) begin(key conversation.Key) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.soon[key] {
		return false
	}
	a.soon[key] = true
	return true
}

func (a *asides) end(key conversation.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.soon, key)
}

func (a *asides) add(key conversation.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.set[key], a.fresh[key] = true, true
}

// suspect takes over which nodes died over which conversations.
func (a *asides) suspect(deaths map[conversation.Key][]death) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deaths = deaths
	maps.DeleteFunc(a.vain, func(key conversation.Key, _ int) bool { return deaths[key] == nil })
}

// clear takes back that a conversation is a suspect, because it was opened, and returns what
// spoke against it.
func (a *asides) clear(key conversation.Key) []death {
	a.mu.Lock()
	defer a.mu.Unlock()
	deaths := a.deaths[key]
	delete(a.deaths, key)
	return deaths
}

// asked takes note of whether a suspect that was asked for has answered.
func (a *asides) asked(key conversation.Key, answered bool) {
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
func (a *asides) order(keys []conversation.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	slices.SortFunc(keys, func(x, y conversation.Key) int {
		return cmp.Or(cmp.Compare(a.vain[x], a.vain[y]), cmp.Compare(a.nodes(x), a.nodes(y)), cmp.Compare(x, y))
	})
}

// enter waits until no other suspect is being opened here. Whoever entered leaves.
func (a *asides) enter(ctx context.Context) error {
	select {
	case a.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for other conversations to be opened: %w", ctx.Err())
	}
}

func (a *asides) leave() { <-a.turn }

// setAside has nobody open a conversation until an operator puts it back.
func (r *Runtime) setAside(ctx context.Context, key conversation.Key, why string, failures int) error {
	ctx, cancel := context.WithTimeout(ctx, asideTimeout)
	defer cancel()
	did, err := storage.SetAside(ctx, r.bucket, storage.Aside{
		Conv: key, At: conversation.TimeOf(r.wall()), Why: why, Failures: failures,
	})
	if err != nil {
		return err
	}
	r.aside.add(key)
	if did {
		r.log.Error("conversation is set aside", "conversation", string(key), "failures", failures, "err", errors.New(why),
			"remedy", "mend it, then parley log aside --put-back")
	}
	return nil
}

// survived takes note of a conversation that was opened here: what died over it before died
// of something else.
func (r *Runtime) survived(key conversation.Key) {
	for _, d := range r.aside.clear(key) {
		r.answered(d.ref, d.entry)
	}
}

// lookAside finds out what is set aside.
func (r *Runtime) lookAside(ctx context.Context) error {
	r.aside.look()
	keys, err := storage.ListAside(ctx, r.bucket)
	if err != nil {
		return err
	}
	for _, key := range r.aside.looked(keys) {
		r.log.Info("conversation is put back", "conversation", string(key))
	}
	return nil
}

// firstLook finds out what must not be opened, before anything is. A bucket that does not
// tell soon holds up no start: then nothing is known until it has told a sweep. What is set
// aside is asked first: a journal that comes slowly must not keep that unknown.
func (r *Runtime) firstLook(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, firstLookTimeout)
	defer cancel()
	err := r.lookAside(limited)
	if err == nil {
		_, err = r.takeStock(limited)
	}
	if err != nil && ctx.Err() == nil {
		r.log.Warn("look for what is set aside", "err", err)
	}
}
