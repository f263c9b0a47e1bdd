package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usageTemplate formats the usage and flags of a command.
const usageTemplate = `Usage:{{if not (index .Annotations "parley_group")}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} <command>{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableInheritedFlags}}

Flags of every command below {{.Parent.CommandPath}}:
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableSubCommands}}

{{.Root.Name}} help{{if .HasParent}} {{.Name}}{{end}} <command> describes a command.{{end}}
`

// isGroup is the annotation of a command that only has subcommands.
const isGroup = "parley_group"

// worded replaces the library's texts by those of Parley.
func worded(root *cobra.Command) {
	root.SetUsageTemplate(usageTemplate)
	root.SetVersionTemplate("{{.Version}}\n") // same as the command prints
	root.Flags().BoolP("version", "v", false, "print the version")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return Usage(flagError(cmd, err)) })
	root.SetHelpCommand(helpCommand(root))
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		out := cmd.OutOrStdout()
		fmt.Fprint(out, Fold(strings.TrimSpace(cmp.Or(cmd.Long, cmd.Short))+"\n\n"+cmd.UsageString(), Width(out)))
	})
	each(root, func(cmd *cobra.Command) {
		cmd.Flags().BoolP("help", "h", false, "print this")
		if cmd.HasSubCommands() && cmd.RunE == nil {
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
			cmd.Args = oneOf
			cmd.Annotations = map[string]string{isGroup: "true"}
		}
		if args := cmd.Args; args != nil {
			cmd.Args = func(cmd *cobra.Command, given []string) error { return Usage(args(cmd, given)) }
		}
	})
}

func each(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	for _, sub := range cmd.Commands() {
		each(sub, do)
	}
}

func helpCommand(root *cobra.Command) *cobra.Command {
	help := &cobra.Command{
		Use:   "help [command]",
		Short: "Print the help of a command",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err == nil && len(rest) > 0 && cmd.HasSubCommands() {
				err = oneOf(cmd, rest)
			}
			if err != nil {
				return Usage(err)
			}
			return cmd.Help()
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			cmd, _, err := root.Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return subcommands(cmd), cobra.ShellCompDirectiveNoFileComp
		},
	}
	help.Flags().BoolP("help", "h", false, "print this") // The library appends its own help command otherwise.
	return help
}

func subcommands(cmd *cobra.Command) (names []string) {
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return names
}

// oneOf rejects arguments of a command that has subcommands.
func oneOf(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	names := subcommands(cmd)
	return fmt.Errorf("%s has no command %q%s; it has %s", cmd.CommandPath(), args[0], meant(args[0], "", names), strings.Join(names, ", "))
}

// meant returns a suggestion for a mistyped name, "" if no name is similar.
func meant(word, prefix string, names []string) string {
	// The library computes the distance between command names.
	all := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, name := range names {
		all.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	near := all.SuggestionsFor(word)
	if len(near) == 0 {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s%s?)", prefix, near[0])
}

// RenamedFlag also accepts a flag by its former name.
func RenamedFlag(cmd *cobra.Command, former, name string) {
	cmd.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, given string) pflag.NormalizedName {
		if given == former {
			given = name
		}
		return pflag.NormalizedName(given)
	})
}

// NoArgs rejects arguments.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("%s takes no arguments: %q; see %s --help", cmd.CommandPath(), args[0], cmd.CommandPath())
}

// AtMostOne rejects a second argument.
func AtMostOne(cmd *cobra.Command, args []string) error {
	if len(args) <= 1 {
		return nil
	}
	return fmt.Errorf("%s takes one argument, got also %q; see %s --help", cmd.CommandPath(), args[1], cmd.CommandPath())
}

// flagError describes a mistake in a flag and its remedy.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var lacking *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	lists := fmt.Sprintf("%s --help lists the flags", cmd.CommandPath())
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return fmt.Errorf("unknown flag -%s; %s", unknown.GetSpecifiedName(), lists)
	case errors.As(err, &unknown):
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		name := unknown.GetSpecifiedName()
		return fmt.Errorf("unknown flag --%s%s; %s", name, meant(name, "--", names), lists)
	case errors.As(err, &lacking):
		return fmt.Errorf("--%s needs a value: --%s <%s>; %s", lacking.GetFlag().Name, lacking.GetFlag().Name, lacking.GetFlag().Value.Type(), lists)
	case errors.As(err, &invalid):
		return fmt.Errorf("--%s cannot be %q: %s; %s", invalid.GetFlag().Name, invalid.GetValue(), wanted(invalid), lists)
	}
	return fmt.Errorf("%w; %s", err, lists)
}

// wanted describes the value that a flag takes.
func wanted(e *pflag.InvalidValueError) string {
	switch e.GetFlag().Value.Type() {
	case "int", "int64":
		return "it is a whole number"
	case "bool":
		return "it is true or false"
	case "duration":
		return "it is a duration such as 30s or 2m"
	case "float64":
		return "it is a number"
	}
	return errors.Unwrap(e).Error()
}

// Annotations of cobra (MarkFlagsMutuallyExclusive, MarkFlagsRequiredTogether) that hold the names of
// a group.
const (
	exclusiveGroups = "cobra_annotation_mutually_exclusive"
	togetherGroups  = "cobra_annotation_required_if_others_set"
)

// flagGroups rejects flags that exclude each other, and flags whose required partner is missing.
func flagGroups(cmd *cobra.Command) (err error) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if err != nil || !f.Changed {
			return
		}
		for _, group := range f.Annotations[exclusiveGroups] {
			for name := range strings.FieldsSeq(group) {
				if name != f.Name && cmd.Flags().Changed(name) {
					err = fmt.Errorf("--%s and --%s exclude each other; omit one of them", f.Name, name)
					return
				}
			}
		}
		for _, group := range f.Annotations[togetherGroups] {
			names := strings.Fields(group)
			if i := slices.IndexFunc(names, func(name string) bool { return !cmd.Flags().Changed(name) }); i >= 0 {
				err = fmt.Errorf("--%s is missing; --%s go together", names[i], strings.Join(names, " and --"))
				return
			}
		}
	})
	return err
}
