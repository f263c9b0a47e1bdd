package pending

import (
	"context"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// SlowOpening is the time after which a log read for a caller is listed in the journal.
const SlowOpening = 250 * time.Millisecond

// EnterOpening permits an activation to read its log, unless the conversation is quarantined. A
// suspect is opened alone. If announced is set, a sweep or a timer asked and repeats its request,
// while no other node may know of the conversation: the journal first lists the opening under id.
// Openings for callers are listed only if reading is slow or if a node has crashed recently. The
// caller calls read when the log is read, and leave, even after an error, when the machine has it.
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

// AnnounceOpening lists an opening that began for callers, because a sweep or a timer now asks for it
// too. A suspect that waits for its turn is listed then.
func (w *Sweeper) AnnounceOpening(id ID) {
	if announcesOpening() && !w.Quarantine.Suspects(id.Conv) {
		w.Journal.Opening(id, func() {})
	}
}

// Reading permits a read of a log without opening the conversation, as for readers. The caller calls
// over after the read. A suspect is read alone.
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

// AnnounceReading lists a read like Reading, of a log that is not a suspect's. Its wait is bounded.
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

// announceReading lists a slow read of a log until over is called.
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
		w.Journal.Signal()
	}
}

// listIfSlow lists an opening unless over is called soon. After over returns, the entry is listed or
// never will be.
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

// afterCrash is the time after a detected crash in which every opening and read is listed before it
// begins. The reason is that the next crash may follow soon.
const afterCrash = 10 * time.Minute

// isAfterCrash reports whether this node found the journal of a crashed node within afterCrash.
func (w *Sweeper) isAfterCrash() bool {
	at := w.crashed.Load()
	return at != nil && time.Since(*at) < afterCrash
}
