package clusterrun_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/segment"
)

// admitted is a submission as the log has it.
type admitted struct {
	Key        string
	Body       string
	Submission conversation.SubmissionID
	Offset     conversation.Offset
	Settled    []conversation.Outcome
	Attempts   int
	Released   int
}

// story is what the log of a conversation says, read from the bucket.
type story struct {
	key    conversation.Key
	after  storage.Position
	state  *conversation.State
	order  []*admitted
	subs   map[conversation.SubmissionID]*admitted
	shows  noderun.Projection
	hashes []segment.Hash // By sequence number.
	// noted are the submissions that a newer version has noted.
	noted  map[conversation.SubmissionID]bool
	claims int
}

func newStory(id string) *story {
	return &story{
		key: conversation.Address{Agent: agentName, ID: id}.Key(), after: storage.Start(), state: conversation.NewState(),
		subs: map[conversation.SubmissionID]*admitted{}, shows: noderun.Projection{},
		noted: map[conversation.SubmissionID]bool{},
	}
}

// read goes on to the end of the log.
func (s *story) read(ctx context.Context, logs *storage.Logs) error {
	for b, err := range logs.Batches(ctx, s.key, s.after) {
		if err != nil {
			return err
		}
		batch := conversation.Batch{Offset: conversation.Offset(b.Seq)}
		if batch.Records, err = conversation.DecodeRecords(mayPass(b.Lines)); err != nil {
			return err
		}
		if err := s.add(batch); err != nil {
			return err
		}
		s.after = b.Position()
		s.hashes = append(s.hashes, b.Hash)
	}
	return nil
}

// mayPass lets this test read what only a newer version understands: the facts that it
// notes change nothing.
func mayPass(lines []byte) []byte {
	return bytes.ReplaceAll(lines, []byte(`{"type":"`+nextNoted+`","must":true`), []byte(`{"type":"`+nextNoted+`","must":false`))
}

// add applies a batch.
func (s *story) add(b conversation.Batch) error {
	if err := s.state.Apply(b); err != nil {
		return err
	}
	if len(b.Records) == 0 {
		s.claims++
	}
	for _, r := range b.Records {
		switch r := r.(type) {
		case *conversation.SubmissionAdmitted:
			a := &admitted{Key: r.Key, Body: r.Delivery.Body, Submission: r.Submission, Offset: b.Offset}
			s.subs[r.Submission] = a
			s.order = append(s.order, a)
		case *conversation.AttemptStarted:
			s.subs[r.Submission].Attempts++
		case *conversation.AttemptReleased:
			s.subs[r.Submission].Released++
		case *conversation.Unknown:
			var note struct{ Submission conversation.SubmissionID }
			if err := json.Unmarshal(r.Line, &note); err != nil || r.Name != nextNoted {
				return fmt.Errorf("record %s of a type that nobody writes: %w", r.Line, err)
			}
			s.noted[note.Submission] = true
		case *conversation.SubmissionSettled:
			s.subs[r.Submission].Settled = append(s.subs[r.Submission].Settled, r.Outcome)
		}
	}
	if !s.state.Exists() {
		return nil // A claim that came before the creation.
	}
	return s.shows.Add(s.state, b)
}

// owed counts what is not settled.
func (s *story) owed() (n int) {
	for _, a := range s.order {
		if len(a.Settled) == 0 {
			n++
		}
	}
	return n
}

// visible is how many admissions there are up to an offset.
func (s *story) visible(at conversation.Offset) (n int) {
	for _, a := range s.order {
		if a.Offset <= at {
			n++
		}
	}
	return n
}

// glimpse is the head that a log had while the run went on.
type glimpse struct {
	id string
	at storage.Position
}

// kept says whether the head is in the chain of the log, "" if it is.
func (s *story) kept(g glimpse) string {
	if g.at.Seq >= int64(len(s.hashes)) {
		return fmt.Sprintf("%s had batch %d and ends at %d", g.id, g.at.Seq, len(s.hashes)-1)
	}
	if g.at.Seq >= 0 && s.hashes[g.at.Seq] != g.at.Hash {
		return fmt.Sprintf("%s had another batch %d", g.id, g.at.Seq)
	}
	return ""
}
