package clusterrun_test

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/storage"
)

// story is what the log of a conversation says.
type story struct {
	*noderun.Story
	// noted are the submissions that a newer version has noted.
	noted map[conversation.SubmissionID]bool
}

func newStory(id string) *story {
	s := &story{noderun.NewStory(agentName, id), map[conversation.SubmissionID]bool{}}
	s.Lines, s.Each = mayPass, s.note
	return s
}

// mayPass lets this test read what only a newer version understands: the facts that it
// notes change nothing.
func mayPass(lines []byte) []byte {
	return bytes.ReplaceAll(lines, []byte(`{"type":"`+nextNoted+`","must":true`), []byte(`{"type":"`+nextNoted+`","must":false`))
}

// note adds the notes of a batch.
func (s *story) note(b conversation.Batch) error {
	for _, r := range b.Records {
		if r, ok := r.(*conversation.Unknown); ok {
			var note struct{ Submission conversation.SubmissionID }
			if err := json.Unmarshal(r.Line, &note); err != nil || r.Name != nextNoted {
				return fmt.Errorf("record %s of a type that nobody writes: %w", r.Line, err)
			}
			s.noted[note.Submission] = true
		}
	}
	return nil
}

// owed counts what is not settled.
func (s *story) owed() (n int) {
	for _, a := range s.Order {
		if len(a.Settled) == 0 {
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
	if g.at.Seq >= int64(len(s.Hashes)) {
		return fmt.Sprintf("%s had batch %d and ends at %d", g.id, g.at.Seq, len(s.Hashes)-1)
	}
	if g.at.Seq >= 0 && s.Hashes[g.at.Seq] != g.at.Hash {
		return fmt.Sprintf("%s had another batch %d", g.id, g.at.Seq)
	}
	return ""
}
