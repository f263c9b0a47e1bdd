package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/reduce"
	"github.com/parleyrun/parley/storage"
)

// settle ends all faults, brings back some of the dead, lets time pass without
// any client and checks that nothing is owed in the end.
func (w *world) settle(ctx context.Context) {
	w.trace.Add("", "faults and clients end")
	for slot := range slots {
		w.apart("resume", slot)
		w.pause(slot, false)
	}
	w.apart("heal")
	w.net.heal()
	w.revive()
	w.mu.Lock()
	w.oneView = true
	w.mu.Unlock()
	w.comeToRest(ctx)
	w.convalesce(ctx)
	w.comeToRest(ctx)
	w.dying.Wait()
	for c := range w.profile.conversations() {
		if w.profile != Journals {
			w.askAgain(ctx, address(c))
		}
	}
	for _, r := range w.readers { // one for each conversation
		if log := w.log(ctx, r.at); log.state.Exists() {
			r.finish(ctx, w.pick(r.rng.IntN(slots)), log.state.Head())
		}
	}
}

// comeToRest lets time pass until nothing is owed.
func (w *world) comeToRest(ctx context.Context) {
	owed := ""
	for range quietPeriods {
		time.Sleep(w.opts.SweepEvery)
		w.replaceFailed()
		if owed = w.owed(ctx); owed == "" {
			return
		}
	}
	w.trace.Violate("", "after %d sweep periods without faults: %s", quietPeriods, owed)
}

// revive restarts nodes until at least one lives; others may stay dead.
func (w *world) revive() {
	rng := w.rng("revive")
	for slot, m := range w.present() {
		if w.isGone(m) && (rng.IntN(2) == 0 || w.pick(slot) == nil) {
			w.restart(slot)
		}
	}
}

// replaceFailed restarts nodes that gave up on their start, which is within
// their rights while the bucket does not answer.
func (w *world) replaceFailed() {
	for slot, m := range w.present() {
		select {
		case <-m.done:
			if !w.isGone(m) {
				w.crash(slot)
				w.restart(slot)
			}
		default:
		}
	}
}

func (w *world) restart(slot int) {
	if err := w.start(slot); err != nil {
		w.trace.Violate("", "restart: %v", err)
	}
}

// present returns the newest incarnations.
func (w *world) present() [slots]*member {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.nodes
}

// isGone reports whether a member crashed or drained. A deadly conversation may end it at
// any time.
func (w *world) isGone(m *member) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return m.gone
}

// owed says what is still to be done, "" if nothing is.
func (w *world) owed(ctx context.Context) string {
	live, aside := map[string]bool{}, w.asides(ctx)
	blocked := w.blocked(ctx, aside)
	for _, m := range w.present() {
		if w.isGone(m) {
			continue
		}
		live[m.id] = true
		select {
		case <-m.node.Ready():
		default:
			return m.id + " has not started yet"
		}
		if listed, active := m.node.Rest(); listed > blocked || active > blocked {
			return fmt.Sprintf("%s lists %d conversations and holds %d", m.id, listed, active)
		}
	}
	refs, err := storage.Journals(ctx, w.bucket)
	if err != nil {
		return err.Error()
	}
	for _, ref := range refs {
		if !live[ref.Member] {
			return fmt.Sprintf("journals %v of a dead node are left", ref.Keys)
		}
	}
	for c := range w.profile.conversations() {
		at := address(c)
		state := w.log(ctx, at).state
		if aside[at.Key()] {
			continue // It is owed, and nobody may open it.
		}
		if id := unposted(state); id != "" {
			return fmt.Sprintf("%s is not delivered", id)
		}
		if id := untold(state, aside); id != "" {
			return fmt.Sprintf("nobody was told of the reply to %s", id)
		}
		for _, a := range w.acks {
			if sub := state.Lookup(a.Key); a.Address == at && sub != nil && !sub.Settled && !rests(sub) {
				return fmt.Sprintf("%s of %s was acknowledged at %d and is not settled", a.Key, at.ID, int64(a.receipt.Offset))
			}
		}
	}
	return w.owedRuns(ctx, aside)
}

// stop ends the nodes in an orderly way.
func (w *world) stop() {
	for _, m := range w.all {
		m.stop()
		<-m.done
		if !m.killed {
			w.checkEnd(m)
		}
	}
}

// knownLog is a log as far as the checker has read it, past all faults.
type knownLog struct {
	tail    storage.Position
	state   *conversation.State
	batches []conversation.Batch
	err     error
}

// log reads on to the end of a log.
func (w *world) log(ctx context.Context, at conversation.Address) *knownLog {
	l := w.known[at]
	if l == nil {
		l = &knownLog{tail: storage.Start(), state: conversation.NewState()}
		w.known[at] = l
	}
	for b, err := range w.logs.Batches(ctx, at.Key(), l.tail) {
		if err == nil {
			err = l.add(b)
		}
		if err != nil {
			l.err = err
			break
		}
	}
	return l
}

func (l *knownLog) add(b storage.Batch) error {
	records, err := conversation.DecodeRecords(b.Lines)
	if err != nil {
		return err
	}
	batch := conversation.Batch{Offset: conversation.Offset(b.Seq), Records: records}
	l.batches = append(l.batches, batch)
	l.tail = b.Position()
	return l.state.Apply(batch)
}

// check compares the final logs with what was acknowledged and seen.
func (w *world) check(ctx context.Context) {
	for c := range w.profile.conversations() {
		at := address(c)
		log := w.log(ctx, at)
		if log.err != nil {
			w.trace.Violate(at.ID, "the final log cannot be read: %v", log.err)
			continue
		}
		w.checkLog(at, log)
		for _, r := range w.readers {
			if r.at == at && r.doc != nil {
				r.check(log)
			}
		}
	}
	w.checkAsks(ctx)
	w.checkRuns(ctx)
}

func (w *world) checkLog(at conversation.Address, log *knownLog) {
	settled := map[conversation.SubmissionID]int{}
	keys := map[string]int{}
	for _, b := range log.batches {
		for _, r := range b.Records {
			switch r := r.(type) {
			case *conversation.SubmissionSettled:
				settled[r.Submission]++
			case *conversation.SubmissionAdmitted:
				keys[r.Key]++
			}
		}
	}
	for id, n := range settled {
		if n > 1 {
			w.trace.Violate(at.ID, "%s is settled %d times", id, n)
		}
	}
	for key, n := range keys {
		if n > 1 {
			w.trace.Violate(at.ID, "%s is admitted %d times", key, n)
		}
	}
	for _, a := range w.acks {
		if a.Address == at {
			w.checkAck(a, log, settled)
		}
	}
	w.checkAborts(at, log)
	w.checkWork(at, log)
	w.checkWaits(at, log)
	w.checkPosts(at, log)
}

func (w *world) checkAck(a ack, log *knownLog, settled map[conversation.SubmissionID]int) {
	off := a.receipt.Offset
	if off < 0 || int64(off) >= int64(len(log.batches)) {
		w.trace.Violate(a.Key, "acknowledged at %d, the log ends at %d", int64(off), len(log.batches)-1)
		return
	}
	found, created := false, false
	for _, r := range log.batches[off].Records {
		switch r := r.(type) {
		case *conversation.SubmissionAdmitted:
			if r.Key == a.Key {
				hash, err := (&conversation.Admission{Delivery: r.Delivery}).PayloadHash()
				found = err == nil && r.Submission == a.receipt.SubmissionID && hash == a.hash
			}
		case *conversation.ConversationCreated:
			created = true
		}
	}
	id := a.receipt.SubmissionID
	switch {
	case !found:
		w.trace.Violate(a.Key, "acknowledged at %d as %s, which batch %d does not admit", int64(off), id, int64(off))
	case settled[id] == 0 && log.state.Submission(id) != nil && rests(log.state.Submission(id)):
		w.shown.Add(didRest)
	case settled[id] != 1:
		w.trace.Violate(a.Key, "%s was acknowledged and settled %d times", id, settled[id])
	case a.Condition.Absent && !created:
		w.trace.Violate(a.Key, "%s was to create the conversation and did not", id)
	case a.receipt.UID != log.state.Created().UID || a.Condition.Set && a.Condition.UID != a.receipt.UID:
		w.trace.Violate(a.Key, "%s was for %q, acknowledged by %q, and is in %q", id, a.Condition.UID, a.receipt.UID, log.state.Created().UID)
	}
}

// check compares what a reader saw with the final log.
func (r *reader) check(log *knownLog) {
	var want []byte
	state := conversation.NewState()
	for _, b := range log.batches {
		if b.Offset > r.offset {
			break
		}
		if err := state.Apply(b); err != nil {
			r.world.trace.Violate(r.name, "fold batch %d: %v", int64(b.Offset), err)
			return
		}
		r.compareSnapshot(b.Offset, state)
		if b.Offset <= r.start {
			continue
		}
		chunks, err := conversation.Project(log.state.Created().ConversationID, b,
			func() (*conversation.Snapshot, error) { return state.Snapshot(), nil })
		if err == nil && len(chunks) > 0 {
			if len(want) > 0 {
				want = append(want, ',')
			}
			want, err = conversation.AppendChunks(want, chunks)
		}
		if err != nil {
			r.world.trace.Violate(r.name, "project batch %d: %v", int64(b.Offset), err)
		}
	}
	var got [][]byte
	for _, c := range r.seen {
		got = append(got, c)
	}
	if have := bytes.Join(got, []byte{','}); !bytes.Equal(have, want) {
		r.world.trace.Violate(r.name, "what was read from %d to %d differs from the log (-):\n%s", int64(r.start), int64(r.offset),
			cmp.Diff(strings.Split(string(want), "},{"), strings.Split(string(have), "},{")))
	}
	r.compare(state, "reduced view", r.doc.Root)
}

// compareSnapshot compares the snapshots that were taken at an offset.
func (r *reader) compareSnapshot(off conversation.Offset, state *conversation.State) {
	for _, s := range r.snapshots {
		if s.Next == off {
			doc, err := decoded(s.JSON)
			if err != nil {
				r.world.trace.Violate(r.name, "decode snapshot: %v", err)
				continue
			}
			r.world.shown.Add(didSnapshot)
			r.compare(state, "snapshot taken", doc)
		}
	}
}

// compare compares a view with the snapshot of a state.
func (r *reader) compare(state *conversation.State, what string, have reduce.Object) {
	data, err := conversation.EncodeJSON(state.Snapshot())
	if err != nil {
		r.world.trace.Violate(r.name, "encode snapshot: %v", err)
		return
	}
	want, err := decoded(data)
	if err != nil {
		r.world.trace.Violate(r.name, "decode snapshot: %v", err)
		return
	}
	if !reflect.DeepEqual(want, have) {
		r.world.trace.Violate(r.name, "the %s at %d differs from the log (-):\n%s", what, int64(state.Head()), cmp.Diff(want, have))
	}
}

// decoded decodes an object as clients do.
func decoded(data []byte) (o reduce.Object, err error) {
	return o, json.Unmarshal(data, &o)
}
