package clusterrun_test

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/storage"
)

// logView is the log of a conversation.
type logView struct {
	*noderun.LogView
	// noted holds the submissions noted by a newer version.
	noted map[conversation.SubmissionID]bool
}

func newLogView(id string) *logView {
	s := &logView{noderun.NewLogView(agentName, id), map[conversation.SubmissionID]bool{}}
	s.Lines, s.Each = mayPass, s.note
	return s
}

// mayPass removes the requirement of a newer version from records, so that this test can read them:
// the notes change no state.
func mayPass(lines []byte) []byte {
	return bytes.ReplaceAll(lines, []byte(`{"type":"`+nextNoted+`","must":true`), []byte(`{"type":"`+nextNoted+`","must":false`))
}

// note adds the notes of a batch.
func (s *logView) note(b conversation.Batch) error {
	for _, r := range b.Records {
		if r, ok := r.(*conversation.Unknown); ok {
			var note struct{ Submission conversation.SubmissionID }
			if err := json.Unmarshal(r.Line, &note); err != nil || r.Name != nextNoted {
				return fmt.Errorf("decode record %s of unknown type: %w", r.Line, err)
			}
			s.noted[note.Submission] = true
		}
	}
	return nil
}

func (s *logView) unsettled() (n int) {
	for _, a := range s.Order {
		if len(a.Settled) == 0 {
			n++
		}
	}
	return n
}

// glimpse is the head of a log at some time of the run.
type glimpse struct {
	id string
	at storage.Position
}

// kept returns a flaw unless the head is in the chain of the log.
func (s *logView) kept(g glimpse) string {
	if g.at.Seq >= int64(len(s.Hashes)) {
		return fmt.Sprintf("%s lost batch %d: the log ends at %d", g.id, g.at.Seq, len(s.Hashes)-1)
	}
	if g.at.Seq >= 0 && s.Hashes[g.at.Seq] != g.at.Hash {
		return fmt.Sprintf("%s: batch %d has changed", g.id, g.at.Seq)
	}
	return ""
}
