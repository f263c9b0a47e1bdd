package machine

import (
	"errors"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// errOvertaken ends a machine whose log goes on where it has not written.
var errOvertaken = errors.New("the log goes on above what is known here")

// looks are the questions where the log ends. One is under way at a time, and who
// comes meanwhile waits for the next, which they share.
type looks struct {
	begun, done int
	tail        conversation.Offset // the highest that one has found
}

// confirm answers with what is true only as long as nobody else has written: that
// there is nothing to abort, or that a condition fails. What this machine remembers
// is no proof of that, be its writer verified or not; another node may own the
// conversation by now. So the bucket is asked, after the question, where the log ends:
// it must be what this machine has read or written itself.
func (m *Machine) confirm(to ReplyID, value Answer) {
	m.waits = append(m.waits, wait{to: to, value: value, offset: m.state.Head(), look: m.looks.begun + 1})
	m.look()
}

// look begins a look unless one is under way.
func (m *Machine) look() {
	if m.looks.begun == m.looks.done {
		m.looks.begun++
		m.emit(Look{After: m.durable})
	}
}

// looked takes the outcome of a look. What it found above the durable prefix may be
// the batch in flight, whose own outcome then decides.
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

// refuseLooks refuses those who waited for a look that has failed.
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

// confirmed reports whether the look that a reply waits for has found nothing which
// this machine does not know to be durable.
func (m *Machine) confirmed(w wait) bool {
	return w.look == 0 || w.look <= m.looks.done && m.looks.tail <= m.durable
}
