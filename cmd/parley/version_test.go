package main

import (
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	for _, how := range []string{"version", "--version"} {
		code, out, _ := program.Output(t, how)
		if code != 0 || !strings.HasPrefix(out, "parley ") || !strings.HasSuffix(out, "stored format 8)\n") {
			t.Errorf("%s: exit %d, %q", how, code, out)
		}
	}
}
