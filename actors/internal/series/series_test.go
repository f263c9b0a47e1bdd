package series_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/actors/internal/series"
)

func key(n int64) string { return fmt.Sprintf("%04d", n) }

func keys(from, to int64) (out []string) {
	for n := from; n < to; n++ {
		out = append(out, key(n))
	}
	return out
}

func TestNumbers(t *testing.T) {
	s := series.Begin()
	if got := s.Stale(keys(0, 3), key); got != nil {
		t.Errorf("before a number has landed: got stale %v, want none", got)
	}
	if n := s.Next(); n != 0 || s.Landed != -1 {
		t.Errorf("first number: got %d, landed %d, want 0, -1", n, s.Landed)
	}
	s.Abandon()
	if n := s.Next(); n != 1 || s.Behind {
		t.Errorf("after an abandoned number: got %d, behind %t, want 1, false", n, s.Behind)
	}
	s.Land(1)
	if diff := cmp.Diff(keys(0, 1), s.Replaced(1, key)); diff != "" {
		t.Errorf("replaced, including abandoned (-want +got):\n%s", diff)
	}
	s.Swept = 1
	if got := s.Replaced(1, key); got != nil {
		t.Errorf("replaced after sweep: got %v, want none", got)
	}
	for s.Newest < 40 {
		s.Next()
	}
	s.Land(39)
	if diff := cmp.Diff(keys(39-series.MaxReplaced, 39), s.Replaced(39, key)); diff != "" {
		t.Errorf("replaced above the limit (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(keys(3, 39), s.Stale(keys(3, 41), key)); diff != "" {
		t.Errorf("stale (-want +got):\n%s", diff)
	}
}
