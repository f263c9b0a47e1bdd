package providertest

import (
	"bytes"
	"fmt"
)

// Framing encodes events in a stream. Formats without server-sent events implement their own, which
// may be binary.
type Framing interface {
	// Frame returns an encoded event.
	Frame(data string) []byte
	// Variants returns equivalent encodings of a stream, by name.
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

// Variants implements Framing. It varies line ends, comments, a byte order mark, and the blank line at
// the end.
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
