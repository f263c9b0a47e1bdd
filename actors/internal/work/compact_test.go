package work

import (
	"testing"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/providers"
)

// covers: providers/29
func TestFullNeedsAWindow(t *testing.T) {
	used := providers.Usage{Input: 900, Output: 90, Total: 990}
	for _, tt := range []struct {
		name string
		c    agent.Compaction
		m    providers.Model
		u    providers.Usage
		want bool
	}{
		{"near", agent.Compaction{}, providers.Model{ContextWindow: 1000}, used, true},
		{"without a sum", agent.Compaction{}, providers.Model{ContextWindow: 1000}, providers.Usage{Input: 400, CacheRead: 500, Output: 90}, true},
		{"far", agent.Compaction{}, providers.Model{ContextWindow: 100_000}, used, false},
		{"not known", agent.Compaction{}, providers.Model{}, used, false},
		{"switched off", agent.Compaction{Off: true}, providers.Model{ContextWindow: 1000}, used, false},
	} {
		if got := full(tt.c, tt.m, tt.u); got != tt.want {
			t.Errorf("%s: got full %v", tt.name, got)
		}
	}
}
