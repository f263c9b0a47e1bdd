package chaos

import (
	"fmt"

	"github.com/parleyrun/parley/internal/schedule"
)

// What schedules are meant to bring about.
const (
	didAck         schedule.Deed = "acknowledged"
	didConflict    schedule.Deed = "conflict refused"
	didWrongUID    schedule.Deed = "wrong uid refused"
	didExist       schedule.Deed = "creation refused"
	didPrecheck    schedule.Deed = "precheck"
	didKnown       schedule.Deed = "precheck knew the key"
	didAsk         schedule.Deed = "asked again at the end"
	didAttach      schedule.Deed = "attachment read"
	didImage       schedule.Deed = "image seen by a model"
	didAbort       schedule.Deed = "abort"
	didFindNothing schedule.Deed = "abort without effect"
	didSettle      schedule.Deed = "settled "
	didBatch       schedule.Deed = "batch"
	didClaim       schedule.Deed = "claim"
	didModel       schedule.Deed = "model call"
	didFail        schedule.Deed = "model "
	didWait        schedule.Deed = "vendor asked to wait"
	didDrop        schedule.Deed = "step dropped"
	didTool        schedule.Deed = "tool call"
	didToolFail    schedule.Deed = "tool failed"
	didStore       schedule.Deed = "output stored"
	didData        schedule.Deed = "data written"
	didHook        schedule.Deed = "hook "
	didRead        schedule.Deed = "page read"
	didReread      schedule.Deed = "page read again"
	didLeave       schedule.Deed = "read left"
	didSnapshot    schedule.Deed = "snapshot compared"
	didRestore     schedule.Deed = "checkpoint read"
	didPage        schedule.Deed = "history page read"
	didDamage      schedule.Deed = "cache damaged"
	didMeetDamage  schedule.Deed = "damage met"
	didCrash       schedule.Deed = "crash"
	didTwoCrash    schedule.Deed = "two crashes at once"
	didDrain       schedule.Deed = "drain"
	didCutDrain    schedule.Deed = "crash in a drain"
	didOutage      schedule.Deed = "outage"
	didLate        schedule.Deed = "landed late"
	didSegment     schedule.Deed = "segment"
	didDelete      schedule.Deed = "batch deleted"
	didOrphan      schedule.Deed = "key taken again"
	didFault       schedule.Deed = "fault: "
	didJournal     schedule.Deed = "journal "
	didSweep       schedule.Deed = "journal swept"
	didStrike      schedule.Deed = "struck when "
	didPoke        schedule.Deed = "poke"
	didDie         schedule.Deed = "died of a conversation"
	didAside       schedule.Deed = "set aside"
	didKeep        schedule.Deed = "signal kept"
	didEndWait     schedule.Deed = "wait ended by "
	didComeLate    schedule.Deed = "signal too late"
	didRest        schedule.Deed = "parked at the end"
	didHear        schedule.Deed = "reply heard"
	didPost        schedule.Deed = "posted"
	didPostFail    schedule.Deed = "attempt to post failed"
	didPostAgain   schedule.Deed = "posted again"
	didRun         schedule.Deed = "run "
	didInnocent    schedule.Deed = "set aside for no reason of its own"
)

// Lacking returns what so many schedules of a profile have shown too rarely to prove anything.
func (p Profile) Lacking(s schedule.Shown, schedules int) []string {
	out := s.Below(p.wanted(), schedules)
	if n := s[didInnocent]; n > max(1, schedules/100) {
		out = append(out, fmt.Sprintf("fewer conversations %s: %d", didInnocent, n))
	}
	return out
}

// wanted is how often a thousand schedules show something at least.
func (p Profile) wanted() map[schedule.Deed]int {
	switch p {
	case Journals:
		return wantedOfJournals()
	case Waits:
		return wantedOfWaits()
	case Posts:
		return wantedOfPosts()
	case Runs:
		return wantedOfRuns()
	}
	out := map[schedule.Deed]int{
		didAck: 2500, didBatch: 10000, didClaim: 3000, didModel: 3000, didTool: 2000, didRead: 2000, didReread: 300,
		didConflict: 20, didWrongUID: 30, didExist: 10, didPrecheck: 200, didKnown: 20, didAsk: 2000, didAttach: 100, didImage: 100, didAbort: 100, didFindNothing: 100,
		didSettle + "completed": 1000, didSettle + "failed": 100, didSettle + "aborted": 100,
		didWait: 10, didDrop: 100, didToolFail: 300, didStore: 20, didData: 500, didSnapshot: 300, didLeave: 500,
		didRestore: 500, didPage: 50, didDamage: 100, didMeetDamage: 30,
		didCrash: 500, didTwoCrash: 30, didDrain: 100, didCutDrain: 20, didOutage: 100, didLate: 500,
		didSegment: 1000, didDelete: 4000, didOrphan: 1,
	}
	for _, f := range schedule.Faults() {
		out[didFault+schedule.Deed(f.String())] = 300
	}
	for t := fine + 1; t < troubles; t++ {
		out[didFail+schedule.Deed(t.String())] = 50
	}
	for h := decorates; h < hookModes; h++ {
		out[didHook+schedule.Deed(h.String())] = 50
	}
	return out
}

func wantedOfJournals() map[schedule.Deed]int {
	out := map[schedule.Deed]int{
		didAck: 5000, didBatch: 10000, didClaim: 5000, didModel: 5000, didPoke: 3000, didSweep: 3000,
		didCrash: 1000, didTwoCrash: 100, didLate: 500, didSettle + "completed": 5000,
		didDie: 100, didAside: 20,
	}
	for _, f := range schedule.Faults() {
		out[didJournal+"PUT "+schedule.Deed(f.String())] = 100
		out[didJournal+"DELETE "+schedule.Deed(f.String())] = 50
	}
	for m := claimLands; m < moments; m++ {
		out[didStrike+schedule.Deed(m.String())] = 100
	}
	return out
}
