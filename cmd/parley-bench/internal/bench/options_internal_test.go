package bench

import (
	"testing"
	"time"
)

// The targets hold for the amounts of a full run, which ends in time.
func TestAmounts(t *testing.T) {
	full, quick, few := &Options{}, &Options{Quick: true, Percent: 100}, &Options{Quick: true, Percent: 1}
	counts := map[string]amount[int]{}
	for _, s := range []*Suite{Server, Log, Cluster} {
		for _, s := range s.scenarios {
			counts[s.name] = s.n
			if f, q := s.n.of(full), s.n.of(quick); f != s.n.full || q != s.n.quick || q >= f || s.n.of(few) != max(1, q/100) {
				t.Errorf("%s: %d, quick %d", s.name, f, q)
			}
		}
	}
	for name, want := range map[string]int{
		"readers": 500, "broadcast": 500, "idle": 10_000, "rush": 50_000, "cluster-idle": 10_000, "cluster-leave": 200, "cluster-readers": 200, "cluster-failover": 8,
	} {
		if got := counts[name].full; got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
	if longTurns.of(full) != 1000 || killedTurns.of(full) != 50 || rushTime.of(full) != time.Minute || streamedTurns.of(full) != 60 {
		t.Error("amounts of a full run differ from the targets")
	}
	if steadyTime.of(few) != 20*time.Millisecond {
		t.Errorf("few: steadyTime = %v", steadyTime.of(few))
	}
	if Server.boundsOf(full).run > 10*time.Minute || Server.boundsOf(quick).run > time.Minute || Server.boundsOf(few) != Server.boundsOf(full) {
		t.Errorf("bounds %+v, %+v", Server.full, Server.quick)
	}
}
