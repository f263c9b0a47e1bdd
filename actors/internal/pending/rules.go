//go:build !mutants

package pending

import (
	"context"

	"github.com/parleyrun/parley/storage"
)

// The rules of the pending-work journal hold unconditionally. A build with the tag mutants can
// switch one off, to show that the simulation notices.

func sweepsOwnSet() bool  { return true }
func awaitsAnswers() bool { return true }

func announcesOpening() bool       { return true }
func announcesReading() bool       { return true }
func suspectsTakeTurns() bool      { return true }
func quarantineBeforeAnswer() bool { return true }
func recordsTry() bool             { return true }

// weigh returns a crash with what it is evidence of.
func weigh(c crash) crash { return c }

// sweepsAgain reports whether a journal that was swept is swept when it comes again.
func (w *Sweeper) sweepsAgain(storage.JournalRef) bool { return true }

// covered reports whether an entry of another's journal needs no answer. What this
// node's own journal says is none.
func (w *Sweeper) covered(storage.JournalEntry) bool { return false }

// swept returns what a sweep that has read ref deletes.
func (w *Sweeper) swept(_ context.Context, ref storage.JournalRef) []string { return ref.Keys }

// awaits reports whether who lists a writer waits for the journals that list it.
func (j *Journal) awaits(ID) bool { return true }

// entry returns the entry of a writer, nil if it is not in the set.
func (j *Journal) entry(id ID) *entry { return j.entries[id] }

// store stores a journal. It goes on with the same bytes until the outcome is known.
func (j *Journal) store(ctx context.Context, next storage.Journal) error {
	return j.writer.Write(ctx, next)
}

// replacing returns the number that makes those below it garbage: the newest that has
// landed.
func (j *Journal) replacing() int64 { return j.numbers.Landed }
