package machine

import (
	"errors"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// errOvertaken stops a machine when the log has batches that it did not write.
var errOvertaken = errors.New("log has batches of another writer")

// tailReads are the reads of the log's tail. One is under way at a time. Callers that arrive during it
// share the next.
type tailReads struct {
	begun, done int
	tail        conversation.Offset // the highest tail found
}

// confirm answers with a value that is true only if no other writer has appended: nothing to abort, or
// a failed condition. The machine's memory is no proof of that, even with a verified writer, because
// another node may own the conversation by now. So the tail of the log is read after the question. It
// must be a batch that this machine has read or written.
func (m *Machine) confirm(to ReplyID, value Answer) {
	m.waits = append(m.waits, wait{to: to, value: value, offset: m.state.Head(), tailRead: m.tailReads.begun + 1})
	m.readTail()
}

// readTail starts a read of the tail unless one is under way.
func (m *Machine) readTail() {
	if m.tailReads.begun == m.tailReads.done {
		m.tailReads.begun++
		m.emit(ReadTail{After: m.durable})
	}
}

// tailRead handles the result of a tail read. A tail above the durable prefix may be the batch in
// flight, whose own outcome then decides.
func (m *Machine) tailRead(in TailRead) {
	m.tailReads.done = m.tailReads.begun
	if in.Err != nil {
		m.refuseTailReads(in.Err)
	} else {
		m.tailReads.tail = max(m.tailReads.tail, in.Tail)
	}
	if m.tailReads.tail >= m.nextAppend() {
		m.stepDown(errOvertaken)
		return
	}
	for _, w := range m.waits {
		if w.tailRead > m.tailReads.done {
			m.readTail()
			return
		}
	}
}

// refuseTailReads refuses the callers whose tail read failed.
func (m *Machine) refuseTailReads(err error) {
	kept := m.waits[:0]
	for _, w := range m.waits {
		if w.tailRead == m.tailReads.done {
			m.emit(Reply{w.to, Refused{conversation.Unavailable(time.Second, err)}})
			continue
		}
		kept = append(kept, w)
	}
	clear(m.waits[len(kept):])
	m.waits = kept
}

// confirmed reports whether the tail read of a reply is done and found nothing above the durable
// prefix.
func (m *Machine) confirmed(w wait) bool {
	return w.tailRead == 0 || w.tailRead <= m.tailReads.done && m.tailReads.tail <= m.durable
}
