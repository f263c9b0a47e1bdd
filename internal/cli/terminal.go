package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// terminal filters the standard output or error of the program. Text of models and clients must not
// move the cursor, change a title or reverse the direction of text. It passes line ends and tabs.
// Other control characters and direction overrides are written as in JSON: \u001b. So a line of JSON
// keeps its meaning. It filters character by character, so the boundaries of writes do not matter. It
// is safe for concurrent use.
type terminal struct {
	mu   sync.Mutex
	out  io.Writer
	held []byte                // rest of the last write: an incomplete character or a carriage return
	err  atomic.Pointer[error] // first write error of out, unless its reader has gone
}

func newTerminal(out io.Writer) *terminal { return &terminal{out: out} }

// Clean returns a writer that filters text of models and clients as the standard output of the program
// does.
func Clean(out io.Writer) io.Writer { return newTerminal(out) }

// Write implements io.Writer.
func (t *terminal) Write(p []byte) (_ int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer func() {
		if err != nil && !errors.Is(err, syscall.EPIPE) {
			t.err.CompareAndSwap(nil, &err)
		}
	}()
	if len(t.held) == 0 && !bytes.ContainsFunc(p, func(r rune) bool { return steers(r) || r == utf8.RuneError }) {
		return t.out.Write(p)
	}
	text := p
	if len(t.held) > 0 {
		text = append(t.held, p...)
		t.held = nil
	}
	clean := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case !utf8.FullRune(text), string(text) == "\r":
			t.held = append(t.held, text...)
			size = len(text)
		case r == '\r' && text[1] == '\n': // line end
		case r == utf8.RuneError && size == 1:
			clean = utf8.AppendRune(clean, utf8.RuneError)
		case steers(r):
			clean = fmt.Appendf(clean, `\u%04x`, r)
		default:
			clean = append(clean, text[:size]...)
		}
		text = text[size:]
	}
	if _, err := t.out.Write(clean); err != nil {
		return 0, err
	}
	return len(p), nil
}

// failed returns the first write error, which incremental printing does not check. A closed pipe is
// not an error. failed does not wait for a write in progress, which may be stuck.
func (t *terminal) failed() error {
	if err := t.err.Load(); err != nil {
		return *err
	}
	return nil
}

// steers reports whether a character controls the terminal.
func steers(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// input is the standard input of the program. Its reads end when ended is closed. Once signals no
// longer end the process, nothing else ends a read from a terminal or an open pipe.
type input struct {
	ended <-chan struct{} // closed with the context of the program
	file  *os.File
}

// Read implements io.Reader. An interrupted read continues in the background until the process ends,
// and its data is kept.
func (i *input) Read(p []byte) (int, error) {
	own := make([]byte, len(p))
	var n int
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		n, err = i.file.Read(own)
	}()
	select {
	case <-done:
		return copy(p, own[:n]), err
	case <-i.ended:
		return 0, &ExitError{Code: ExitInterrupted, Err: errors.New("interrupted")}
	}
}

// File returns the file below a writer or a reader, nil if there is none.
func File(v any) *os.File {
	switch below := v.(type) {
	case *terminal:
		v = below.out
	case *input:
		v = below.file
	}
	f, _ := v.(*os.File)
	return f
}

// sameFile reports whether two streams are one file, as with "2>&1".
func sameFile(a, b any) bool {
	f, g := File(a), File(b)
	if f == nil || g == nil {
		return false
	}
	one, err := f.Stat()
	if err != nil {
		return false
	}
	other, err := g.Stat()
	return err == nil && os.SameFile(one, other)
}

// IsTerminal reports whether a standard stream of the program is a terminal.
func IsTerminal(stream any) bool {
	f := File(stream)
	return f != nil && term.IsTerminal(int(f.Fd()))
}

// Width returns the width of a terminal in characters, 0 if the stream is not a terminal.
func Width(stream any) int {
	if !IsTerminal(stream) {
		return 0
	}
	w, _, err := term.GetSize(int(File(stream).Fd()))
	if err != nil {
		return 0
	}
	return w
}

// Coloured reports whether a stream is a terminal that accepts colours. NO_COLOR and TERM=dumb disable
// them.
func Coloured(stream any) bool {
	return IsTerminal(stream) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
