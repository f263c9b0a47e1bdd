package pending

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// release tries the due quarantined conversations of this node, one after the other. One that opens
// while nothing else runs is released, with its pending work.
func (s *scanResult) release(ctx context.Context, starts bool) error {
	w := s.sweeper
	var errs []error
	for _, key := range w.Quarantine.dueAt(time.Now()) {
		if ctx.Err() != nil || w.o.Passive() {
			break
		}
		if !w.o.Owns(key) {
			continue
		}
		errs = append(errs, w.try(ctx, key, starts))
	}
	return errors.Join(errs...)
}

// try opens a quarantined conversation, if it is due, and releases it. The try is stored first, so
// that one that crashes the node is retried after twice the time.
func (w *Sweeper) try(ctx context.Context, key conversation.Key, starts bool) error {
	a, err := storage.ReadQuarantine(ctx, w.o.Bucket, key)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	wait, ok := a.TryAfter(starts)
	since := w.o.Wall().Sub(time.UnixMilli(int64(max(a.At, a.Tried))))
	switch {
	case !ok:
		w.Quarantine.notBefore(key, time.Now().Add(time.Hour))
		return nil
	case since < wait:
		w.Quarantine.notBefore(key, time.Now().Add(wait-since))
		return nil
	case !w.isIdle(key) && since < 2*wait: // A node at work waits for an idle moment, up to a limit.
		return nil
	}
	if err := w.Quarantine.enter(ctx); err != nil {
		return err
	}
	a.Tries, a.Tried = a.Tries+1, conversation.TimeOf(w.o.Wall())
	if recordsTry() {
		err = storage.RecordTry(ctx, w.o.Bucket, a)
	}
	if err != nil {
		w.Quarantine.leave()
		return err
	}
	leave, err := w.alone(ctx, key)
	if err != nil {
		return err
	}
	defer leave()
	w.Quarantine.setReleasing(key)
	defer w.Quarantine.setReleasing("")
	err = storage.Release(ctx, w.o.Bucket, key, func(claim storage.JournalEntry) error { return w.probe(ctx, claim) })
	if err != nil {
		w.o.Logger.Warn("conversation stays quarantined", "conversation", string(key), "tries", a.Tries, "err", err)
		return nil // The next try follows when it is due.
	}
	w.Quarantine.released(key)
	w.o.Logger.Info("conversation released", "conversation", string(key), "tries", a.Tries)
	return nil
}

// dueAt returns the quarantined conversations that may be due.
func (a *Quarantine) dueAt(now time.Time) (keys []conversation.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key := range a.set {
		if !now.Before(a.due[key]) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// notBefore postpones the next try of a quarantined conversation.
func (a *Quarantine) notBefore(key conversation.Key, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.due[key] = at
}

// setReleasing sets the conversation being tried, "" for none.
func (a *Quarantine) setReleasing(key conversation.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.releasing = key
}

// isReleasing reports whether a quarantined conversation is being tried here.
func (a *Quarantine) isReleasing(key conversation.Key) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.releasing == key
}

// released ends the quarantine of a conversation on this node. Other nodes see it at their next scan.
func (a *Quarantine) released(key conversation.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.set, key)
	delete(a.fresh, key)
}
