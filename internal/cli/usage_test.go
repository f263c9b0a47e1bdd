package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/agent"
)

// commandsOf is a command set with a group and a command that has flags of every kind.
func commandsOf(p *Program) []*cobra.Command {
	group := &cobra.Command{Use: "log", Short: "Look into logs"}
	verify := &cobra.Command{Use: "verify", Short: "Check", Args: NoArgs, RunE: func(*cobra.Command, []string) error { return nil }}
	f := verify.Flags()
	f.String("agent", "", "an agent")
	f.String("id", "", "an id")
	f.Int64("from", 0, "a number")
	f.Duration("wait", 0, "a time")
	f.Bool("json", false, "lines")
	f.Float64("share", 0, "a part")
	f.StringP("message", "m", "", "a message")
	NewPlace(p, verify, "the bucket", true)
	verify.MarkFlagsRequiredTogether("agent", "id")
	dump := &cobra.Command{Use: "dump", Short: "Print", Args: AtMostOne, RunE: func(*cobra.Command, []string) error { return nil }}
	group.AddCommand(verify, dump)
	return []*cobra.Command{group, {Use: "run", Short: "Run", ValidArgsFunction: p.AgentsAndFiles, RunE: func(*cobra.Command, []string) error { return nil }}}
}

func runCommand(p *Program, args ...string) (code int, out string) {
	var b bytes.Buffer
	code = p.Run(context.Background(), args, &b, &b, commandsOf)
	return code, b.String()
}

// Texts of the library are replaced, and each names a remedy.
func TestUsageErrors(t *testing.T) {
	for args, want := range map[string]string{
		"bogus":                          `parley has no command "bogus"; it has completion, log, run, version`,
		"lgo":                            "(did you mean log?)",
		"log bogus":                      `parley log has no command "bogus"; it has dump, verify`,
		"help log dmup":                  `(did you mean dump?)`,
		"log verify x":                   `parley log verify takes no arguments: "x"; see parley log verify --help`,
		"log dump a b":                   `takes one argument, got also "b"`,
		"log verify --jsn":               "unknown flag --jsn (did you mean --json?); parley log verify --help lists the flags",
		"log verify -x":                  "unknown flag -x;",
		"log verify -m":                  "--message needs a value: --message <string>",
		"log verify --from x":            `--from cannot be "x": it is a whole number`,
		"log verify --wait 3":            `--wait cannot be "3": it is a duration such as 30s or 2m`,
		"log verify --json=x":            `--json cannot be "x": it is true or false`,
		"log verify --share x":           `it is a number`,
		"log verify --agent a":           "--id is missing; --agent and --id go together",
		"log verify --config a --data b": "--config and --data exclude each other; omit one of them",
		"completion":                     "bash, zsh, fish or powershell",
		"completion tcsh":                "bash, zsh, fish or powershell",
	} {
		if code, out := runCommand(&Program{}, strings.Fields(args)...); code != ExitUsage || !strings.Contains(out, want) || strings.Count(out, "\n") != 1 {
			t.Errorf("%s: exit %d, %q; want %q", args, code, out, want)
		}
	}
	for args, want := range map[string]string{
		"":                "parley help <command> describes a command.",
		"log":             "  parley log <command>\n\nCommands:\n  dump ",
		"help log verify": "Usage:\n  parley log verify [flags]\n",
		"log dump -h":     "-h, --help   print this",
		"help help":       "-h, --help   print this",
	} {
		if code, out := runCommand(&Program{}, strings.Fields(args)...); code != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: exit %d\n%s\nwant %q", args, code, out, want)
		}
	}
}

// full fails every write, like a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("write: no space left") }

// A failed write to standard output is an error, whether or not the command checks it.
func TestUnwrittenOutput(t *testing.T) {
	var b bytes.Buffer
	if code := (&Program{}).Run(context.Background(), []string{"log"}, full{}, &b, commandsOf); code != 1 || b.String() != "parley: write: no space left\n" {
		t.Errorf("exit %d, %q", code, b.String())
	}
}

func TestCompletion(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile(DefaultConfig, []byte("agents:\n  echo: {model: demo/parrot}\n  deep: {model: openai/gpt-5}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &Program{Agents: []*agent.Agent{{Name: "hello", Model: DemoModel}}}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"log", "verify", "--agent", ""}, "deep\necho\nhello\n:4\n"},
		{[]string{"log", "verify", "--config", ""}, "yaml\nyml\n:8\n"},
		{[]string{"log", "verify", "--config", "none.yaml", "--agent", ""}, "hello\n:4\n"},
		{[]string{"log", "verify", "--data", ""}, ":16\n"},
		{[]string{"log", "verify", ""}, ":4\n"},
		{[]string{"run", ""}, "hello\n:0\n"},
		{[]string{"run", "x"}, "yaml\nyml\n:8\n"},
		{[]string{"run", "hello", ""}, ":4\n"},
		{[]string{"completion", "z"}, "zsh\n:4\n"},
		{[]string{"help", "log", ""}, "dump\nverify\n:4\n"},
	} {
		if _, out := runCommand(p, append([]string{"__completeNoDesc"}, tt.args...)...); !strings.HasPrefix(out, tt.want) {
			t.Errorf("%q: %q, want %q", tt.args, out, tt.want)
		}
	}
	for shell := range shells() {
		if code, out := runCommand(p, "completion", shell); code != 0 || !strings.Contains(out, "__complete") {
			t.Errorf("%s: exit %d, %.100s", shell, code, out)
		}
	}
}
