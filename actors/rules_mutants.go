//go:build mutants

package actors

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/parleyrun/parley/storage"
)

// rules are switched off when true. They hold for the whole process.
var rules struct {
	waitsForJournal, sweepsOwnSet, checksResting, looksAtLog atomic.Bool

	awaitsAnswers     atomic.Bool // A swept journal goes when every entry is answered.
	sweepsAgain       atomic.Bool // Sweeps recur.
	asksOwners        atomic.Bool // An entry of this node is no answer for another's.
	asksClaimed       atomic.Bool // Not even if it is farther on.
	deletesRead       atomic.Bool // A sweep deletes the keys up to what it has read.
	listsWriters      atomic.Bool // An entry is of one writer.
	listsInFlight     atomic.Bool // The journal in flight must list a writer, too.
	foretellsOpening  atomic.Bool // Who is asked by a sweep is listed before the log is read.
	foretellsReading  atomic.Bool // What takes long to read is listed meanwhile.
	suspectsTakeTurns atomic.Bool // Of those over whom nodes died one is opened at a time.
	asideBeforeAnswer atomic.Bool // A conversation is set aside before its entries go.
	keepsBytes        atomic.Bool // A number never gets other bytes.
	deletesLanded     atomic.Bool // A journal goes when the next has landed.

	swept  sync.Map // what was swept once, by runtime and shard, for sweepsAgain
	landed sync.Map // the set that has landed, by journal, for listsInFlight
}

func sweepsOwnSet() bool  { return !rules.sweepsOwnSet.Load() }
func checksResting() bool { return !rules.checksResting.Load() }
func looksAtLog() bool    { return !rules.looksAtLog.Load() }
func awaitsAnswers() bool { return !rules.awaitsAnswers.Load() }

func foretellsOpening() bool  { return !rules.foretellsOpening.Load() }
func foretellsReading() bool  { return !rules.foretellsReading.Load() }
func suspectsTakeTurns() bool { return !rules.suspectsTakeTurns.Load() }
func asideBeforeAnswer() bool { return !rules.asideBeforeAnswer.Load() }

// sweptShard names what a runtime has swept.
type sweptShard struct {
	r *Runtime
	shard
}

func (r *Runtime) sweepsAgain(ref storage.JournalRef) bool {
	_, swept := rules.swept.Load(sweptShard{r, shard{ref.Member, ref.Shard}})
	return !swept || !rules.sweepsAgain.Load()
}

func (r *Runtime) covered(e storage.JournalEntry) bool {
	any, farther := rules.asksOwners.Load(), rules.asksClaimed.Load()
	j := r.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.ContainsFunc(j.set, func(own storage.JournalEntry) bool {
		landed := !own.Opening && own.Conv == e.Conv && own.Nonce != e.Nonce && j.entries[entryID{own.Conv, own.Nonce}].first <= j.landed
		return landed && (any || farther && own.Seq > e.Seq)
	})
}

func (r *Runtime) swept(ctx context.Context, ref storage.JournalRef) []string {
	if rules.sweepsAgain.Load() {
		rules.swept.Store(sweptShard{r, shard{ref.Member, ref.Shard}}, true)
	}
	if rules.deletesRead.Load() {
		refs, _ := storage.Journals(ctx, r.bucket)
		for _, now := range refs {
			if now.Member == ref.Member && now.Shard == ref.Shard {
				return now.Keys
			}
		}
	}
	return ref.Keys
}

func (j *journal) awaits(id entryID) bool {
	if rules.listsInFlight.Load() {
		if set, ok := rules.landed.Load(j); ok && set.(map[entryID]bool)[id] {
			return false
		}
	}
	return !rules.waitsForJournal.Load()
}

func (j *journal) entry(id entryID) *entry {
	if e := j.entries[id]; e != nil || !rules.listsWriters.Load() {
		return e
	}
	for _, own := range j.set {
		if own.Conv == id.conv {
			return j.entries[entryID{own.Conv, own.Nonce}]
		}
	}
	return nil
}

func (j *journal) store(ctx context.Context, next storage.Journal) error {
	if rules.deletesLanded.Load() {
		j.sweepOwn(ctx)
	}
	err := j.storeSome(ctx, next)
	if err == nil && rules.listsInFlight.Load() {
		set := map[entryID]bool{}
		for _, e := range j.snapshot {
			set[entryID{e.Conv, e.Nonce}] = true
		}
		rules.landed.Store(j, set)
	}
	return err
}

// storeSome stores under the number of next what is in the set when it comes to it.
func (j *journal) storeSome(ctx context.Context, next storage.Journal) error {
	if !rules.keepsBytes.Load() {
		return j.writer.Write(ctx, next)
	}
	for {
		limited, cancel := context.WithTimeout(ctx, journalRetry)
		err := j.writer.Write(limited, next)
		cancel()
		switch {
		case err == nil || ctx.Err() != nil:
			return err
		case errors.Is(err, storage.ErrExists): // The number is nobody else's.
			return nil
		}
		j.abandon()
		j.mu.Lock()
		j.n--
		j.mu.Unlock()
		next = j.compose()
	}
}

func (j *journal) replacing() int64 {
	if rules.deletesLanded.Load() {
		return j.n
	}
	return j.landed
}

// withPending lets a retried append send one record more than the first attempt
// when R1 is off, as a writer would that adds what has gathered meanwhile.
func withPending(ctx context.Context, lines []byte) context.Context {
	return storage.WithPending(ctx, func() []byte {
		return append(slices.Clip(lines), "{\"type\":\"gathered\"}\n"...)
	})
}
