package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

func TestTerminalNeutralizes(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"text":            {"a\tb\nä 👩‍👩‍👧 \u200f", "a\tb\nä 👩‍👩‍👧 \u200f"},
		"line end":        {"a\r\nb", "a\nb"},
		"overwritten":     {"safe\revil", `safe\u000devil`},
		"color":           {"\x1b[31mred", `\u001b[31mred`},
		"title":           {"\x1b]0;gone\x07", `\u001b]0;gone\u0007`},
		"clipboard":       {"\x1b]52;c;YQ==\x1b\\", `\u001b]52;c;YQ==\u001b\`},
		"8-bit CSI":       {"\u009b31m", `\u009b31m`},
		"raw 8-bit CSI":   {"\x9b31m", "\ufffd31m"},
		"backspace":       {"a\bb\x7f", `a\u0008b\u007f`},
		"direction":       {"\u202eevil\u2066", `\u202eevil\u2066`},
		"half a rune":     {"a\xe2\x80b", "a\ufffd\ufffdb"},
		"shift, null, ff": {"\x0e\x00\x0c", `\u000e\u0000\u000c`},
	} {
		for _, step := range []int{1, 2, 3, len(tc.text)} {
			var out bytes.Buffer
			w := newTerminal(&out)
			for rest := tc.text; rest != ""; {
				n := min(step, len(rest))
				if wrote, err := io.WriteString(w, rest[:n]); wrote != n || err != nil {
					t.Fatalf("%s: wrote %d of %d, %v", name, wrote, n, err)
				}
				rest = rest[n:]
			}
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Errorf("%s, %d bytes at a time (-want +got):\n%s", name, step, diff)
			}
		}
	}
}

func FuzzTerminal(f *testing.F) {
	f.Add("a\x1b[31m\r\n\u009b\u202e", 3)
	f.Fuzz(func(t *testing.T, text string, at int) {
		var whole, parts bytes.Buffer
		io.WriteString(newTerminal(&whole), text)
		w := newTerminal(&parts)
		at = max(0, min(at, len(text)))
		io.WriteString(w, text[:at])
		io.WriteString(w, text[at:])
		if whole.String() != parts.String() {
			t.Errorf("%q at once, %q in parts", whole.String(), parts.String())
		}
		odd := func(r rune) bool {
			return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) && r > 0x2020
		}
		if strings.ContainsFunc(whole.String(), odd) {
			t.Errorf("%q is written", whole.String())
		}
	})
}

func TestInputEndsWithItsContext(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	in := &input{ctx.Done(), r}
	if _, err := io.WriteString(w, "said"); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 10)
	if n, err := in.Read(p); string(p[:n]) != "said" || err != nil || File(in) != r {
		t.Errorf("%q, %v", p[:n], err)
	}
	cancel()
	_, err = ReadMessage("-", in, "")
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Code != ExitInterrupted {
		t.Errorf("%v", err)
	}
}
