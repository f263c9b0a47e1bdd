package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// deed is something that schedules are meant to bring about.
type deed string

const (
	didAck         deed = "acknowledged"
	didConflict    deed = "conflict refused"
	didWrongUID    deed = "wrong uid refused"
	didExist       deed = "creation refused"
	didPrecheck    deed = "precheck"
	didKnown       deed = "precheck knew the key"
	didAsk         deed = "asked again at the end"
	didAttach      deed = "attachment read"
	didImage       deed = "image seen by a model"
	didAbort       deed = "abort"
	didFindNothing deed = "abort without effect"
	didSettle      deed = "settled "
	didBatch       deed = "batch"
	didClaim       deed = "claim"
	didModel       deed = "model call"
	didFail        deed = "model "
	didDrop        deed = "step dropped"
	didTool        deed = "tool call"
	didToolFail    deed = "tool failed"
	didData        deed = "data written"
	didHook        deed = "hook "
	didRead        deed = "page read"
	didReread      deed = "page read again"
	didLeave       deed = "read left"
	didSnapshot    deed = "snapshot compared"
	didRestore     deed = "checkpoint read"
	didPage        deed = "history page read"
	didDamage      deed = "cache damaged"
	didMeetDamage  deed = "damage met"
	didCrash       deed = "crash"
	didTwoCrash    deed = "two crashes at once"
	didDrain       deed = "drain"
	didCutDrain    deed = "crash in a drain"
	didOutage      deed = "outage"
	didLate        deed = "landed late"
	didSegment     deed = "segment"
	didDelete      deed = "batch deleted"
	didOrphan      deed = "key taken again"
	didFault       deed = "fault: "
	didJournal     deed = "journal "
	didSweep       deed = "journal swept"
	didStrike      deed = "struck when "
	didPoke        deed = "poke"
	didDie         deed = "died of a conversation"
	didAside       deed = "set aside"
	didInnocent    deed = "set aside for no reason of its own"
)

// Shown counts what schedules have exercised.
type Shown map[string]int

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

// Lacking returns what so many schedules of a profile have shown too rarely to prove anything.
func (s Shown) Lacking(p Profile, schedules int) []string {
	var out []string
	for what, thousandth := range p.wanted() {
		if want := schedules * thousandth / 1000; s[string(what)] < want {
			out = append(out, fmt.Sprintf("%s %d, want %d", what, s[string(what)], want))
		}
	}
	if n := s[string(didInnocent)]; n > max(1, schedules/100) {
		out = append(out, fmt.Sprintf("fewer conversations %s: %d", didInnocent, n))
	}
	slices.Sort(out)
	return out
}

// wanted is how often a thousand schedules show something at least. It is far below
// what they do show.
func (p Profile) wanted() map[deed]int {
	if p == Journals {
		return wantedOfJournals()
	}
	out := map[deed]int{
		didAck: 2500, didBatch: 10000, didClaim: 3000, didModel: 3000, didTool: 2000, didRead: 2000, didReread: 300,
		didConflict: 20, didWrongUID: 30, didExist: 10, didPrecheck: 200, didKnown: 20, didAsk: 2000, didAttach: 100, didImage: 100, didAbort: 100, didFindNothing: 100,
		didSettle + "completed": 1000, didSettle + "failed": 100, didSettle + "aborted": 100,
		didDrop: 100, didToolFail: 300, didData: 500, didSnapshot: 300, didLeave: 500,
		didRestore: 500, didPage: 50, didDamage: 100, didMeetDamage: 30,
		didCrash: 500, didTwoCrash: 30, didDrain: 100, didCutDrain: 20, didOutage: 100, didLate: 500,
		didSegment: 1000, didDelete: 4000, didOrphan: 1,
	}
	for f := delivered + 1; f < fates; f++ {
		out[didFault+deed(f.String())] = 300
	}
	for t := fine + 1; t < troubles; t++ {
		out[didFail+deed(t.String())] = 50
	}
	for h := decorates; h < hookModes; h++ {
		out[didHook+deed(h.String())] = 50
	}
	return out
}

func wantedOfJournals() map[deed]int {
	out := map[deed]int{
		didAck: 5000, didBatch: 10000, didClaim: 5000, didModel: 5000, didPoke: 3000, didSweep: 3000,
		didCrash: 1000, didTwoCrash: 100, didLate: 500, didSettle + "completed": 5000,
		didDie: 100, didAside: 20,
	}
	for f := delivered + 1; f < fates; f++ {
		out[didJournal+"PUT "+deed(f.String())] = 100
		out[didJournal+"DELETE "+deed(f.String())] = 50
	}
	for m := claimLands; m < moments; m++ {
		out[didStrike+deed(m.String())] = 100
	}
	return out
}

// tally counts events.
type tally struct {
	mu sync.Mutex
	n  Shown
}

func (t *tally) add(e deed) { t.addN(e, 1) }

func (t *tally) addN(e deed, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n[string(e)] += n
}
