package jsonl

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/parleyrun/parley/observability"
)

// MaxLineBytes is the maximum length of a line.
const MaxLineBytes = 64 << 20

// ErrLineTooLong reports a line above MaxLineBytes.
var ErrLineTooLong = errors.New("line is too long")

// LineError reports a line that is not an event, or has a type or version that this release does not
// know. Reading continues after it.
type LineError struct {
	Line int // from 1
	Err  error
}

// Error implements error.
func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns the cause.
func (e *LineError) Unwrap() error { return e.Err }

// Read returns the events of a stream of lines, in order, without deduplication. It skips empty lines
// and a truncated last line. Any other invalid line is a [*LineError], after which the next line
// follows. Any other error is the stream's and the last.
func Read(r io.Reader) iter.Seq2[observability.Event, error] {
	return func(yield func(observability.Event, error) bool) {
		in := bufio.NewReaderSize(r, 64<<10)
		for n := 1; ; n++ {
			line, ended, err := readLine(in)
			if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, ErrLineTooLong) {
				yield(observability.Event{}, fmt.Errorf("read events: %w", err))
				return
			}
			var e observability.Event
			line = bytes.TrimSpace(line)
			if len(line) > 0 && !errors.Is(err, ErrLineTooLong) {
				if decodeErr := e.UnmarshalJSON(line); decodeErr == nil {
					if !yield(e, nil) {
						return
					}
				} else if ended && !yield(observability.Event{}, &LineError{n, decodeErr}) {
					return
				}
			}
			if errors.Is(err, ErrLineTooLong) && !yield(observability.Event{}, &LineError{n, err}) {
				return
			}
			if !ended {
				return
			}
		}
	}
}

// readLine returns the next line, without the content of one that is too long. ended reports whether
// it had a line break.
func readLine(in *bufio.Reader) (line []byte, ended bool, err error) {
	tooLong := false
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > MaxLineBytes {
			tooLong, line = true, nil
		}
		if !tooLong {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if tooLong && (err == nil || errors.Is(err, io.EOF)) {
			return nil, err == nil, ErrLineTooLong
		}
		return line, err == nil, err
	}
}

// ReadFiles returns the events of the [Files] of a path, as [Read] does; errors name the file. It may
// miss a file that is renamed or removed concurrently.
func ReadFiles(path string) iter.Seq2[observability.Event, error] {
	return func(yield func(observability.Event, error) bool) {
		files, err := Files(path)
		if err != nil {
			yield(observability.Event{}, err)
			return
		}
		for _, name := range files {
			if !readFile(name, yield) {
				return
			}
		}
	}
}

// readFile returns false if the consumer has stopped.
func readFile(name string, yield func(observability.Event, error) bool) bool {
	f, err := os.Open(name)
	if err != nil {
		return yield(observability.Event{}, fmt.Errorf("read events: %w", err))
	}
	defer f.Close()
	for e, err := range Read(f) {
		if err != nil {
			err = fmt.Errorf("file %s: %w", name, err)
		}
		if !yield(e, err) {
			return false
		}
	}
	return true
}
