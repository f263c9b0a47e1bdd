package waiting_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/internal/waiting"
)

// patient is a test that records its failure.
type patient struct {
	testing.TB
	failed string
}

func (p *patient) Helper() {}

func (p *patient) Fatalf(format string, args ...any) {
	p.failed = fmt.Sprintf(format, args...)
	panic(p)
}

func (p *patient) Error(args ...any) { p.failed = fmt.Sprint(args...) }

// TestLimit checks that a missing event fails the test at last, and that a late one does not.
func TestLimit(t *testing.T) {
	for name, wait := range map[string]func(tb testing.TB, after time.Duration){
		"for": func(tb testing.TB, after time.Duration) { waiting.For(tb, time.After(after), "it") },
		"until": func(tb testing.TB, after time.Duration) {
			began := time.Now()
			waiting.Until(tb, "it", func() bool { return time.Since(began) > after })
		},
	} {
		for after, want := range map[time.Duration]string{waiting.Limit - time.Second: "", 2 * waiting.Limit: "timed out waiting for it"} {
			synctest.Test(t, func(t *testing.T) {
				p := &patient{TB: t}
				func() {
					defer func() { _ = recover() }()
					wait(p, after)
				}()
				if p.failed != want {
					t.Errorf("%s: after %v it fails with %q, want %q", name, after, p.failed, want)
				}
			})
		}
	}
}

type broken struct{}

func (broken) Close() error { return fmt.Errorf("broken") }

// TestToClose checks that an error of Close fails the test.
func TestToClose(t *testing.T) {
	p := &patient{}
	t.Run("", func(t *testing.T) { p.TB = t; waiting.ToClose(p, broken{}) })
	if p.failed != "broken" {
		t.Errorf("failed with %q", p.failed)
	}
}

func TestLog(t *testing.T) {
	var l waiting.Log
	fmt.Fprint(&l, "one two\ntwo three\n")
	if got := l.With("three", "two"); got != "two three\n" {
		t.Errorf("a line with both words: %q", got)
	}
	if n, lost := l.Count("two"), l.With("one", "three"); n != 2 || lost != "" {
		t.Errorf("%d lines with one word, %q with two that are in no line", n, lost)
	}
	if got := l.Take(); got != "one two\ntwo three\n" || l.String() != "" {
		t.Errorf("took %q, left %q", got, l.String())
	}
}
