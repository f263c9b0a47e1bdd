package converse

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
)

// What a terminal sends around a paste, once it was asked to.
const (
	pasteBegins = "\x1b[200~"
	pasteEnds   = "\x1b[201~"
	altEnter    = "\x1b\r"
	ctrlC       = 0x03
	// lineBreak stands for the end of a line within a message while it is edited.
	lineBreak = "␤"
	// maxTyped bounds the input that waits, and a paste, in bytes.
	maxTyped = 4 << 20
	// shortPaste is how long a paste of one line is shown as it is.
	shortPaste = 1000
)

// keyboard is what somebody types at a terminal that passes on every key. A paste of several
// lines becomes a mark in the line, for which its text is put when the line is sent; Ctrl-C
// while an answer comes is told to interrupts and to nobody else. Reads may go beside the
// rest.
type keyboard struct {
	interrupts chan struct{} // one waits at most

	mu      sync.Mutex
	changed *sync.Cond
	waiting []byte // for Read
	busy    bool   // an answer comes
	ended   error
	held    []byte // the beginning of what a terminal sends around a paste
	paste   []byte // under way, nil for none
	pastes  map[string]string
}

func newKeyboard() *keyboard {
	k := &keyboard{interrupts: make(chan struct{}, 1), pastes: map[string]string{}}
	k.changed = sync.NewCond(&k.mu)
	return k
}

// listen passes on what is typed until that ends: with a terminal, mostly with the process.
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

// end has Read return an error once all that waits was read.
func (k *keyboard) end(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended == nil {
		k.ended = err
	}
	k.changed.Broadcast()
}

// answering says whether an answer comes.
func (k *keyboard) answering(busy bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.busy = busy
	select {
	case <-k.interrupts: // of the answer before
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

// partly reports whether keys are the beginning of what a terminal sends for something else.
// Escape by itself waits for the next key, which does no harm.
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

// pasted passes on a paste, or a mark in the place of a long one.
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

// message is a line with what was pasted into it, and with its line breaks.
func (k *keyboard) message(line string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	pairs := []string{lineBreak, "\n"}
	for mark, text := range k.pastes {
		pairs = append(pairs, mark, text)
	}
	return strings.TrimRight(strings.NewReplacer(pairs...).Replace(line), " \n")
}
