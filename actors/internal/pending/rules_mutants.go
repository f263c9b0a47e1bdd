//go:build mutants

package pending

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/parleyrun/parley/storage"
)

// Names of the rules that SetRule knows.
const (
	RuleWaitForJournal         = "wait for journal"         // List waits for the journals that list the writer.
	RuleSweepOwnSet            = "sweep own set"            // Own entries whose writer stepped down are probed.
	RuleAwaitAnswers           = "await answers"            // A swept journal is deleted when every entry is answered.
	RuleSweepAgain             = "sweep again"              // Sweeps recur.
	RuleAskOwners              = "ask owners"               // An own entry does not answer another node's entry.
	RuleAskClaimed             = "ask claimed"              // Not even an entry with a higher sequence.
	RuleDeleteRead             = "delete read"              // A sweep deletes the keys up to the one it read.
	RuleListWriters            = "list writers"             // An entry belongs to one writer.
	RuleListInFlight           = "list in flight"           // The journal in flight must list a writer, too.
	RuleAnnounceOpening        = "announce opening"         // An opening for a sweep is listed before the log is read.
	RuleAnnounceReading        = "announce reading"         // A slow read is listed while it runs.
	RuleSuspectsTakeTurns      = "suspects take turns"      // Suspects are opened one at a time.
	RuleQuarantineBeforeAnswer = "quarantine before answer" // A conversation is quarantined before its entries are removed.
	RuleRecordTry              = "record try"               // A try of a quarantined conversation is stored before it begins.
	RuleCountAlone             = "count alone"              // A crash counts if nothing else was opened or worked on.
	RuleKeepBytes              = "keep bytes"               // The bytes of a number never change.
	RuleDeleteLanded           = "delete landed"            // A journal is deleted after the next has landed.
)

// rules are switched off if true, for the whole process.
var rules struct {
	waitsForJournal, sweepsOwnSet, awaitsAnswers, sweepsAgain, asksOwners, asksClaimed, deletesRead, listsWriters, listsInFlight,
	announcesOpening, announcesReading, suspectsTakeTurns, quarantineBeforeAnswer, countsAlone, recordsTry, keepsBytes, deletesLanded atomic.Bool

	swept  sync.Map // journals swept once, by sweeper and member, for sweepsAgain
	landed sync.Map // landed set by journal, for listsInFlight
}

// SetRule switches a rule on or off for the whole process. It exists only in builds with the tag
// mutants.
func SetRule(name string, on bool) {
	rule := map[string]*atomic.Bool{
		RuleWaitForJournal: &rules.waitsForJournal, RuleSweepOwnSet: &rules.sweepsOwnSet, RuleAwaitAnswers: &rules.awaitsAnswers,
		RuleSweepAgain: &rules.sweepsAgain, RuleAskOwners: &rules.asksOwners, RuleAskClaimed: &rules.asksClaimed,
		RuleDeleteRead: &rules.deletesRead, RuleListWriters: &rules.listsWriters, RuleListInFlight: &rules.listsInFlight,
		RuleAnnounceOpening: &rules.announcesOpening, RuleAnnounceReading: &rules.announcesReading,
		RuleSuspectsTakeTurns: &rules.suspectsTakeTurns, RuleQuarantineBeforeAnswer: &rules.quarantineBeforeAnswer,
		RuleCountAlone: &rules.countsAlone, RuleRecordTry: &rules.recordsTry,
		RuleKeepBytes: &rules.keepsBytes, RuleDeleteLanded: &rules.deletesLanded,
	}[name]
	if rule == nil {
		panic(fmt.Sprintf("busy: no rule %q", name))
	}
	rule.Store(!on)
}

func sweepsOwnSet() bool  { return !rules.sweepsOwnSet.Load() }
func awaitsAnswers() bool { return !rules.awaitsAnswers.Load() }

func announcesOpening() bool       { return !rules.announcesOpening.Load() }
func announcesReading() bool       { return !rules.announcesReading.Load() }
func suspectsTakeTurns() bool      { return !rules.suspectsTakeTurns.Load() }
func quarantineBeforeAnswer() bool { return !rules.quarantineBeforeAnswer.Load() }
func recordsTry() bool             { return !rules.recordsTry.Load() }

func weigh(c crash) crash {
	if rules.countsAlone.Load() {
		c.counts, c.paused = !hasMark(c.entry.Nonce, readMark), false
	}
	return c
}

// sweptMember is a member whose journal a sweeper has swept.
type sweptMember struct {
	w      *Sweeper
	member string
}

func (w *Sweeper) sweepsAgain(ref storage.JournalRef) bool {
	_, swept := rules.swept.Load(sweptMember{w, ref.Member})
	return !swept || !rules.sweepsAgain.Load()
}

func (w *Sweeper) covered(e storage.JournalEntry) bool {
	any, farther := rules.asksOwners.Load(), rules.asksClaimed.Load()
	j := w.Journal
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.ContainsFunc(j.set, func(own storage.JournalEntry) bool {
		landed := !own.Opening && own.Conv == e.Conv && own.Nonce != e.Nonce && j.entries[idOf(own)].first <= j.numbers.Landed
		return landed && (any || farther && own.Seq > e.Seq)
	})
}

func (w *Sweeper) swept(ctx context.Context, ref storage.JournalRef) []string {
	if rules.sweepsAgain.Load() {
		rules.swept.Store(sweptMember{w, ref.Member}, true)
	}
	if rules.deletesRead.Load() {
		refs, _ := storage.Journals(ctx, w.o.Bucket)
		for _, now := range refs {
			if now.Member == ref.Member {
				return now.Keys
			}
		}
	}
	return ref.Keys
}

func (j *Journal) awaits(id ID) bool {
	if rules.listsInFlight.Load() {
		if set, ok := rules.landed.Load(j); ok && set.(map[ID]bool)[id] {
			return false
		}
	}
	return !rules.waitsForJournal.Load()
}

func (j *Journal) entry(id ID) *entry {
	if e := j.entries[id]; e != nil || !rules.listsWriters.Load() {
		return e
	}
	for _, own := range j.set {
		if own.Conv == id.Conv {
			return j.entries[idOf(own)]
		}
	}
	return nil
}

func (j *Journal) store(ctx context.Context, next storage.Journal) error {
	if rules.deletesLanded.Load() {
		j.sweepOwn(ctx)
	}
	err := j.storeSome(ctx, next)
	if err == nil && rules.listsInFlight.Load() {
		set := map[ID]bool{}
		for _, e := range j.snapshot {
			set[idOf(e)] = true
		}
		rules.landed.Store(j, set)
	}
	return err
}

// storeSome stores the set as of each attempt under the number of next.
func (j *Journal) storeSome(ctx context.Context, next storage.Journal) error {
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
		case errors.Is(err, storage.ErrExists): // only this journal uses the number
			return nil
		}
		j.abandon()
		j.mu.Lock()
		j.numbers.Newest--
		j.mu.Unlock()
		next = j.compose()
	}
}

func (j *Journal) replacing() int64 {
	if rules.deletesLanded.Load() {
		return j.numbers.Newest
	}
	return j.numbers.Landed
}
