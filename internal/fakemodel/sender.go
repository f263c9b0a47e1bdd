package fakemodel

import (
	"net/http"
	"unicode/utf8"
)

// maxPending bounds what is said without a wait before it is sent, in bytes.
const maxPending = 32 << 10

// sender writes server-sent events. They leave with deliver, or with write at the
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

// event adds one event, named or not, whose data is a text or has a JSON form.
func (s *sender) event(name string, data any) {
	if !s.begun {
		s.begun = true
		s.w.Header().Set("Content-Type", "text/event-stream")
		s.w.Header().Set("Cache-Control", "no-cache")
	}
	if s.gone {
		return
	}
	if name != "" {
		s.pending = append(append(append(s.pending, "event: "...), name...), '\n')
	}
	s.pending = append(s.pending, "data: "...)
	if text, ok := data.(string); ok {
		s.pending = append(s.pending, text...)
	} else {
		s.pending = append(s.pending, encode(data)...)
	}
	s.pending = append(s.pending, "\n\n"...)
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

// object is JSON whose keys come out sorted.
type object = map[string]any

// halves cuts a text in two, between runes, as vendors send arguments in pieces.
func halves(s string) [2]string {
	at := len(s) / 2
	for at > 0 && at < len(s) && !utf8.RuneStart(s[at]) {
		at--
	}
	return [2]string{s[:at], s[at:]}
}
