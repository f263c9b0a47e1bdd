package main

import (
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	code, out, _ := program.Output(t, "version")
	if code != 0 || !strings.HasPrefix(out, "parley ") || !strings.Contains(out, "stored format 8") {
		t.Errorf("exit %d, %q", code, out)
	}
}
