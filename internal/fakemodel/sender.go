package fakemodel

import (
	"bytes"
	"fmt"
	"net/http"
	"unicode/utf8"
)

// sender writes server-sent events. Once the caller is gone it writes nothing;
// the caller's context ends the response.
type sender struct {
	w     http.ResponseWriter
	flush func() error
	begun bool
	gone  bool
}

// event sends one event, named or not, whose data is a text or has a JSON form.
func (s *sender) event(name string, data any) {
	if !s.begun {
		s.begun = true
		s.w.Header().Set("Content-Type", "text/event-stream")
		s.w.Header().Set("Cache-Control", "no-cache")
	}
	if s.gone {
		return
	}
	var b bytes.Buffer
	if name != "" {
		fmt.Fprintf(&b, "event: %s\n", name)
	}
	text, ok := data.(string)
	if !ok {
		text = string(encode(data))
	}
	fmt.Fprintf(&b, "data: %s\n\n", text)
	if _, err := s.w.Write(b.Bytes()); err != nil {
		s.gone = true
		return
	}
	s.gone = s.flush() != nil
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
