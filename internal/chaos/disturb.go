package chaos

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/schedule"
	"github.com/parleyrun/parley/storage"
)

func (w *world) disturb(ctx context.Context, rng *rand.Rand, slot int) {
	crashes, drains, pauses, views := []int{0, 1, 3}[schedule.Draw(w.Seed, "crashes")%3], 1, 6, 9
	calm, longest, trouble := 200*time.Millisecond, 5*time.Second, 7*time.Second
	if w.Profile == Journals {
		crashes, drains, views = 3, 0, 10
		calm, longest, trouble = 100*time.Millisecond, 3*time.Second, 6*time.Second
	}
	for schedule.Sleep(ctx, schedule.Between(rng.Uint64(), calm, longest)) == nil {
		length := schedule.Between(rng.Uint64(), 100*time.Millisecond, trouble)
		w.slots[slot].turn <- struct{}{}
		switch n := rng.IntN(10); {
		case n < crashes:
			w.await(ctx, slot, rng)
			if w.Profile == Journals && rng.IntN(2) == 0 {
				length = w.pendingTime // permanently
			}
			w.absence(ctx, slot, rng, length)
		case crashes > 0 && n < crashes+drains:
			w.drain(slot, rng)
			schedule.Sleep(ctx, length)
			w.restart(slot)
		case n < pauses:
			w.await(ctx, slot, rng)
			w.pause(slot, true)
			schedule.Sleep(ctx, length)
			w.pause(slot, false)
		case n < views:
			w.believe(slot, rng)
		}
		<-w.slots[slot].turn
	}
}

// absence crashes a slot, sometimes another at the same time, and restarts them after length unless
// ctx ends. It may corrupt caches in between.
func (w *world) absence(ctx context.Context, slot int, rng *rand.Rand, length time.Duration) {
	gone := []int{slot}
	if other := (slot + 1 + rng.IntN(slots-1)) % slots; rng.IntN(3) == 0 {
		select {
		case w.slots[other].turn <- struct{}{}:
			defer func() { <-w.slots[other].turn }()
			gone = append(gone, other)
			w.trace.Did("two crashes at once")
		default:
		}
	}
	for _, slot := range gone {
		w.apart("crash", slot)
		w.crash(slot)
	}
	if w.Profile != Journals && rng.IntN(2) == 0 {
		w.corruptCaches(context.WithoutCancel(ctx), rng)
	}
	if schedule.Sleep(ctx, length) != nil {
		return
	}
	for _, slot := range gone {
		w.restart(slot)
	}
}

func (w *world) outages(ctx context.Context, rng *rand.Rand) {
	for range rng.IntN(3) {
		if schedule.Sleep(ctx, schedule.Between(rng.Uint64(), 0, w.pendingTime/2)) != nil {
			return
		}
		w.trace.Did("outage")
		w.net.setOutage([]schedule.Outcome{schedule.ErrorBefore, schedule.ErrorAfter, schedule.LostAnswer, schedule.Dropped}[rng.IntN(4)])
		schedule.Sleep(ctx, schedule.Between(rng.Uint64(), 200*time.Millisecond, 6*time.Second))
		w.net.setOutage(schedule.Delivered)
	}
}

// await waits up to four seconds for a chosen moment at a slot, and counts it.
func (w *world) await(ctx context.Context, slot int, rng *rand.Rand) {
	m := w.strikes[rng.IntN(len(w.strikes))]
	if m == anyTime {
		return
	}
	select {
	case <-w.at(slot).link.next(m):
		if rng.IntN(2) == 0 { // By then the node has received the answer and acted on it.
			schedule.Sleep(ctx, schedule.Between(rng.Uint64(), 0, 100*time.Millisecond))
		}
		w.trace.Did("fault when " + string(m))
	case <-time.After(4 * time.Second):
	case <-ctx.Done():
	}
}

func (w *world) believe(slot int, rng *rand.Rand) {
	v := view{alone: rng.IntN(4) == 0}
	for i := range slots {
		v.absent[i] = i != slot && rng.IntN(4) == 0
	}
	w.slots[slot].view.Store(&v)
	w.trace.Add(fmt.Sprint("slot-", slot), "believes %+v", v)
}

// cached reports whether an object is a cache that can be rebuilt from the log: the head, a
// checkpoint, or a page of closed history.
func cached(key string) bool {
	return slices.Contains([]storage.ObjectKind{storage.KindHead, storage.KindCheckpoint, storage.KindPage}, storage.KindOf(key))
}

// corruptCaches corrupts or deletes some of the caches.
func (w *world) corruptCaches(ctx context.Context, rng *rand.Rand) {
	for _, at := range w.addresses {
		if rng.IntN(2) == 0 {
			continue
		}
		page, err := w.Store.List(ctx, storage.ListQuery{Prefix: storage.FolderOf(at.Key())})
		if err != nil {
			w.trace.Violate("", "list: %v", err)
			return
		}
		for _, k := range page.Keys {
			if cached(k.Key) && rng.IntN(3) == 0 {
				if err := w.corrupt(ctx, rng, k.Key); err != nil {
					w.trace.Violate("", "corrupt %s: %v", k.Key, err)
				}
			}
		}
	}
}

func (w *world) corrupt(ctx context.Context, rng *rand.Rand, key string) error {
	data, err := w.Store.Get(ctx, key)
	if err != nil {
		return fmt.Errorf("get: %w", err)
	}
	w.trace.Did("cache corrupted")
	how := rng.IntN(4)
	w.trace.Add("", "corruption %d of %s", how, key)
	switch how {
	case 0:
		return w.Store.Delete(ctx, key)
	case 1:
		data = data[:1+rng.IntN(len(data))/2]
	case 2:
		data[rng.IntN(len(data))] ^= 1 << rng.IntN(8)
	case 3:
		data = []byte("what is this?")
	}
	return w.Store.Put(ctx, key, storage.Bytes(data))
}

// cacheRead counts a read of a cache. body is nil if the object is missing.
func (w *world) cacheRead(key string, body []byte) {
	name, _ := storage.ParseKey(key)
	sum := sha256.Sum256(body)
	switch {
	case name.Kind == storage.KindHead:
	case body == nil || !strings.HasPrefix(hex.EncodeToString(sum[:]), name.Digest):
		w.trace.Did("corrupt cache read")
	case name.Kind == storage.KindCheckpoint:
		w.trace.Did("checkpoint read")
	default:
		w.trace.Did("history page read")
	}
}

// Opening a deadly conversation crashes the process. In every fourth schedule of journals the first
// conversation becomes deadly; it is repaired after all other faults have ended.

// opensDeadly reports whether a request begins to read the log of the deadly conversation, and kills
// the process that sends it.
func (w *world) opensDeadly(l *link, o op) bool {
	if !w.deadly.Load() || o.method != "LIST" || o.key != storage.FolderOf(address(0).Key())+"log/" || o.after != "" {
		return false
	}
	if l.kill() {
		w.deaths.Go(func() { w.crashDeadly(l.slot, l.member) })
	}
	return true
}

// crashDeadly ends an incarnation that has opened the deadly conversation, and restarts its slot after a
// while.
func (w *world) crashDeadly(slot int, member string) {
	w.trace.Did("crashed by a conversation")
	w.apart("die", member)
	w.slots[slot].turn <- struct{}{}
	defer func() { <-w.slots[slot].turn }()
	m := w.at(slot)
	if m.id != member || m.gone.Load() {
		return // Another fault has ended it already.
	}
	w.crash(slot)
	time.Sleep(schedule.Between(schedule.Draw(w.Seed, "dead", member), 100*time.Millisecond, 2*time.Second))
	if w.at(slot) == m {
		w.restart(slot)
	}
}

func (w *world) makeDeadly(ctx context.Context, _ *rand.Rand) {
	rng := w.rng("deadly")
	if rng.IntN(4) == 0 && schedule.Sleep(ctx, schedule.Between(rng.Uint64(), 0, w.pendingTime)) == nil {
		w.trace.Add("", "the first conversation is deadly")
		w.deadly.Store(true)
	}
}

// repairDeadly repairs the deadly conversation and puts back all quarantined conversations.
func (w *world) repairDeadly(ctx context.Context) {
	w.trace.Add("", "the first conversation is repaired")
	w.deadly.Store(false)
	for _, key := range w.quarantined(ctx) {
		desc := quarantineHealthy
		if key == address(0).Key() {
			desc = "quarantined"
		}
		w.trace.Did(desc)
		if err := storage.PutBack(ctx, w.Store, key); err != nil {
			w.trace.Violate("", "put back: %v", err)
		}
	}
}

func (w *world) quarantined(ctx context.Context) []conversation.Key {
	keys, err := storage.ListQuarantine(ctx, w.Store)
	w.trace.ViolateIf(err != nil, "", "list quarantine: %v", err)
	return keys
}
