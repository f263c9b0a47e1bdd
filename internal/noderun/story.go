package noderun

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"

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
	Order  []*Admitted                               // In order of admission.
	Shows  map[conversation.Offset][]json.RawMessage // What readers of a batch are shown: the JSON of each chunk.
	Hashes []storage.Hash                            // By sequence number.
	Claims int                                       // Batches without a record.

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
		Shows: map[conversation.Offset][]json.RawMessage{}, subs: map[conversation.SubmissionID]*Admitted{},
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
		if err := s.show(b); err != nil {
			return err
		}
	}
	if s.Each == nil {
		return nil
	}
	return s.Each(b)
}

// show adds what readers are shown of a batch.
func (s *Story) show(b conversation.Batch) error {
	at := func() (*conversation.Snapshot, error) { return s.State.Snapshot(), nil }
	chunks, err := conversation.Project(s.State.Created().ConversationID, b, at)
	if err != nil {
		return err
	}
	for _, c := range chunks {
		raw, err := conversation.AppendChunks(nil, []conversation.Chunk{c})
		if err != nil {
			return err
		}
		s.Shows[b.Offset] = append(s.Shows[b.Offset], raw)
	}
	return nil
}

// Lacks says in what a sight differs from what the log shows, "" if it does not.
func (s *Story) Lacks(w Sight) string {
	if w.To > s.State.Head() {
		return fmt.Sprintf("%s has read to %s, the log ends at %s", w.Who, w.To, s.State.Head())
	}
	seen := w.Chunks
	for o := w.From + 1; o <= w.To; o++ {
		for index, want := range s.Shows[o] {
			if len(seen) == 0 {
				return fmt.Sprintf("%s never saw %s", w.Who, want)
			}
			at := conversation.Position{Batch: o, Index: index}
			if got := seen[0]; got.Position != at || !SameJSON(got.Raw, want) {
				return fmt.Sprintf("%s saw %s at %v where the log shows %s at %v", w.Who, got.Raw, got.Position, want, at)
			}
			seen = seen[1:]
		}
	}
	if len(seen) > 0 {
		return fmt.Sprintf("%s saw %s, which the log does not show", w.Who, seen[0].Raw)
	}
	return ""
}

// SameJSON reports whether two texts have the same value.
func SameJSON(a, b []byte) bool {
	var x, y any
	return bytes.Equal(a, b) || json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
