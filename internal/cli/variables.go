package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// variables are the flags that a variable gives where the command line does not: what a
// unit file or an image sets. PARLEY_LOG_FORMAT is --log-format. What a flag has a command
// do is no variable's.
func variables() []string { return []string{"config", "data", "listen", "log-format"} }

// Variable is the environment variable of a flag.
func Variable(flag string) string {
	return "PARLEY_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromVariables gives a command the flags that variables set. A flag that excludes one of
// the command line is left out.
func fromVariables(cmd *cobra.Command, env func(string) (string, bool)) error {
	for _, name := range variables() {
		value, _ := env(Variable(name))
		f := cmd.Flags().Lookup(name)
		// The same word may name something else: --data of send is what an agent is handed.
		if f == nil || f.Value.Type() != "string" || f.Changed || value == "" || excluded(cmd, name) {
			continue
		}
		if err := cmd.Flags().Set(name, value); err != nil {
			return fmt.Errorf("%s: %w", Variable(name), err)
		}
	}
	return nil
}

// excluded reports whether a flag that is set excludes another one.
func excluded(cmd *cobra.Command, name string) bool {
	for _, group := range cmd.Flags().Lookup(name).Annotations[exclusiveGroups] {
		if slices.ContainsFunc(strings.Fields(group), cmd.Flags().Changed) {
			return true
		}
	}
	return false
}
