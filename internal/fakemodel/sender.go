package fakemodel

import (
	"net/http"
	"strings"

	"github.com/parleyrun/parley/providers/eventstream"
)

// maxPending bounds what is said without a wait before it is sent, in bytes.
const maxPending = 32 << 10

// sender writes the events of a stream, in most formats server-sent ones. They leave with deliver,
// or with write at the end: words that nothing holds back leave in one piece, as those of a fast
// vendor do. What is written once the caller is gone is lost; its context ends the response.
type sender struct {
	w       http.ResponseWriter
	pending []byte // Whole events.
	begun   bool
}

// add adds an event of a stream of a type, and sends what is waiting once that is much.
func (s *sender) add(contentType, before string, event []byte, after string) {
	if !s.begun {
		s.begun = true
		s.w.Header().Set("Content-Type", contentType)
		s.w.Header().Set("Cache-Control", "no-cache")
	}
	s.pending = append(append(append(s.pending, before...), event...), after...)
	if len(s.pending) > maxPending {
		s.deliver()
	}
}

// event adds a server-sent event, named or not.
func (s *sender) event(name string, data []byte) {
	before := "data: "
	if name != "" {
		before = "event: " + name + "\ndata: "
	}
	s.add("text/event-stream", before, data, "\n\n")
}

// frame adds an event in the binary framing of AWS.
func (s *sender) frame(kind string, payload []byte) {
	message := "event"
	if strings.HasSuffix(kind, "Exception") {
		message = "exception"
	}
	headers := []eventstream.Header{
		{Name: ":" + message + "-type", Value: kind}, {Name: ":content-type", Value: "application/json"}, {Name: ":message-type", Value: message},
	}
	s.add("application/vnd.amazon.eventstream", "", eventstream.AppendMessage(nil, headers, payload), "")
}

// deliver makes the caller see every event so far.
func (s *sender) deliver() {
	if s.write(); s.begun {
		_ = http.NewResponseController(s.w).Flush()
	}
}

// write is deliver without a flush: the end of the handler does it, and that is one
// write less.
func (s *sender) write() {
	if len(s.pending) > 0 {
		_, _ = s.w.Write(s.pending)
		s.pending = s.pending[:0]
	}
}
