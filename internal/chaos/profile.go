package chaos

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/parleyrun/parley/internal/schedule"
)

// Profile is what a schedule asks for, and what it does to those it asks.
type Profile int

const (
	// Everything asks for all that nodes can do, under faults of every kind.
	Everything Profile = iota
	// Journals asks for little: short submissions, few for each conversation, and
	// nothing afterwards that would bring one back to memory. Faults meet the journals
	// and the claims, and nodes die, stall and disagree where a promise is carried by a
	// journal alone: when it has landed, when a 202 is told, in the middle of a sweep.
	Journals
	// Waits has calls that wait for signals, and who signals, under the faults of Everything.
	Waits
	// Posts is Waits where calls post, and settlements are told, to an office that fails now and then.
	Posts
	// Runs is Waits where most calls start a run of a workflow and wait for it, which may start others.
	Runs
)

// conversations is how many there are.
func (p Profile) conversations() int {
	if p == Journals {
		return 6
	}
	return 3
}

// busyTime is how long clients and faults last.
func (p Profile) busyTime() time.Duration {
	if p == Journals {
		return 12 * time.Second
	}
	return 15 * time.Second
}

// moments are those that disturbances wait for.
func (p Profile) moments() []moment {
	if p == Journals {
		return []moment{anyTime, claimLands, batchLands, journalLands, receiptSeen, sweepReads}
	}
	return []moment{anyTime, claimLands, batchLands, journalLands}
}

// rate is the share of requests that something happens to.
func (p Profile) rate(base float64, o op) float64 {
	if p != Journals || base == 0 {
		return base
	}
	switch base = .05 + base/2; {
	case o.writes() && strings.HasPrefix(o.key, journalRoot):
		return 2 * base
	case o.method == http.MethodPut:
		return base
	}
	return base / 4
}

// Lacking returns what so many schedules of a profile have shown too rarely to prove anything.
func (p Profile) Lacking(s schedule.Shown, schedules int) []string {
	out := s.Below(p.wanted(), schedules)
	if n := s[asideInnocent]; n > max(1, schedules/100) {
		out = append(out, fmt.Sprintf("fewer conversations %s: %d", asideInnocent, n))
	}
	return out
}

// asideInnocent must be rare: nodes have died of something else, again and again, while they
// opened that conversation.
const asideInnocent = "set aside for no reason of its own"

// wanted is how often a thousand schedules show something at least.
func (p Profile) wanted() schedule.Shown {
	switch p {
	case Everything:
		return wantedOfEverything()
	case Journals:
		return wantedOfJournals()
	}
	out := schedule.Shown{
		"acknowledged": 3000, "batch": 10000, "claim": 2000, "model call": 2000, "crash": 500, "drain": 100, "outage": 100, "landed late": 500,
		"settled completed": 1500, "wait ended by signal": 500, "wait ended by timeout": 100, "signal kept": 300, "signal too late": 100,
		"parked at the end": 100, "reply heard": 100,
	}
	for deed := range out {
		out[deed] /= map[Profile]int{Waits: 1, Posts: 2, Runs: 4}[p]
	}
	switch p {
	case Posts:
		out["posted"], out["attempt to post failed"], out["posted again"] = 3000, 500, 200
	case Runs:
		out["run completed"], out["run failed"] = 1000, 100
	}
	return out
}

func wantedOfEverything() schedule.Shown {
	out := schedule.Shown{
		"acknowledged": 2500, "batch": 10000, "claim": 3000, "model call": 3000, "tool call": 2000, "page read": 2000, "page read again": 300,
		"conflict refused": 20, "wrong uid refused": 30, "creation refused": 10, "precheck": 200, "precheck knew the key": 20,
		"asked again at the end": 2000, "attachment read": 100, "image seen by a model": 100, "abort": 100, "abort without effect": 100,
		"settled completed": 1000, "settled failed": 100, "settled aborted": 100,
		"vendor asked to wait": 10, "step dropped": 100, "tool failed": 300, "output stored": 20, "data written": 500,
		"snapshot compared": 300, "read left": 500, "checkpoint read": 500, "history page read": 50, "cache damaged": 100, "damage met": 30,
		"crash": 500, "two crashes at once": 30, "drain": 100, "crash in a drain": 20, "outage": 100, "landed late": 500,
		"segment": 1000, "batch deleted": 4000, "key taken again": 1,
	}
	for _, f := range schedule.Faults() {
		out["fault: "+string(f)] = 300
	}
	for _, t := range append(passing(), refused) {
		out["model "+t] = 50
	}
	for _, mode := range hookModes() {
		out["hook "+mode] = 50
	}
	return out
}

func wantedOfJournals() schedule.Shown {
	out := schedule.Shown{
		"acknowledged": 5000, "batch": 10000, "claim": 5000, "model call": 5000, "poke": 3000, "journal swept": 3000,
		"crash": 1000, "two crashes at once": 100, "landed late": 500, "settled completed": 5000,
		"died of a conversation": 100, "set aside": 20,
	}
	for _, f := range schedule.Faults() {
		out["journal PUT "+string(f)] = 100
		out["journal DELETE "+string(f)] = 50
	}
	for _, m := range Journals.moments()[1:] {
		out["struck when "+string(m)] = 100
	}
	return out
}
