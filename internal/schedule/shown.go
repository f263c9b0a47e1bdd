package schedule

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Deed is something that schedules are meant to bring about.
type Deed string

// Shown counts what schedules have exercised.
type Shown map[Deed]int

// Add adds the counts of another schedule.
func (s Shown) Add(o Shown) {
	for k, n := range o {
		s[k] += n
	}
}

// String lists the counts by name.
func (s Shown) String() string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(s)) {
		out = append(out, fmt.Sprintf("%s %d", k, s[k]))
	}
	return strings.Join(out, ", ")
}

// Below returns what so many schedules have shown too rarely to prove anything. It is
// wanted as often as a thousand schedules show it at least, which is far below what they
// do show.
func (s Shown) Below(thousandth map[Deed]int, schedules int) []string {
	var out []string
	for what, n := range thousandth {
		if want := schedules * n / 1000; s[what] < want {
			out = append(out, fmt.Sprintf("%s %d, want %d", what, s[what], want))
		}
	}
	slices.Sort(out)
	return out
}

// Tally counts what happens in a schedule.
type Tally struct {
	mu sync.Mutex
	n  Shown
}

// Add counts a deed.
func (t *Tally) Add(d Deed) { t.AddN(d, 1) }

// AddN counts a deed that was done n times.
func (t *Tally) AddN(d Deed, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == nil {
		t.n = Shown{}
	}
	t.n[d] += n
}

// Shown returns the counts. Nobody counts any more.
func (t *Tally) Shown() Shown { return t.n }
