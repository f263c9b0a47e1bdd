package actors

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// reading is told by who reads a log without opening the conversation, as for readers, and
// over that it was. A suspect is read when its turn has come and the journal says so: the
// next death has to name one.
func (r *Runtime) reading(ctx context.Context, key conversation.Key) (over func(), err error) {
	if !r.aside.suspects(key) || !suspectsTakeTurns() {
		return r.foretell(key), nil
	}
	if err := r.aside.enter(ctx); err != nil {
		return nil, err
	}
	id := r.readingID(key)
	over = func() {
		r.endReading(id)
		r.aside.leave()
	}
	if err = r.aside.refused(key); err == nil {
		err = r.journal.openingListed(ctx, id)
	}
	if err != nil {
		over()
		return nil, err
	}
	return over, nil
}

// foretell has the journal say that a log is being read if that takes long, until over is
// called.
func (r *Runtime) foretell(key conversation.Key) (over func()) {
	if !foretellsReading() {
		return func() {}
	}
	id := r.readingID(key)
	told := r.tellIfSlow(id)
	return func() {
		told()
		r.endReading(id)
	}
}

// readMark is in the names of entries of readings.
const readMark = "-read-"

// readingID names the entry of one reading, of which there may be several of a log.
func (r *Runtime) readingID(key conversation.Key) entryID {
	return entryID{key, storage.Nonce(fmt.Sprintf("%.40s%s%d", r.journal.member, readMark, r.readings.Add(1)))}
}

// isReading reports whether an entry is that of a reading.
func isReading(n storage.Nonce) bool { return strings.Contains(string(n), readMark) }

func (r *Runtime) endReading(id entryID) {
	if r.journal.opened(id) {
		r.journal.wake()
	}
}

// tellIfSlow makes an entry of an opening unless the function that it returns is called
// soon. After that one has returned the entry is there or never will be.
func (r *Runtime) tellIfSlow(id entryID) (over func()) {
	told := make(chan struct{})
	slow := time.AfterFunc(slowOpening, func() {
		defer close(told)
		r.journal.opening(id, func() {})
	})
	return func() {
		if !slow.Stop() {
			<-told
		}
	}
}
