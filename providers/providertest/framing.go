package providertest

import (
	"bytes"
	"fmt"
)

// Framing is how a wire format puts events into a stream. A format whose frames are not
// server-sent events brings its own, also a binary one.
type Framing interface {
	// Frame returns an event of some data as it stands in a stream.
	Frame(data string) []byte
	// Variants returns a stream in other frames that mean the same, by name.
	Variants(body []byte) map[string][]byte
}

func framingOr(f Framing) Framing {
	if f == nil {
		return SSE{}
	}
	return f
}

// SSE is the framing of server-sent events.
type SSE struct{}

// Frame implements Framing.
func (SSE) Frame(data string) []byte { return fmt.Appendf(nil, "data: %s\n\n", data) }

// Variants implements Framing: other line ends, comments, a byte order mark, and an end
// without a blank line.
func (SSE) Variants(body []byte) map[string][]byte {
	replace := func(old, with string) []byte { return bytes.ReplaceAll(body, []byte(old), []byte(with)) }
	return map[string][]byte{
		"CRLF":                    replace("\n", "\r\n"),
		"CR":                      replace("\n", "\r"),
		"comments between events": replace("\n\n", "\n\n: ping\n\n"),
		"comments within events":  replace("\n\n", "\n: ping\n\n"),
		"byte order mark":         append([]byte("\ufeff"), body...),
		"last blank line missing": bytes.TrimRight(body, "\n"),
	}
}
