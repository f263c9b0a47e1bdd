package inspect

import (
	"errors"
	"fmt"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// Severity says what a finding means.
type Severity string

// The three severities.
const (
	Corruption Severity = "damage"     // Something is lost, or will be. [Repair] refuses it.
	Repairable Severity = "repairable" // Nothing is lost, and [Repair] mends it.
	Note       Severity = "note"       // Worth knowing, or a leftover: see [Finding.Leftover].
)

// Kind says what was found.
type Kind string

// Every kind of finding.
const (
	KindGap                    Kind = "gap"
	KindChain                  Kind = "chain"
	KindMissingTail            Kind = "missing-tail"
	KindUnreadableBatch        Kind = "unreadable-batch"
	KindForeignBatch           Kind = "foreign-batch"
	KindOrphanBatch            Kind = "orphan-batch"
	KindMissingPin             Kind = "missing-pin"
	KindUnreadableSegment      Kind = "unreadable-segment"
	KindDuplicateSegment       Kind = "duplicate-segment"
	KindReader                 Kind = "reader"
	KindRecords                Kind = "records"
	KindLostHead               Kind = "lost-head"
	KindLostCheckpoint         Kind = "lost-checkpoint"
	KindOrphanCheckpoint       Kind = "orphan-checkpoint"
	KindOrphanPage             Kind = "orphan-page"
	KindOldCheckpoint          Kind = "old-checkpoint"
	KindAttachment             Kind = "attachment"
	KindUnreferencedAttachment Kind = "unreferenced-attachment"
	KindForeignKey             Kind = "foreign-key"
	KindFormat                 Kind = "format"
	KindJournal                Kind = "journal"
	KindExport                 Kind = "export"
	KindTimer                  Kind = "timer"
	KindDeadLetter             Kind = "deadletter"
	KindEpoch                  Kind = "epoch"
	KindHeartbeat              Kind = "heartbeat"
	KindIndex                  Kind = "index"
	KindQuarantine             Kind = "quarantine"
	KindMore                   Kind = "more"
)

// Finding is one thing that was found.
type Finding struct {
	Severity Severity         `json:"severity"`
	Kind     Kind             `json:"kind"`
	Conv     conversation.Key `json:"conversation,omitempty"` // "" for what belongs to none.
	Agent    string           `json:"agent,omitempty"`        // Of the conversation, as is ID, if anything readable says so.
	ID       string           `json:"id,omitempty"`
	Key      string           `json:"key,omitempty"` // Of the object, or where it should be.
	Seq      int64            `json:"seq"`           // Batch it is about, -1 if none.
	Text     string           `json:"text"`          // What it is and what to do.

	steps []step
}

// Leftover reports whether a note is about an object that costs space and nothing else: what
// a writer has left behind that was replaced or ended. [Repair] deletes it.
func (f *Finding) Leftover() bool { return f.Severity == Note && len(f.steps) > 0 }

// identity is what a finding has in common with itself at a second look.
type identity struct {
	kind Kind
	key  string
	seq  int64
}

func (f *Finding) identity() identity { return identity{f.Kind, f.Key, f.Seq} }

// Scope says what to look at: one conversation, or with the zero value all of the bucket.
type Scope struct {
	Conv conversation.Key
}

// Summary counts what was looked at.
type Summary struct {
	Conversations int64 `json:"conversations"`
	Batches       int64 `json:"batches"`   // Of all logs, wherever they lie.
	Segments      int64 `json:"segments"`  // Objects.
	Objects       int64 `json:"objects"`   // Batches that lie in the log by themselves.
	Pins          int64 `json:"pins"`      // Of them: first batches of a writer that a segment holds too.
	Leftovers     int64 `json:"leftovers"` // Of them: others that a segment holds too and that await deletion.
	Checkpoints   int64 `json:"checkpoints"`
	Pages         int64 `json:"pages"`
	Attachments   int64 `json:"attachments"`
	Unreferenced  int64 `json:"unreferenced"` // Attachments that no record names: of deliveries that were not accepted.
	Journals      int64 `json:"journals"`
	Corruption    int64 `json:"damage"` // Findings, as are the next two.
	Repairable    int64 `json:"repairable"`
	Notes         int64 `json:"notes"`
	Planned       int64 `json:"planned,omitempty"` // Of the findings, those that a repair would mend.
	Mended        int64 `json:"mended,omitempty"`  // Those that it has mended.
}

func (s *Summary) add(o *Summary) {
	s.Conversations += o.Conversations
	s.Batches += o.Batches
	s.Segments += o.Segments
	s.Objects += o.Objects
	s.Pins += o.Pins
	s.Leftovers += o.Leftovers
	s.Checkpoints += o.Checkpoints
	s.Pages += o.Pages
	s.Attachments += o.Attachments
	s.Unreferenced += o.Unreferenced
	s.Journals += o.Journals
}

func (s *Summary) count(f Finding) {
	switch f.Severity {
	case Corruption:
		s.Corruption++
	case Repairable:
		s.Repairable++
	default:
		s.Notes++
	}
}

// Options tune Verify and Repair. The zero value works.
type Options struct {
	// MaxBatchBytes bounds the decoded size of one batch. 0 is storage.DefaultMaxBytes.
	MaxBatchBytes int64
	// Parallel is how many conversations are looked at at once. 0 is 8.
	Parallel int
	// Prefetch is how many batches of one conversation are fetched at once. 0 is 8.
	Prefetch int
}

func (o *Options) filled() Options {
	var out Options
	if o != nil {
		out = *o
	}
	if out.MaxBatchBytes <= 0 {
		out.MaxBatchBytes = storage.DefaultMaxBytes
	}
	if out.Parallel <= 0 {
		out.Parallel = 8
	}
	if out.Prefetch <= 0 {
		out.Prefetch = 8
	}
	return out
}

// ErrNoConversation says that the bucket holds nothing of a conversation.
var ErrNoConversation = errors.New("no such conversation")

// step is one request of a repair.
type step struct {
	key   string
	head  []byte            // put this head; nil if it is none
	batch *storage.Position // write this batch of the segments again; nil if it is none
}

// String says what is done.
func (s step) String() string {
	switch {
	case s.head != nil:
		return "write " + s.key
	case s.batch != nil:
		return fmt.Sprintf("write %s again, from the segment that holds batch %d", s.key, s.batch.Seq)
	default:
		return "delete " + s.key
	}
}

// away reports whether an error is the bucket's, or the caller's who gave up: it says
// nothing about what is stored.
func away(err error) bool {
	var e *storage.Error
	return errors.As(err, &e) && !errors.Is(err, storage.ErrNotFound)
}
