package local

import (
	"slices"
	"strings"
	"testing"
)

// historyOf parses a history of one key such as "1+create=7", "1-done" and "2-get=7".
func historyOf(t *testing.T, words string) (history []event) {
	t.Helper()
	verbs := map[byte]string{}
	for _, w := range strings.Fields(words) {
		e := event{Op: uint64(w[0] - '0'), Key: "k"}
		text, value, _ := strings.Cut(w[2:], "=")
		if value != "" {
			e.Value = uint64(value[0] - '0')
		}
		if e.Phase, e.Verb = phaseBegin, text; w[1] == '-' {
			e.Phase, e.Verb, e.Result = phaseEnd, verbs[w[0]], text
		}
		verbs[w[0]] = e.Verb
		history = append(history, e)
	}
	return history
}

// TestExplain covers final values that a history allows and ones that it does not.
func TestExplain(t *testing.T) {
	for _, tt := range []struct {
		name, history string
		before        uint64
		may, not      []uint64
	}{
		{"no event", "", 3, []uint64{3}, []uint64{0, 1}},
		{"an acknowledged create", "1+create=1 1-done", 0, []uint64{1}, []uint64{0, 2}},
		{"a create without an answer", "1+create=1", 0, []uint64{0, 1}, []uint64{2}},
		{"a create that failed somehow", "1+create=1 1-unknown", 0, []uint64{0, 1}, nil},
		{"a create over an object", "1+create=1", 3, []uint64{3}, []uint64{0, 1}},
		{"a create that won over an object", "1+create=1 1-done", 3, nil, []uint64{0, 1, 3}},
		{"two creates that won", "1+create=1 2+create=2 1-done 2-done", 0, nil, []uint64{0, 1, 2}},
		{"a create that lost to nobody", "1+create=1 1-exists", 0, nil, []uint64{0, 1}},
		{"a create that lost to one without an answer", "1+create=1 2+create=2 2-exists", 0, []uint64{1}, []uint64{0, 2}},
		{"an acknowledged put", "1+put=1 1-done", 3, []uint64{1}, []uint64{0, 3}},
		{"puts at once", "1+put=1 2+put=2 1-done 2-done", 0, []uint64{1, 2}, []uint64{0}},
		{"puts in order", "1+put=1 1-done 2+put=2 2-done", 0, []uint64{2}, []uint64{0, 1}},
		{"an acknowledged delete", "1+delete 1-done", 3, []uint64{0}, []uint64{3}},
		{"a delete without an answer", "1+delete", 3, []uint64{0, 3}, nil},
		{"a delete that began later", "1+put=1 1-done 2+delete", 0, []uint64{0, 1}, nil},
		{"a delete that was over before", "1+delete 1-done 2+put=1 2-done", 3, []uint64{1}, []uint64{0, 3}},
		{"a read of what has no answer", "1+put=1 2+get 2-done=1", 3, []uint64{1}, []uint64{0, 3}},
		{"a read of what was there", "1+put=1 2+get 2-done=3", 3, []uint64{1, 3}, []uint64{0}},
		{"a read of nothing", "1+get 1-done=0", 3, nil, []uint64{0, 3}},
		{"a read of what came and went", "1+put=1 2+delete 3+get 3-done=1 4+get 4-done=0", 0, []uint64{0}, []uint64{1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			history := historyOf(t, tt.history)
			for _, v := range tt.may {
				if !explain(history, tt.before, v) {
					t.Errorf("version %d is not explained", v)
				}
			}
			for _, v := range tt.not {
				if explain(history, tt.before, v) {
					t.Errorf("version %d is explained", v)
				}
			}
		})
	}
}

// TestAuditNotices crashes a store, falsifies its history, and expects the audit to detect it.
func TestAuditNotices(t *testing.T) {
	c := newCycle(1, 0, endClone, "")
	c.Calls, c.Lost, c.Limit = 0, 0, 200
	d, disk := c.inProcess(t, newCrashDisk(t))
	present, flaws := audit(t, disk, testDir, d.history, nil)
	if len(flaws) > 0 || len(present) == 0 {
		t.Fatalf("%d objects, %s", len(present), strings.Join(flaws, "\n"))
	}
	fresh := event{Op: 999, Verb: verbCreate, Key: "lost", Value: 1 << 40}
	begun, done := fresh, fresh
	begun.Phase, done.Phase, done.Result = phaseBegin, phaseEnd, resultDone
	_, flaws = audit(t, disk, testDir, append(slices.Clone(d.history), begun, done), nil)
	if len(flaws) != 1 || !strings.Contains(flaws[0], "lost held 0 and holds 0") {
		t.Errorf("a lost create: %q", flaws)
	}
	if _, flaws = audit(t, disk, testDir, nil, nil); len(flaws) != len(present) {
		t.Errorf("%d unwritten objects: got %d flaws", len(present), len(flaws))
	}
	for name, d := range map[string]exitResult{
		"did not end as the product does":  {status: 2},
		"the message lacks":                {status: statusFatal},
		"as if the store had not been":     {status: statusNotOpen, history: []event{{Phase: phaseOpened}}},
		"was acknowledged after the log c": {status: statusKilled, history: []event{{Phase: phaseOpened}, {Phase: phaseFault}, begun, done}},
	} {
		if flaws := (cycle{Fault: "log sync"}).checkEnd(d); len(flaws) == 0 || !strings.Contains(flaws[0], name) {
			t.Errorf("%s: %q", name, flaws)
		}
	}
}
