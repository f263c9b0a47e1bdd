package noderun

import (
	"context"
	"fmt"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// Admitted is a submission as a log has it.
type Admitted struct {
	Key        string
	Submission conversation.SubmissionID
	Offset     conversation.Offset
	Settled    []conversation.Outcome
	Attempts   int // Released ones included.
	Released   int
}

// Completed reports whether it is settled once, as completed.
func (a *Admitted) Completed() bool {
	return len(a.Settled) == 1 && a.Settled[0] == conversation.OutcomeCompleted
}

// Story is what the log of a conversation says, read from the bucket.
type Story struct {
	Key    conversation.Key
	After  storage.Position
	State  *conversation.State
	Order  []*Admitted // In order of admission.
	Shows  Projection
	Hashes []storage.Hash // By sequence number.
	Claims int            // Batches without a record.

	// Lines changes what a batch says before it is decoded. Nil changes nothing.
	Lines func([]byte) []byte
	// Each is called with each batch that was added, unless it is nil.
	Each func(conversation.Batch) error

	subs map[conversation.SubmissionID]*Admitted
}

// NewStory makes the story of a conversation of which nothing was read.
func NewStory(agent, id string) *Story {
	return &Story{
		Key: conversation.Address{Agent: agent, ID: id}.Key(), After: storage.Start(), State: conversation.NewState(),
		Shows: Projection{}, subs: map[conversation.SubmissionID]*Admitted{},
	}
}

// Read goes on to the end of the log.
func (s *Story) Read(ctx context.Context, logs *storage.Logs) error {
	for b, err := range logs.Batches(ctx, s.Key, s.After) {
		if err != nil {
			return err
		}
		lines := b.Lines
		if s.Lines != nil {
			lines = s.Lines(lines)
		}
		batch := conversation.Batch{Offset: conversation.Offset(b.Seq)}
		if batch.Records, err = conversation.DecodeRecords(lines); err != nil {
			return err
		}
		if err := s.Add(batch); err != nil {
			return err
		}
		s.After = b.Position()
		s.Hashes = append(s.Hashes, b.Hash)
	}
	return nil
}

// Add adds a batch.
func (s *Story) Add(b conversation.Batch) error {
	if err := s.State.Apply(b); err != nil {
		return err
	}
	if len(b.Records) == 0 {
		s.Claims++
	}
	for _, r := range b.Records {
		switch r := r.(type) {
		case *conversation.SubmissionAdmitted:
			a := &Admitted{Key: r.Key, Submission: r.Submission, Offset: b.Offset}
			s.subs[r.Submission] = a
			s.Order = append(s.Order, a)
		case *conversation.AttemptStarted:
			s.subs[r.Submission].Attempts++
		case *conversation.AttemptReleased:
			s.subs[r.Submission].Released++
		case *conversation.SubmissionSettled:
			s.subs[r.Submission].Settled = append(s.subs[r.Submission].Settled, r.Outcome)
		}
	}
	if s.State.Exists() { // A claim may come before the creation.
		if err := s.Shows.Add(s.State, b); err != nil {
			return err
		}
	}
	if s.Each == nil {
		return nil
	}
	return s.Each(b)
}

// Lacks says in what a sight differs from what the log shows, "" if it does not.
func (s *Story) Lacks(w Sight) string {
	if w.To > s.State.Head() {
		return fmt.Sprintf("%s has read to %s, the log ends at %s", w.Who, w.To, s.State.Head())
	}
	return s.Shows.Lacks(w)
}
