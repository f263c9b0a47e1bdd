package chaos

import (
	"context"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/schedule"
	"github.com/parleyrun/parley/storage"
)

// deadly is a conversation whose opening ends the process: in every fourth schedule about
// journals the first one becomes so, and is mended when all else is quiet.
type deadly struct {
	on     bool
	killed map[string]bool // incarnations that have opened it
}

// opensDeadly reports whether a request begins to read the log of the deadly conversation.
func (w *world) opensDeadly(o op) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	opens := o.method == "LIST" && o.key == storage.FolderOf(address(0).Key())+"log/" && o.after == ""
	if !w.deadly.on || !opens || w.deadly.killed[o.member] {
		return w.deadly.killed[o.member]
	}
	w.deadly.killed[o.member] = true
	w.dying.Go(func() { w.die(o.member) })
	return true
}

// die ends an incarnation that has opened what it should not, and starts the next of its
// slot after a while.
func (w *world) die(member string) {
	w.shown.Add(didDie)
	w.apart("die", member)
	for slot, m := range w.present() {
		if m == nil || m.id != member {
			continue
		}
		w.turn[slot] <- struct{}{}
		defer func() { <-w.turn[slot] }()
		if !w.lives(slot, m) {
			return // It died of something else meanwhile.
		}
		w.crash(slot)
		time.Sleep(schedule.Between(schedule.Draw(w.seed, "dead", member), 100*time.Millisecond, 2*time.Second))
		if w.present()[slot] == m {
			w.restart(slot)
		}
	}
}

// lives reports whether an incarnation is the one of its slot.
func (w *world) lives(slot int, m *member) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.nodes[slot] == m && !m.gone
}

// sicken makes a conversation deadly at some time.
func (w *world) sicken(ctx context.Context) {
	rng := w.rng("deadly")
	if rng.IntN(4) > 0 || schedule.Sleep(ctx, schedule.Between(rng.Uint64(), 0, w.profile.busyTime())) != nil {
		return
	}
	w.mend(true)
}

func (w *world) mend(deadly bool) {
	w.trace.Add("", "the first conversation is deadly: %v", deadly)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadly.on = deadly
}

// convalesce mends the deadly conversation and puts back what is set aside. Others than that
// one are so because nodes have died of something else, again and again, while they opened
// it: they are counted, and must be rare.
func (w *world) convalesce(ctx context.Context) {
	keys, err := storage.ListAside(ctx, w.bucket)
	if err != nil {
		w.trace.Violate("", "list what is set aside: %v", err)
	}
	w.mend(false)
	for _, key := range keys {
		what := didInnocent
		if key == address(0).Key() {
			what = didAside
		}
		w.shown.Add(what)
		if err := storage.PutBack(ctx, w.bucket, key); err != nil {
			w.trace.Violate("", "put back: %v", err)
		}
	}
}

// asides are the conversations that are set aside.
func (w *world) asides(ctx context.Context) map[conversation.Key]bool {
	keys, err := storage.ListAside(ctx, w.bucket)
	if err != nil {
		w.trace.Violate("", "list what is set aside: %v", err)
	}
	out := map[conversation.Key]bool{}
	for _, key := range keys {
		out[key] = true
	}
	return out
}
