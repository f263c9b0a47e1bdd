package sse_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/parleyrun/parley/providers/sse"
)

// FuzzText compares Text with encoding/json for valid UTF-8.
func FuzzText(f *testing.F) {
	for _, s := range []string{`""`, `"a\n\u00e4\ud83d\ude00"`, `"\ud83d"`, `"\ude00\ud83d\\ud83d"`, `"\"\\\/\b\f\n\r\t"`, `null`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var want string
		if json.Unmarshal(raw, &want) != nil {
			return
		}
		raw = []byte(strings.TrimSpace(string(raw)))
		got, err := sse.Text(raw)
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if utf8.ValidString(got) && got != want {
			t.Errorf("%s: got %q, want %q", raw, got, want)
		}
		if !utf8.ValidString(got) && !strings.ContainsRune(want, utf8.RuneError) {
			t.Errorf("%s: got %q, which is no UTF-8, want %q", raw, got, want)
		}
	})
}
