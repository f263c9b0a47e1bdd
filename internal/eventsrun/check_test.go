package eventsrun_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// printedIDs is the number of ids in a flaw.
const printedIDs = 5

// compare returns the differences between expected and stored events. Both are sorted.
func compare(want, have []string) (flaws []string) {
	var missing, extra, twice []string
	for i := 1; i < len(have); i++ {
		if have[i] == have[i-1] {
			twice = append(twice, have[i])
		}
	}
	i, k := 0, 0
	for i < len(want) || k < len(have) {
		switch {
		case k == len(have) || i < len(want) && want[i] < have[k]:
			missing = append(missing, want[i])
			i++
		case i == len(want) || have[k] < want[i]:
			if k == 0 || have[k] != have[k-1] {
				extra = append(extra, have[k])
			}
			k++
		default:
			i, k = i+1, k+1
		}
	}
	for desc, ids := range map[string][]string{"are missing": missing, "are in no log": extra, "are there twice": twice} {
		if len(ids) > 0 {
			flaws = append(flaws, fmt.Sprintf("%d of %d events %s, the first: %s", len(ids), len(want), desc, strings.Join(ids[:min(len(ids), printedIDs)], " ")))
		}
	}
	slices.Sort(flaws)
	return flaws
}

func TestCompare(t *testing.T) {
	want := []string{"a/0/0", "a/0/1", "b/0/0"}
	for name, c := range map[string]struct {
		have []string
		want string
	}{
		"the same":       {[]string{"a/0/0", "a/0/1", "b/0/0"}, ""},
		"one less":       {[]string{"a/0/0", "b/0/0"}, "1 of 3 events are missing, the first: a/0/1"},
		"none":           {nil, "3 of 3 events are missing"},
		"the last":       {[]string{"a/0/0", "a/0/1"}, "are missing, the first: b/0/0"},
		"one more":       {[]string{"a/0/0", "a/0/1", "a/0/2", "b/0/0"}, "1 of 3 events are in no log, the first: a/0/2"},
		"more after":     {[]string{"a/0/0", "a/0/1", "b/0/0", "c/0/0"}, "are in no log, the first: c/0/0"},
		"one twice":      {[]string{"a/0/0", "a/0/0", "a/0/1", "b/0/0"}, "1 of 3 events are there twice, the first: a/0/0"},
		"twice for one":  {[]string{"a/0/0", "a/0/0", "b/0/0"}, "are missing, the first: a/0/1\n1 of 3 events are there twice"},
		"another of two": {[]string{"a/0/0", "a/0/2", "b/0/0"}, "are in no log, the first: a/0/2\n1 of 3 events are missing, the first: a/0/1"},
	} {
		got := strings.Join(compare(want, c.have), "\n")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: flaws %q, want %q", name, got, c.want)
		}
	}
}

// maxLiveWrite limits the live events in one write of a node. On a busy machine writes grow.
const maxLiveWrite = 10_000

// emission holds the counts of live events of a node that was not killed, once none are in flight.
type emission struct {
	before, after metrics // around its last conversations
	rows          liveRows
	kills         int // kills of the database server
}

// flaws returns the contradictions between the counts.
//
// The highest number in the table is the last that was emitted, because the last conversations of the
// node dropped nothing and stored something. An event counts as dropped if no write of it was
// acknowledged. At each kill one unacknowledged write of the node may have landed. So the table may
// have that many events more than are counted as stored, and never fewer.
func (e emission) flaws() (flaws []string) {
	fail := func(format string, args ...any) { flaws = append(flaws, fmt.Sprintf(format, args...)) }
	if e.after.dropped != e.before.dropped {
		fail("%d live events were dropped after the last fault", e.after.dropped-e.before.dropped)
	}
	if e.after.live() <= e.before.live() {
		fail("no live events of the last conversations were stored")
	}
	emitted, stored, dropped := e.rows.highest+1, e.after.live(), e.after.dropped
	if stored+dropped != emitted {
		fail("%d live events stored and %d dropped, want a sum of %d as emitted", stored, dropped, emitted)
	}
	if e.rows.ids < stored || e.rows.ids > stored+min(dropped, e.kills*maxLiveWrite) {
		fail("table has %d live events, want %d as stored, plus at most %d of %d dropped",
			e.rows.ids, stored, e.kills*maxLiveWrite, dropped)
	}
	if e.rows.numbers != e.rows.ids {
		fail("%d live events have %d numbers", e.rows.ids, e.rows.numbers)
	}
	return flaws
}

func TestEmission(t *testing.T) {
	good := emission{
		before: metrics{shipped: 100, stored: 150, dropped: 30}, after: metrics{shipped: 200, stored: 270, dropped: 30},
		rows: liveRows{ids: 75, numbers: 75, highest: 99}, kills: 1,
	}
	for name, c := range map[string]struct {
		change func(*emission)
		want   string
	}{
		"valid":               {func(*emission) {}, ""},
		"stored alone":        {func(e *emission) { e.rows.ids, e.rows.numbers = 70, 70 }, ""},
		"one is not counted":  {func(e *emission) { e.rows.highest++ }, "want a sum of 101"},
		"one is lost":         {func(e *emission) { e.rows.ids, e.rows.numbers = 69, 69 }, "table has 69"},
		"too many stored":     {func(e *emission) { e.rows.ids, e.rows.numbers, e.kills = 71, 71, 0 }, "table has 71"},
		"a number twice":      {func(e *emission) { e.rows.numbers-- }, "have 74 numbers"},
		"dropped in the end":  {func(e *emission) { e.before.dropped-- }, "1 live events were dropped"},
		"nothing in the end":  {func(e *emission) { e.before.stored = 170 }, "no live events of the last"},
		"dropped, not stored": {func(e *emission) { e.after.dropped-- }, "want a sum of 100"},
	} {
		e := good
		c.change(&e)
		got := strings.Join(e.flaws(), "\n")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: flaws %q, want %q", name, got, c.want)
		}
	}
}
