package providertest_test

import (
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/providertest"
)

// frames is a binary framing: the length of the data, the length of the padding, the data, and the
// padding.
type frames struct{}

func (frames) Frame(data string) []byte { return frame(data, 0) }

func frame(data string, padding byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(len(data)))
	b = append(append(b, padding), data...)
	return append(b, make([]byte, padding)...)
}

func (frames) Variants(body []byte) map[string][]byte {
	var padded []byte
	for len(body) > 0 {
		n := binary.BigEndian.Uint16(body)
		padded = append(padded, frame(string(body[3:3+n]), 7)...)
		body = body[3+n:]
	}
	return map[string][]byte{"padded": padded}
}

// framed is a codec over frames. Each frame is text, and an empty one ends the response.
type framed struct{ providers.Codec }

func (framed) Decode(src io.Reader, a *providers.Assembler) error {
	for !a.Stopped() {
		var head [3]byte
		if _, err := io.ReadFull(src, head[:]); err != nil {
			return truncated(err)
		}
		n := int(binary.BigEndian.Uint16(head[:]))
		data := make([]byte, n+int(head[2]))
		if _, err := io.ReadFull(src, data); err != nil {
			return truncated(err)
		}
		if n == 0 {
			a.Finish(providers.Done{StopReason: providers.StopStop})
			return nil
		}
		a.Text(string(data[:n]))
	}
	return nil
}

func truncated(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func TestBinaryFraming(t *testing.T) {
	body := append(append(frame("a\n\nb", 0), frame("\r", 0)...), frame("", 0)...)
	providertest.RunCodec(t, providertest.Recording{Codec: framed{}, Framing: frames{}, Body: body, Complete: len(body)})
	providertest.RunEndless(t, framed{}, frames{}, map[providers.Limited]map[string]func(int) string{
		providers.LimitedReply: {"text": func(int) string { return "more" }},
	})
}
