package noderun

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Verified reads the findings of "parley log verify --json" and its exit code: only what a
// kill may leave behind, and what compaction has merged and not deleted yet, is no flaw.
func Verified(out []byte, code int) (flaws []string) {
	if code != 0 && code != 1 {
		flaws = append(flaws, fmt.Sprintf("parley log verify ended with %d", code))
	}
	for line := range strings.Lines(string(out)) {
		var v struct{ Severity, Kind, Key, Text string }
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			flaws = append(flaws, fmt.Sprintf("parley log verify printed %q", line))
			continue
		}
		switch {
		case v.Severity == "" || v.Severity == "note":
		case v.Severity == "repairable" && (strings.HasPrefix(v.Kind, "orphan-") || v.Kind == "duplicate-segment"):
		default:
			flaws = append(flaws, "parley log verify: "+strings.TrimSpace(line))
		}
	}
	return flaws
}
