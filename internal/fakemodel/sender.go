package fakemodel

import (
	"net/http"
	"strings"

	"github.com/parleyrun/parley/providers/eventstream"
)

// maxPending limits the unsent output in bytes.
const maxPending = 32 << 10

// sender buffers the events of a stream, in most formats server-sent events. deliver flushes them, and
// write sends them at the end. Output without waits so leaves in one piece, as from a fast vendor.
// Errors of a closed connection are ignored; its context ends the response.
type sender struct {
	w       http.ResponseWriter
	pending []byte // complete events
	begun   bool
}

// add appends an event, and writes when maxPending is reached.
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

// event appends a server-sent event with an optional name.
func (s *sender) event(name string, data []byte) {
	before := "data: "
	if name != "" {
		before = "event: " + name + "\ndata: "
	}
	s.add("text/event-stream", before, data, "\n\n")
}

// frame appends an event in the binary framing of AWS.
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

// deliver flushes all events to the client.
func (s *sender) deliver() {
	if s.write(); s.begun {
		_ = http.NewResponseController(s.w).Flush()
	}
}

// write sends all events without a flush, which the end of the handler does; that saves a write.
func (s *sender) write() {
	if len(s.pending) > 0 {
		_, _ = s.w.Write(s.pending)
		s.pending = s.pending[:0]
	}
}
