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
		t.Errorf("before anything has landed %v is stale", got)
	}
	if n := s.Next(); n != 0 || s.Landed != -1 {
		t.Errorf("the first number is %d, %d has landed", n, s.Landed)
	}
	s.LeaveBehind()
	if n := s.Next(); n != 1 || s.Behind {
		t.Errorf("after one that was left behind comes %d, behind: %t", n, s.Behind)
	}
	s.Land(1)
	if diff := cmp.Diff(keys(0, 1), s.Replaced(1, key)); diff != "" {
		t.Errorf("what was left behind may have landed; replaced (-want +got):\n%s", diff)
	}
	s.Swept = 1
	if got := s.Replaced(1, key); got != nil {
		t.Errorf("deleted twice: %v", got)
	}
	for s.Newest < 40 {
		s.Next()
	}
	s.Land(39)
	if diff := cmp.Diff(keys(39-series.MaxReplaced, 39), s.Replaced(39, key)); diff != "" {
		t.Errorf("of many replaced by name (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(keys(3, 39), s.Stale(keys(3, 41), key)); diff != "" {
		t.Errorf("stale (-want +got):\n%s", diff)
	}
}
