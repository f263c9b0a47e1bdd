package inspect

import (
	"errors"
	"fmt"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// Severity classifies a finding.
type Severity string

// The three severities.
const (
	Corruption Severity = "damage"     // Data is lost, or will be. [Repair] rejects the conversation.
	Repairable Severity = "repairable" // No data is lost, and [Repair] fixes it.
	Note       Severity = "note"       // Informative, or a leftover: see [Finding.Leftover].
)

// Kind is the kind of a finding.
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

// Finding is one result of a check.
type Finding struct {
	Severity Severity         `json:"severity"`
	Kind     Kind             `json:"kind"`
	Conv     conversation.Key `json:"conversation,omitempty"` // "" if it concerns no conversation.
	Agent    string           `json:"agent,omitempty"`        // Agent and ID of the conversation, if any readable object has them.
	ID       string           `json:"id,omitempty"`
	Key      string           `json:"key,omitempty"` // Key of the object, or where it should be.
	Seq      int64            `json:"seq"`           // Batch concerned, -1 if none.
	Text     string           `json:"text"`          // Description and remedy.

	steps []step
}

// Leftover reports whether a note is about an object that only takes space, left by a replaced or
// crashed writer. [Repair] deletes it.
func (f *Finding) Leftover() bool { return f.Severity == Note && len(f.steps) > 0 }

// identity identifies a finding in a second check.
type identity struct {
	kind Kind
	key  string
	seq  int64
}

func (f *Finding) identity() identity { return identity{f.Kind, f.Key, f.Seq} }

// Scope selects the part to check: one conversation, or with the zero value the whole bucket.
type Scope struct {
	Conv conversation.Key
}

// Summary counts checked objects and findings.
type Summary struct {
	Conversations int64 `json:"conversations"`
	Batches       int64 `json:"batches"`   // In all logs, wherever they are stored.
	Segments      int64 `json:"segments"`  // Objects.
	Objects       int64 `json:"objects"`   // Batch objects in the log.
	Pins          int64 `json:"pins"`      // Objects that are first batches of a writer and also in a segment.
	Leftovers     int64 `json:"leftovers"` // Other objects that are also in a segment and await deletion.
	Checkpoints   int64 `json:"checkpoints"`
	Pages         int64 `json:"pages"`
	Attachments   int64 `json:"attachments"`
	Unreferenced  int64 `json:"unreferenced"` // Attachments that no record names, from rejected deliveries.
	Journals      int64 `json:"journals"`
	Corruption    int64 `json:"damage"` // Number of findings, like the next two.
	Repairable    int64 `json:"repairable"`
	Notes         int64 `json:"notes"`
	Planned       int64 `json:"planned,omitempty"` // Findings that a repair would fix.
	Repaired      int64 `json:"mended,omitempty"`  // Findings that a repair has fixed.
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

// Options configure Verify and Repair. The zero value works.
type Options struct {
	// MaxBatchBytes bounds the decoded size of one batch. 0 is storage.DefaultMaxBytes.
	MaxBatchBytes int64
	// Parallel is the number of conversations checked concurrently. 0 is 8.
	Parallel int
	// Prefetch is the number of batches of one conversation that are fetched concurrently. 0 is 8.
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

// ErrNoConversation reports that the bucket holds no object of a conversation.
var ErrNoConversation = errors.New("no such conversation")

// step is one request of a repair.
type step struct {
	key   string
	head  []byte            // put this head; nil if none
	batch *storage.Position // write this batch of the segments again; nil if none
}

// String describes the request.
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

// away reports whether an error comes from the bucket or the caller's context and therefore is not
// about the stored data.
func away(err error) bool {
	var e *storage.Error
	return errors.As(err, &e) && !errors.Is(err, storage.ErrNotFound)
}
