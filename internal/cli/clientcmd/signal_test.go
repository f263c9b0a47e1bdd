package clientcmd

import (
	"strings"
	"testing"

	"github.com/parleyrun/parley/internal/cli"
)

// TestSignalCommand sends a signal, repeats it under its key, and sends another one too late.
func TestSignalCommand(t *testing.T) {
	n := program.StartDev(t, t.TempDir())
	at := n.Base + "/signalled"
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--key", "k", at, "approval", `{"ok":true}`}, 0, "signalled\n"},
		{[]string{"--key", "k", at, "approval", `{"ok":true}`}, 0, "signalled\n"},
		{[]string{at, "approval", "no"}, 1, "signal: the server answered 409 already_decided"},
		{[]string{at, "", "no"}, 1, "signal: the server answered 400 invalid_request"},
		{[]string{at, "approval"}, cli.ExitUsage, "signal takes a conversation URL, a name and a value"},
		{[]string{"hello", "approval", "no"}, cli.ExitUsage, "is not a conversation URL"},
	} {
		code, out, errOut := program.Output(t, append([]string{"signal"}, c.args...)...)
		if code != c.code || !strings.Contains(out+errOut, c.want) {
			t.Errorf("signal %q: exit %d, %q, %q; want exit %d and %q", c.args, code, out, errOut, c.code, c.want)
		}
	}
}
