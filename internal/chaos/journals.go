package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/parleyrun/parley/conversation"
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

const (
	// journalRoot is where journals are.
	journalRoot = "wake/"
	// brief marks a body for which a model has one step, without trouble, and the
	// author nothing to add.
	brief = "brief-"
)

func isBrief(body string) bool { return strings.HasPrefix(body, brief) }

// conversations is how many there are.
func (p Profile) conversations() int {
	if p == Journals {
		return 6
	}
	return 3
}

// rate is the share of requests that something happens to.
func (p Profile) rate(base float64, o op) float64 {
	if p != Journals || base == 0 {
		return base
	}
	switch base = .05 + base/2; {
	case o.writes() && strings.HasPrefix(o.key, journalRoot):
		return 2 * base
	case o.method == "PUT":
		return base
	}
	return base / 4
}

// courier delivers a few short messages to one conversation.
func (w *world) courier(ctx context.Context, name string, at conversation.Address) {
	rng := w.rng(name)
	for i := range 1 + rng.IntN(3) {
		if schedule.Sleep(ctx, schedule.Between(rng.Uint64(), 0, 5*time.Second)) != nil {
			return
		}
		key := fmt.Sprintf("%s-%d", name, i)
		p := w.newPost(rng, at, key, brief+key)
		for range 1 + rng.IntN(3) {
			m := w.pick(rng.IntN(slots))
			if m == nil {
				return
			}
			wait, pause := schedule.Between(rng.Uint64(), time.Second, 6*time.Second), schedule.Between(rng.Uint64(), 50*time.Millisecond, 2*time.Second)
			receipt, err := w.admit(ctx, m, wait, p, false)
			if err == nil {
				w.trace.Add(p.Key, "acknowledged by %s: %+v", m.id, receipt)
				w.acknowledged(ack{p, receipt})
				w.receiptSeen(at)
				break
			}
			w.trace.Add(p.Key, "no receipt from %s: %v", m.id, m.lastWords(err))
			if w.refused(p, err) || schedule.Sleep(ctx, pause) != nil {
				return
			}
		}
	}
}

// receiptSeen lets the moment come in which somebody has a receipt, for all who may have
// given it.
func (w *world) receiptSeen(at conversation.Address) {
	for slot, m := range w.present() {
		if m != nil && w.owner(slot, string(at.Key())) == m.id {
			m.link.came(receiptSeen)
		}
	}
}

// haunt crashes, stalls and misleads one slot at bad moments.
func (w *world) haunt(ctx context.Context, slot int) {
	rng := w.rng(fmt.Sprint("slot-", slot))
	for schedule.Sleep(ctx, schedule.Between(rng.Uint64(), 100*time.Millisecond, 3*time.Second)) == nil {
		length := schedule.Between(rng.Uint64(), 100*time.Millisecond, 6*time.Second)
		w.turn[slot] <- struct{}{}
		switch n := rng.IntN(10); {
		case n < 3:
			w.strike(ctx, slot, rng)
			if rng.IntN(2) == 0 {
				length = w.profile.busyTime() // for good
			}
			w.absence(ctx, slot, rng, length)
		case n < 6:
			w.strike(ctx, slot, rng)
			w.pause(slot, true)
			schedule.Sleep(ctx, length)
			w.pause(slot, false)
		default:
			w.believe(slot, rng)
		}
		<-w.turn[slot]
	}
}

// strike waits for a bad moment and counts it.
func (w *world) strike(ctx context.Context, slot int, rng *rand.Rand) {
	if m := w.await(ctx, slot, rng); m != anyTime {
		w.shown.Add(didStrike + schedule.Deed(m.String()))
	}
}

// busyTime is how long clients and faults last.
func (p Profile) busyTime() time.Duration {
	if p == Journals {
		return 12 * time.Second
	}
	return 15 * time.Second
}

// fated counts what happens to the writes of journals.
func (n *network) fated(o op, f schedule.Fate) {
	if o.writes() && strings.HasPrefix(o.key, journalRoot) {
		n.shown.Add(didJournal + schedule.Deed(o.method+" "+f.String()))
	}
}

// swept counts a journal that another than its node has deleted.
func (n *network) swept(o op) {
	if strings.HasPrefix(o.key, journalRoot) && !strings.HasPrefix(o.key, journalRoot+o.member+"/") {
		n.shown.Add(didSweep)
	}
}
