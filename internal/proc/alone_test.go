package proc_test

import (
	"fmt"
	"testing"

	"github.com/parleyrun/parley/internal/proc"
)

// named is a test under another name that records its errors.
type named struct {
	*testing.T
	name string
	errs []string
}

func (n *named) Name() string { return n.name }

func (n *named) Errorf(format string, args ...any) {
	n.errs = append(n.errs, fmt.Sprintf(format, args...))
}

// TestIsolated isolates itself, and a test that does not exist: a test that did not pass in its
// process fails.
func TestIsolated(t *testing.T) {
	if !proc.Isolated(t) {
		if !proc.IsChild(t) {
			t.Error("isolated test does not run in a separate process")
		}
		return
	}
	missing := &named{T: t, name: "TestThatDoesNotExist"}
	if !proc.Isolated(missing) || len(missing.errs) != 1 {
		t.Errorf("missing test: got errors %q", missing.errs)
	}
}
