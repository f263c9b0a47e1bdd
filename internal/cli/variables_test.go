package cli

import (
	"testing"

	"github.com/spf13/cobra"
)

// The command line overrides a variable, and only a few flags have one.
func TestVariables(t *testing.T) {
	env := map[string]string{"PARLEY_CONFIG": "v.yaml", "PARLEY_DATA": "v", "PARLEY_LOG_FORMAT": "json", "PARLEY_WRITE": "true", "PARLEY_LISTEN": ""}
	for name, tt := range map[string]struct {
		args                         []string
		config, data, format, listen string
	}{
		"none":                 {nil, "v.yaml", "", "json", "here"},
		"given":                {[]string{"--log-format", "text", "--config", "f.yaml"}, "f.yaml", "", "text", "here"},
		"given, one excludes":  {[]string{"--data", "f"}, "", "f", "json", "here"},
		"given, as by default": {[]string{"--log-format", "text"}, "v.yaml", "", "text", "here"},
	} {
		var config, data, format, listen string
		var write bool
		cmd := &cobra.Command{Use: "x"}
		cmd.Flags().StringVar(&config, "config", "", "")
		cmd.Flags().StringVar(&data, "data", "", "")
		cmd.Flags().StringVar(&format, "log-format", "text", "")
		cmd.Flags().StringVar(&listen, "listen", "here", "")
		cmd.Flags().BoolVar(&write, "write", false, "")
		cmd.MarkFlagsMutuallyExclusive("config", "data")
		if err := cmd.ParseFlags(tt.args); err != nil {
			t.Fatal(err)
		}
		err := fromVariables(cmd, func(name string) (string, bool) { v, ok := env[name]; return v, ok })
		if err != nil || config != tt.config || data != tt.data || format != tt.format || listen != tt.listen || write {
			t.Errorf("%s: %v, config %q, data %q, format %q, listen %q, write %v", name, err, config, data, format, listen, write)
		}
	}
}
