package actors

import (
	"context"
	"errors"
	"fmt"
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
	deaths map[conversation.Key]int  // nodes that died while they opened it
}

func newAsides(limit int) *asides {
	return &asides{
		limit: limit, turn: make(chan struct{}, 1),
		set: map[conversation.Key]bool{}, fresh: map[conversation.Key]bool{}, deaths: map[conversation.Key]int{},
	}
}

// has reports whether a conversation is set aside.
func (a *asides) has(key conversation.Key) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.set[key]
}

// died counts the nodes that died while they opened a conversation.
func (a *asides) died(key conversation.Key) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.deaths[key]
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
	if !a.set[key] && a.deaths[key] < a.limit {
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

func (a *asides) add(key conversation.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.set[key], a.fresh[key] = true, true
}

// suspect takes over how many nodes died over which conversations.
func (a *asides) suspect(deaths map[conversation.Key]int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deaths = deaths
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
