// Package waiting lets tests wait for events, capture logs, and close resources.
//
// Tests of any package call it. A wait that takes longer than [Limit] fails the test. Everything is
// safe for concurrent use.
package waiting

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Limit bounds the wait of a test for an expected event.
const Limit = time.Minute

// For receives a value from ch, or fails the test.
func For[T any](tb testing.TB, ch <-chan T, desc string) T {
	tb.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(Limit):
		tb.Fatalf("timed out waiting for %s", desc)
		panic("unreachable")
	}
}

// Until polls ok, for states without a channel. It sleeps longer than ok takes, so that polling does
// not take the processor from the awaited work.
func Until(tb testing.TB, desc string, ok func() bool) {
	tb.Helper()
	for deadline := time.After(Limit); ; {
		began := time.Now()
		if ok() {
			return
		}
		select {
		case <-time.After(max(time.Millisecond, 3*time.Since(began))):
		case <-deadline:
			tb.Fatalf("timed out waiting for %s", desc)
		}
	}
}

// ToClose closes c when the test ends.
func ToClose[C io.Closer](tb testing.TB, c C) C {
	tb.Helper()
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	})
	return c
}

// Log is a buffer that may be read while it is written. The zero value is empty.
type Log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// String returns everything written.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Take returns everything written since the last Take.
func (l *Log) Take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.buf.Reset()
	return l.buf.String()
}

// With returns the first line that contains every word, "" if there is none.
func (l *Log) With(words ...string) string {
	if lines := l.lines(words); len(lines) > 0 {
		return lines[0]
	}
	return ""
}

// Count returns the number of lines that contain every word.
func (l *Log) Count(words ...string) int { return len(l.lines(words)) }

func (l *Log) lines(words []string) []string {
	return slices.DeleteFunc(strings.SplitAfter(l.String(), "\n"), func(line string) bool {
		return line == "" || slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) })
	})
}
