package jsonl

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/parleyrun/parley/observability"
)

// Writer is a sink that writes to a stream, such as standard output. Written events count as stored.
type Writer struct {
	name string

	mu   sync.Mutex
	w    io.Writer
	torn bool // the last line is truncated
}

// NewWriter returns a sink with a name over w. It must be the only writer to w, and does not close it.
// A w that blocks also blocks Write, whatever its context.
func NewWriter(name string, w io.Writer) *Writer { return &Writer{name: name, w: w} }

// Name implements [observability.Sink].
func (w *Writer) Name() string { return w.name }

// Write implements [observability.Sink].
func (w *Writer) Write(ctx context.Context, events []observability.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := encode(ctx, events, w.append); err != nil {
		return fmt.Errorf("write events to %s: %w", w.name, err)
	}
	return nil
}

func (w *Writer) append(lines []byte) error {
	if w.torn {
		if _, err := w.w.Write([]byte("\n")); err != nil {
			return err
		}
		w.torn = false
	}
	n, err := w.w.Write(lines)
	if err == nil && n < len(lines) {
		err = io.ErrShortWrite
	}
	w.torn = n > 0 && n < len(lines) && lines[n-1] != '\n'
	return err
}
