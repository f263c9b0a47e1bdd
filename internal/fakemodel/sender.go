package fakemodel

import "net/http"

// maxPending bounds what is said without a wait before it is sent, in bytes.
const maxPending = 32 << 10

// sender writes the events of a stream, in most formats server-sent ones. They leave with deliver, or with write at the
// end: words that nothing holds back leave in one piece, as those of a fast vendor
// do. Once the caller is gone it writes nothing; the caller's context ends
// the response.
type sender struct {
	w       http.ResponseWriter
	flush   func() error
	pending []byte // Whole events.
	begun   bool
	gone    bool
}

// begin makes the response a stream of a type, and reports whether anybody listens.
func (s *sender) begin(contentType string) bool {
	if !s.begun {
		s.begun = true
		s.w.Header().Set("Content-Type", contentType)
		s.w.Header().Set("Cache-Control", "no-cache")
	}
	return !s.gone
}

// event adds one event, named or not.
func (s *sender) event(name, data string) {
	if !s.begin("text/event-stream") {
		return
	}
	if name != "" {
		s.pending = append(append(append(s.pending, "event: "...), name...), '\n')
	}
	s.pending = append(append(append(s.pending, "data: "...), data...), "\n\n"...)
	s.bound()
}

// bound sends what is waiting once that is much.
func (s *sender) bound() {
	if len(s.pending) > maxPending {
		s.deliver()
	}
}

// deliver makes the caller see every event so far.
func (s *sender) deliver() {
	if s.write(); s.begun && !s.gone {
		s.gone = s.flush() != nil
	}
}

// write is deliver without a flush: the end of the handler does it, and that is one
// write less.
func (s *sender) write() {
	if len(s.pending) == 0 || s.gone {
		return
	}
	_, err := s.w.Write(s.pending)
	s.gone, s.pending = err != nil, s.pending[:0]
}
