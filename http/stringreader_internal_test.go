package http

import (
	"bufio"
	"encoding/json"
	"io"
	"testing"
	"testing/iotest"
)

// FuzzString compares both decoders of a scanned string with encoding/json.
func FuzzString(f *testing.F) {
	for _, s := range []string{
		``, `plain`, `a\"\\\/\b\f\n\r\tz`, `\u0041\u00e9\u20AC`, `\ud83d\ude00`, `\ud83d`, `\ud83dx`, `\ud83d\n`, `\ude00\ud83d`,
		`\ud83d\ud83d\ude00`, "é€😀", "\xff\xc3(\xed\xa0\x80", "é\xe2\x80", "\x7f\u2028",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		quoted := append(append([]byte{'"'}, content...), '"')
		var want string
		if json.Unmarshal(quoted, &want) != nil {
			return // the scanner rejects it
		}
		if got, err := unquote(content); err != nil || got != want {
			t.Errorf("unquote(%q) = %q, %v; want %q", content, got, err, want)
		}
		spool := (&spools{dir: t.TempDir()}).open(len(quoted))
		if _, err := spool.Write(quoted); err != nil {
			t.Fatal(err)
		}
		r, err := newStringReader(bufio.NewReaderSize(iotest.OneByteReader(spool.section(span{0, spool.size})), 16))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || string(got) != want {
			t.Errorf("decoded %q as %q, %v; want %q", content, got, err, want)
		}
	})
}

// TestStringThatEndsEarly: a string truncated after the scan, as in a corrupt temporary file, is an
// error.
func TestStringThatEndsEarly(t *testing.T) {
	for _, s := range []string{`"`, `"a`, `"\`, `"\u`, `"\u00e`, `"\ud83d\ude0`} {
		spool := (&spools{dir: t.TempDir()}).open(64)
		if _, err := spool.Write([]byte(s)); err != nil {
			t.Fatal(err)
		}
		r, err := newStringReader(spool.reader(span{0, spool.size}))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err == nil {
			t.Errorf("decoded %s as %q", s, got)
		}
	}
}
