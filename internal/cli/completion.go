package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/internal/config"
)

// shells maps the name of a shell to the generator of its completion script.
func shells() map[string]func(root *cobra.Command, w io.Writer) error {
	return map[string]func(root *cobra.Command, w io.Writer) error{
		"bash":       func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"zsh":        func(root *cobra.Command, w io.Writer) error { return root.GenZshCompletion(w) },
		"fish":       func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },
		"powershell": func(root *cobra.Command, w io.Writer) error { return root.GenPowerShellCompletionWithDesc(w) },
	}
}

func completionCommand() *cobra.Command {
	names := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion <shell>",
		Short: "Print a completion script for a shell",
		Long: "completion prints a completion script for bash, zsh, fish or powershell. For the current shell:\n\n" +
			"  source <(parley completion bash)\n" +
			"  parley completion fish | source\n\n" +
			"For all new shells, write it to the completion folder of the shell:\n\n" +
			"  parley completion bash > /etc/bash_completion.d/parley\n" +
			"  parley completion zsh > \"${fpath[1]}/_parley\"\n" +
			"  parley completion fish > ~/.config/fish/completions/parley.fish\n\n" +
			"bash requires the package bash-completion.",
		ValidArgs: names,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 && slices.Contains(names, args[0]) {
				return nil
			}
			return errors.New("completion takes the name of a shell: bash, zsh, fish or powershell")
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := shells()[args[0]](cmd.Root(), cmd.OutOrStdout()); err != nil {
				return fmt.Errorf("print the script: %w", err)
			}
			return nil
		},
	}
}

// completing registers completion of flag values: files, folders and agents.
func (p *Program) completing(root *cobra.Command) {
	files := map[string][]string{"config": {"yaml", "yml"}, "file": {"jsonl"}, "attach": {"png", "jpg", "jpeg", "gif", "webp"}}
	each(root, func(cmd *cobra.Command) {
		for name, extensions := range files {
			if cmd.Flags().Lookup(name) != nil {
				_ = cmd.MarkFlagFilename(name, extensions...)
			}
		}
		if f := cmd.Flags().Lookup("data"); f != nil && f.Value.Type() == "string" {
			_ = cmd.MarkFlagDirname("data")
		}
		if cmd.Flags().Lookup("agent") != nil {
			_ = cmd.RegisterFlagCompletionFunc("agent", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
				return p.AgentNames(configOf(cmd)), cobra.ShellCompDirectiveNoFileComp
			})
		}
		if cmd.ValidArgsFunction == nil && len(cmd.ValidArgs) == 0 && !cmd.HasSubCommands() {
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
	})
}

// configOf returns the value of --config, "" if it is not set.
func configOf(cmd *cobra.Command) string {
	if f := cmd.Flags().Lookup("config"); f != nil && f.Changed {
		return f.Value.String()
	}
	return ""
}

// AgentNames returns the agents of the program and of a configuration file, as far as the file can be
// read. If file is "", it reads the discovered one.
func (p *Program) AgentNames(file string) (names []string) {
	names = p.OwnAgents()
	if file = cmp.Or(file, Discovered()); file != "" {
		opts := p.ConfigOptions()
		opts.Needs = []string{}
		if conf, err := config.Load(file, opts); err == nil {
			for _, a := range conf.Agents {
				names = append(names, a.Agent.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// AgentsAndFiles completes the first argument of a command: an agent of the program, or a file that
// declares one.
func (p *Program) AgentsAndFiles(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, a := range p.Agents {
		if strings.HasPrefix(a.Name, word) {
			names = append(names, a.Name)
		}
	}
	if len(names) > 0 {
		return names, cobra.ShellCompDirectiveDefault
	}
	return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
}
