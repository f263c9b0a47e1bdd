package noderun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Verify runs a program's check over the whole bucket of a configuration, after all nodes have ended.
// It returns the flaws, and the program's output.
func Verify(ctx context.Context, program, config string, env []string) (flaws []string, out []byte) {
	cmd := exec.CommandContext(ctx, program, "log", "verify", "--json", "--config", config)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return []string{fmt.Sprintf("parley log verify: %v", err)}, nil
	}
	flaws = Verified(out, cmd.ProcessState.ExitCode())
	if exit != nil && len(exit.Stderr) > 0 {
		flaws = append(flaws, fmt.Sprintf("parley log verify: %s", exit.Stderr))
	}
	return flaws, out
}

// Verified reads the findings of "parley log verify --json" and its exit code. Notes are no flaws: a
// kill may leave objects behind, and compaction may not have deleted others yet.
func Verified(out []byte, code int) (flaws []string) {
	if code != 0 {
		flaws = append(flaws, fmt.Sprintf("parley log verify ended with %d", code))
	}
	for line := range strings.Lines(string(out)) {
		var v struct{ Severity, Kind, Key, Text string }
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			flaws = append(flaws, fmt.Sprintf("parley log verify printed %q", line))
			continue
		}
		if v.Severity != "" && v.Severity != "note" {
			flaws = append(flaws, "parley log verify: "+strings.TrimSpace(line))
		}
	}
	return flaws
}
