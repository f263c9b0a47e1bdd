package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// variables lists the flags that an environment variable can set if the command line does not, for
// unit files and images. For example, PARLEY_LOG_FORMAT sets --log-format. Flags that change the
// action of a command have no variable.
func variables() []string { return []string{"config", "data", "listen", "log-format"} }

// Variable returns the environment variable of a flag.
func Variable(flag string) string {
	return "PARLEY_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromVariables sets flags of a command from variables. It skips a flag that excludes one of the
// command line.
func fromVariables(cmd *cobra.Command, env func(string) (string, bool)) error {
	for _, name := range variables() {
		value, _ := env(Variable(name))
		f := cmd.Flags().Lookup(name)
		// A flag of the same name may have another meaning: --data of send is the initial data.
		if f == nil || f.Value.Type() != "string" || f.Changed || value == "" || excluded(cmd, name) {
			continue
		}
		if err := cmd.Flags().Set(name, value); err != nil {
			return fmt.Errorf("%s: %w", Variable(name), err)
		}
	}
	return nil
}

// excluded reports whether a set flag excludes the named one.
func excluded(cmd *cobra.Command, name string) bool {
	for _, group := range cmd.Flags().Lookup(name).Annotations[exclusiveGroups] {
		if slices.ContainsFunc(strings.Fields(group), cmd.Flags().Changed) {
			return true
		}
	}
	return false
}
