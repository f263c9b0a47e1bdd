package agent_test

import (
	"testing"

	"github.com/parleyrun/parley/agent"
)

func TestCompactionDefaults(t *testing.T) {
	for _, tc := range []struct {
		name      string
		maxOutput int
		in, want  agent.Compaction
	}{
		{"zero", 0, agent.Compaction{}, agent.Compaction{ReserveTokens: 20_000, KeepRecentTokens: 8_000}},
		{"short answers", 4_096, agent.Compaction{}, agent.Compaction{ReserveTokens: 4_096, KeepRecentTokens: 8_000}},
		{"long answers", 64_000, agent.Compaction{}, agent.Compaction{ReserveTokens: 20_000, KeepRecentTokens: 8_000}},
		{"own", 4_096, agent.Compaction{Off: true, ReserveTokens: 50_000, KeepRecentTokens: 1, Model: "p/m", Instructions: "x"},
			agent.Compaction{Off: true, ReserveTokens: 50_000, KeepRecentTokens: 1, Model: "p/m", Instructions: "x"}},
	} {
		if got := tc.in.WithDefaults(tc.maxOutput); got != tc.want {
			t.Errorf("%s: got %+v, want %+v", tc.name, got, tc.want)
		}
	}
}
