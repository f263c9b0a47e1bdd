//go:build !mutants

package pending

import (
	"context"

	"github.com/parleyrun/parley/storage"
)

// The rules of the pending-work journal hold unconditionally. A build with the tag mutants can switch
// one off to verify that the simulation detects it.

func sweepsOwnSet() bool  { return true }
func awaitsAnswers() bool { return true }

func announcesOpening() bool       { return true }
func announcesReading() bool       { return true }
func suspectsTakeTurns() bool      { return true }
func quarantineBeforeAnswer() bool { return true }
func recordsTry() bool             { return true }

func weigh(c crash) crash { return c }

// sweepsAgain reports whether a swept journal is swept again when it reappears.
func (w *Sweeper) sweepsAgain(storage.JournalRef) bool { return true }

// covered reports whether an entry of another's journal needs no answer. This node's own journal does
// not cover it.
func (w *Sweeper) covered(storage.JournalEntry) bool { return false }

// swept returns the keys that a sweep of ref deletes.
func (w *Sweeper) swept(_ context.Context, ref storage.JournalRef) []string { return ref.Keys }

// awaits reports whether List waits for the journals that list the writer.
func (j *Journal) awaits(ID) bool { return true }

// entry returns the entry of a writer, or nil.
func (j *Journal) entry(id ID) *entry { return j.entries[id] }

// store stores a journal. It repeats the same bytes until the outcome is known.
func (j *Journal) store(ctx context.Context, next storage.Journal) error {
	return j.writer.Write(ctx, next)
}

// replacing returns the number below which journals are garbage: the newest landed.
func (j *Journal) replacing() int64 { return j.numbers.Landed }
