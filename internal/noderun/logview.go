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

// Admitted is a submission in a log.
type Admitted struct {
	Key        string
	Submission conversation.SubmissionID
	Offset     conversation.Offset
	Settled    []conversation.Outcome
	Attempts   int // released ones included
	Released   int
}

// Completed reports whether it is settled once, as completed.
func (a *Admitted) Completed() bool {
	return len(a.Settled) == 1 && a.Settled[0] == conversation.OutcomeCompleted
}

// LogView is the log of a conversation, read from the bucket.
type LogView struct {
	Key    conversation.Key
	After  storage.Position
	State  *conversation.State
	Order  []*Admitted                               // in order of admission
	Chunks map[conversation.Offset][]json.RawMessage // chunks of a batch as sent to readers, in JSON
	Hashes []storage.Hash                            // by sequence number
	Claims int                                       // batches without a record

	// Lines transforms the lines of a batch before they are decoded. It may be nil.
	Lines func([]byte) []byte
	// Each is called with each added batch. It may be nil.
	Each func(conversation.Batch) error

	subs map[conversation.SubmissionID]*Admitted
}

// NewLogView makes an empty view of a conversation.
func NewLogView(agent, id string) *LogView {
	return &LogView{
		Key: conversation.Address{Agent: agent, ID: id}.Key(), After: storage.Start(), State: conversation.NewState(),
		Chunks: map[conversation.Offset][]json.RawMessage{}, subs: map[conversation.SubmissionID]*Admitted{},
	}
}

// Read reads to the end of the log.
func (s *LogView) Read(ctx context.Context, logs *storage.Logs) error {
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

func (s *LogView) Add(b conversation.Batch) error {
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

// show adds the chunks of a batch.
func (s *LogView) show(b conversation.Batch) error {
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
		s.Chunks[b.Offset] = append(s.Chunks[b.Offset], raw)
	}
	return nil
}

// Lacks describes the difference between a sight and the log, "" if there is none.
func (s *LogView) Lacks(w Sight) string {
	if w.To > s.State.Head() {
		return fmt.Sprintf("%s read to %s, but the log ends at %s", w.Name, w.To, s.State.Head())
	}
	seen := w.Chunks
	for o := w.From + 1; o <= w.To; o++ {
		for index, want := range s.Chunks[o] {
			if len(seen) == 0 {
				return fmt.Sprintf("%s lacks %s", w.Name, want)
			}
			at := conversation.Position{Batch: o, Index: index}
			if got := seen[0]; got.Position != at || !SameJSON(got.Raw, want) {
				return fmt.Sprintf("%s: got %s at %v, want %s at %v as in the log", w.Name, got.Raw, got.Position, want, at)
			}
			seen = seen[1:]
		}
	}
	if len(seen) > 0 {
		return fmt.Sprintf("%s: got %s, which is not in the log", w.Name, seen[0].Raw)
	}
	return ""
}

// SameJSON reports whether two texts have the same JSON value.
func SameJSON(a, b []byte) bool {
	var x, y any
	return bytes.Equal(a, b) || json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
