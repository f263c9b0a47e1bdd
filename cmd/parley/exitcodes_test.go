package main

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
)

// withoutJSON lists the commands without --json: they print JSON anyway, print nothing for programs,
// or are interactive.
const withoutJSON = `
abort chat cluster certs completion dev events migrate events replay events schema help import flue
init log dump outbox drop outbox resend serve signal runs abort runs signal version
`

// TestExitCodes checks all commands. A usage error has the same exit code everywhere, the codes in the
// help are in the table, and common flags have the same names.
func TestExitCodes(t *testing.T) {
	t.Chdir(t.TempDir())
	program := clitest.New(commandSets()...)
	known := map[int]bool{}
	for _, c := range cli.ExitCodes() {
		known[c.Code] = true
		if long := program.Root().Long; !strings.Contains(long, c.Meaning) {
			t.Errorf("help of the program lacks exit code %d, %q", c.Code, c.Meaning)
		}
	}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		words := strings.Fields(cmd.CommandPath())[1:]
		wrong := [][]string{{"--no-such-flag"}, {"-Q"}}
		if cmd.HasSubCommands() && !cmd.Runnable() || cmd.Annotations["parley_group"] != "" {
			wrong = append(wrong, []string{"no-such-command"})
		}
		for _, args := range wrong {
			code, out, errOut := program.Output(t, append(slices.Clone(words), args...)...)
			if code != cli.ExitUsage || out != "" || errOut == "" {
				t.Errorf("%s %q: exit %d, %q, %q; want exit %d and an error", cmd.CommandPath(), args, code, out, errOut, cli.ExitUsage)
			}
		}
		if _, codes, ok := strings.Cut(cmd.Long, "Exit code:"); ok {
			for _, number := range regexp.MustCompile(`\b\d+\b`).FindAllString(codes, -1) {
				if code, _ := strconv.Atoi(number); !known[code] {
					t.Errorf("help of %s has exit code %s, which cli.ExitCodes lacks", cmd.CommandPath(), number)
				}
			}
		}
		name := strings.Join(words, " ")
		leaf := !cmd.HasSubCommands()
		if has := cmd.Flags().Lookup("json") != nil || cmd.InheritedFlags().Lookup("json") != nil; leaf && has == listed(name) {
			t.Errorf("%s: --json is %v, in the list of those without it: %v", cmd.CommandPath(), has, listed(name))
		}
		if token, header := cmd.Flags().Lookup("token-env"), cmd.Flags().Lookup("header"); (token == nil) != (header == nil) {
			t.Errorf("%s: --token-env %v, --header %v; want both or none", cmd.CommandPath(), token != nil, header != nil)
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(program.Root())
}

// listed reports whether a command is in withoutJSON.
func listed(name string) bool {
	return regexp.MustCompile(`(^|\s)` + regexp.QuoteMeta(name) + `(\s|$)`).MatchString(withoutJSON)
}
