package busy

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// SlowOpening is how long a log may be read for a caller before the journal says so.
const SlowOpening = 250 * time.Millisecond

// EnterOpening lets an activation read its log, unless the conversation is set aside: of
// suspects one is opened at a time. Where a sweep or a timer asks, nobody else may know of
// the conversation, and it is asked for again and again: so the journal says first, under
// id, that it is about to be opened. Callers do not wait for that, unless reading takes
// long. Read is called when the log is read, and leave, also after an error, when the
// machine has it.
func (w *Sweeper) EnterOpening(ctx context.Context, id ID, announced bool) (read, leave func(), err error) {
	leave = func() {}
	if w.Asides.Suspects(id.Conv) && suspectsTakeTurns() {
		if err := w.Asides.enter(ctx); err != nil {
			return nil, leave, err
		}
		announced, leave = true, w.Asides.leave
	}
	if err := w.Asides.Refused(id.Conv); err != nil {
		return nil, leave, err
	}
	if !announced || !announcesOpening() {
		return w.listIfSlow(id), leave, nil
	}
	return func() {}, leave, w.Journal.OpeningListed(ctx, id)
}

// AnnounceOpening has the journal say what was begun for callers, because a sweep or a timer
// asks by now. A suspect may wait for its turn: it is listed of when that comes.
func (w *Sweeper) AnnounceOpening(id ID) {
	if announcesOpening() && !w.Asides.Suspects(id.Conv) {
		w.Journal.Opening(id, func() {})
	}
}

// Reading is listed by who reads a log without opening the conversation, as for readers, and
// over that it was. A suspect is read when its turn has come and the journal says so: the
// next death has to name one.
func (w *Sweeper) Reading(ctx context.Context, key conversation.Key) (over func(), err error) {
	if !w.Asides.Suspects(key) || !suspectsTakeTurns() {
		return w.AnnounceReading(key), nil
	}
	if err := w.Asides.enter(ctx); err != nil {
		return nil, err
	}
	id := w.readingID(key)
	over = func() {
		w.endReading(id)
		w.Asides.leave()
	}
	if err = w.Asides.Refused(key); err == nil {
		err = w.Journal.OpeningListed(ctx, id)
	}
	if err != nil {
		over()
		return nil, err
	}
	return over, nil
}

// AnnounceReading has the journal say that a log is being read if that takes long, until over is
// called.
func (w *Sweeper) AnnounceReading(key conversation.Key) (over func()) {
	if !announcesReading() {
		return func() {}
	}
	id := w.readingID(key)
	listed := w.listIfSlow(id)
	return func() {
		listed()
		w.endReading(id)
	}
}

// readMark is in the names of entries of readings.
const readMark = "-read-"

// readingID names the entry of one reading, of which there may be several of a log.
func (w *Sweeper) readingID(key conversation.Key) ID {
	return ID{key, storage.Nonce(fmt.Sprintf("%.40s%s%d", w.o.Member, readMark, w.readings.Add(1)))}
}

// isReading reports whether an entry is that of a reading.
func isReading(n storage.Nonce) bool { return strings.Contains(string(n), readMark) }

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
