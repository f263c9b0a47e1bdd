package pending

import (
	"context"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// SlowOpening is how long a log may be read for a caller before the journal says so.
const SlowOpening = 250 * time.Millisecond

// EnterOpening lets an activation read its log, unless the conversation is quarantined. A suspect
// is opened alone. Where a sweep or a timer asks, no other node may know of
// the conversation, and it is asked for again and again: so the journal lists first, under
// id, that it is about to be opened. Callers do not wait for that, unless reading takes
// long, or a node has crashed shortly before. Read is called when the log is read, and leave, also after an error, when the
// machine has it.
func (w *Sweeper) EnterOpening(ctx context.Context, id ID, announced bool) (read, leave func(), err error) {
	read = func() {}
	if w.Quarantine.isReleasing(id.Conv) { // The gate is closed for it, and the journal lists it.
		return read, func() {}, nil
	}
	if leave, alone, err := w.enterAlone(ctx, id.Conv); alone || err != nil {
		return read, leave, err
	}
	if leave, err = w.gate.pass(ctx); err != nil {
		return nil, leave, err
	}
	if err := w.Quarantine.Refused(id.Conv); err != nil {
		return nil, leave, err
	}
	if !announced && !w.isAfterCrash() || !announcesOpening() {
		return w.listIfSlow(id), leave, nil
	}
	return read, leave, w.Journal.OpeningListed(ctx, id)
}

// AnnounceOpening has the journal say what was begun for callers, because a sweep or a timer
// asks by now. A suspect may wait for its turn: it is listed of when that comes.
func (w *Sweeper) AnnounceOpening(id ID) {
	if announcesOpening() && !w.Quarantine.Suspects(id.Conv) {
		w.Journal.Opening(id, func() {})
	}
}

// Reading is called before a log is read without opening the conversation, as for readers, and
// over when it was read. A suspect is read alone.
func (w *Sweeper) Reading(ctx context.Context, key conversation.Key) (over func(), err error) {
	leave, alone, err := w.enterAlone(ctx, key)
	if alone || err != nil {
		return leave, err
	}
	if leave, err = w.gate.pass(ctx); err != nil {
		return nil, err
	}
	if w.isAfterCrash() && announcesReading() {
		id := w.markedID(key, readMark)
		over = func() {
			w.endReading(id)
			leave()
		}
		if err := w.Journal.OpeningListed(ctx, id); err != nil {
			over()
			return nil, err
		}
		return over, nil
	}
	listed := w.announceReading(key)
	return func() {
		listed()
		leave()
	}, nil
}

// AnnounceReading is Reading for a log that is not a suspect's. It waits for a limited time.
func (w *Sweeper) AnnounceReading(key conversation.Key) (over func()) {
	ctx, cancel := context.WithTimeout(context.Background(), soloTimeout)
	defer cancel()
	leave, err := w.gate.pass(ctx)
	listed := w.announceReading(key)
	return func() {
		listed()
		if err == nil {
			leave()
		}
	}
}

// announceReading has the journal list that a log is being read if that takes long, until over is
// called.
func (w *Sweeper) announceReading(key conversation.Key) (over func()) {
	if !announcesReading() {
		return func() {}
	}
	id := w.markedID(key, readMark)
	listed := w.listIfSlow(id)
	return func() {
		listed()
		w.endReading(id)
	}
}

func (w *Sweeper) endReading(id ID) {
	if w.Journal.Opened(id) {
		w.Journal.Nudge()
	}
}

// listIfSlow makes an entry of an opening unless the function that it returns is called
// soon. After that one has returned the entry is there or never will be.
func (w *Sweeper) listIfSlow(id ID) (over func()) {
	listed := make(chan struct{})
	slow := time.AfterFunc(SlowOpening, func() {
		defer close(listed)
		w.Journal.Opening(id, func() {})
	})
	return func() {
		if !slow.Stop() {
			<-listed
		}
	}
}

// afterCrash is for how long a node that found another has crashed lists every opening and read before
// it begins: the next crash may come at once.
const afterCrash = 10 * time.Minute

// isAfterCrash reports whether this node has found shortly before that another, or the one before it, crashed.
func (w *Sweeper) isAfterCrash() bool {
	at := w.crashed.Load()
	return at != nil && time.Since(*at) < afterCrash
}
