package machine

import (
	"errors"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// errOvertaken stops a machine when the log has batches that it did not write.
var errOvertaken = errors.New("the log goes on above what is known here")

// looks are the reads of the log's tail. One is under way at a time. Callers that arrive during it
// share the next.
type looks struct {
	begun, done int
	tail        conversation.Offset // the highest tail found
}

// confirm answers with a value that is true only if no other writer has appended: nothing to abort, or
// a failed condition. The machine's memory is no proof of that, even with a verified writer, because
// another node may own the conversation by now. So the tail of the log is read after the question. It
// must be a batch that this machine has read or written.
func (m *Machine) confirm(to ReplyID, value Answer) {
	m.waits = append(m.waits, wait{to: to, value: value, offset: m.state.Head(), look: m.looks.begun + 1})
	m.look()
}

// look starts a read of the tail unless one is under way.
func (m *Machine) look() {
	if m.looks.begun == m.looks.done {
		m.looks.begun++
		m.emit(Look{After: m.durable})
	}
}

// looked handles the result of a tail read. A tail above the durable prefix may be the batch in
// flight, whose own outcome then decides.
func (m *Machine) looked(in Looked) {
	m.looks.done = m.looks.begun
	if in.Err != nil {
		m.refuseLooks(in.Err)
	} else {
		m.looks.tail = max(m.looks.tail, in.Tail)
	}
	if m.looks.tail >= m.nextAppend() {
		m.stepDown(errOvertaken)
		return
	}
	for _, w := range m.waits {
		if w.look > m.looks.done {
			m.look()
			return
		}
	}
}

// refuseLooks refuses the callers whose tail read failed.
func (m *Machine) refuseLooks(err error) {
	kept := m.waits[:0]
	for _, w := range m.waits {
		if w.look == m.looks.done {
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
	return w.look == 0 || w.look <= m.looks.done && m.looks.tail <= m.durable
}
