package schedule

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// Lines returns the lines of a file of seeds, without comments and empty ones.
func Lines(t testing.TB, name string) (out []string) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}

// Seeds parses seeds that are separated by commas or blanks.
func Seeds(t testing.TB, texts ...string) (out []uint64) {
	t.Helper()
	for _, text := range texts {
		for _, s := range strings.Fields(strings.ReplaceAll(text, ",", " ")) {
			n, err := strconv.ParseUint(s, 10, 64)
			if err != nil {
				t.Fatalf("parse seed: %v", err)
			}
			out = append(out, n)
		}
	}
	return out
}
