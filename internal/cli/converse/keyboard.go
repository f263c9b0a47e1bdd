package converse

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
)

// Escape sequences of bracketed paste.
const (
	pasteBegins = "\x1b[200~"
	pasteEnds   = "\x1b[201~"
	altEnter    = "\x1b\r"
	ctrlC       = 0x03
	// lineBreak replaces a line end within a message while it is edited.
	lineBreak = "␤"
	// maxTyped bounds the buffered input, and a paste, in bytes.
	maxTyped = 4 << 20
	// shortPaste is the maximum length of a one-line paste that is shown.
	shortPaste = 1000
)

// keyboard is the input of a raw terminal. A paste of several lines becomes a placeholder in the line,
// which is replaced by its text when the line is sent. While an answer streams, Ctrl-C is sent to
// interrupts only. Read may run concurrently with the other methods.
type keyboard struct {
	interrupts chan struct{} // buffers one

	mu      sync.Mutex
	changed *sync.Cond
	waiting []byte // for Read
	busy    bool   // an answer streams
	ended   error
	held    []byte // incomplete escape sequence
	paste   []byte // in progress, nil for none
	pastes  map[string]string
}

func newKeyboard() *keyboard {
	k := &keyboard{interrupts: make(chan struct{}, 1), pastes: map[string]string{}}
	k.changed = sync.NewCond(&k.mu)
	return k
}

// listen processes input until it ends, usually with the process.
func (k *keyboard) listen(in io.Reader) {
	buf := make([]byte, 4096)
	for {
		n, err := in.Read(buf)
		k.typed(buf[:n])
		if err != nil {
			k.end(io.EOF)
			return
		}
	}
}

// end makes Read return an error after the buffered input.
func (k *keyboard) end(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended == nil {
		k.ended = err
	}
	k.changed.Broadcast()
}

// answering records whether an answer streams.
func (k *keyboard) answering(busy bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.busy = busy
	select {
	case <-k.interrupts: // of the previous answer
	default:
	}
}

// Read implements io.Reader.
func (k *keyboard) Read(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.waiting) == 0 && k.ended == nil {
		k.changed.Wait()
	}
	if len(k.waiting) == 0 {
		return 0, k.ended
	}
	n := copy(p, k.waiting)
	k.waiting = k.waiting[n:]
	return n, nil
}

func (k *keyboard) typed(keys []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	keys = append(k.held, keys...)
	k.held = nil
	for len(keys) > 0 {
		switch {
		case partly(keys):
			k.held = bytes.Clone(keys)
			keys = nil
		case bytes.HasPrefix(keys, []byte(pasteBegins)):
			k.paste, keys = []byte{}, keys[len(pasteBegins):]
		case bytes.HasPrefix(keys, []byte(pasteEnds)):
			k.pasted()
			keys = keys[len(pasteEnds):]
		case k.paste != nil:
			if len(k.paste) < maxTyped {
				k.paste = append(k.paste, keys[0])
			}
			keys = keys[1:]
		case bytes.HasPrefix(keys, []byte(altEnter)):
			k.pass(lineBreak)
			keys = keys[len(altEnter):]
		case keys[0] == ctrlC && k.busy:
			select {
			case k.interrupts <- struct{}{}:
			default:
			}
			keys = keys[1:]
		default:
			k.pass(string(keys[:1]))
			keys = keys[1:]
		}
	}
	k.changed.Broadcast()
}

// partly reports whether keys are the beginning of an escape sequence. A single Escape waits for the
// next key, which is harmless.
func partly(keys []byte) bool {
	for _, whole := range []string{pasteBegins, pasteEnds, altEnter} {
		if len(keys) < len(whole) && strings.HasPrefix(whole, string(keys)) {
			return true
		}
	}
	return false
}

func (k *keyboard) pass(s string) {
	if len(k.waiting) < maxTyped {
		k.waiting = append(k.waiting, s...)
	}
}

// pasted returns a paste, or a placeholder for a long one.
func (k *keyboard) pasted() {
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(k.paste))
	k.paste = nil
	lines := strings.Count(strings.TrimRight(text, "\n"), "\n") + 1
	if lines == 1 && len(text) <= shortPaste {
		k.pass(strings.NewReplacer("\n", "", "\t", "    ").Replace(text))
		return
	}
	mark := fmt.Sprintf("[paste %d, %d lines]", len(k.pastes)+1, lines)
	k.pastes[mark] = text
	k.pass(mark)
}

// message returns a line with its pastes and line breaks.
func (k *keyboard) message(line string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	pairs := []string{lineBreak, "\n"}
	for mark, text := range k.pastes {
		pairs = append(pairs, mark, text)
	}
	return strings.TrimRight(strings.NewReplacer(pairs...).Replace(line), " \n")
}
