package clusterrun_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/segment"
)

// twoMessages returns a log view of two messages, each with an answer, and all chunks that readers may see.
func twoMessages(t *testing.T) (*logView, []noderun.Chunk) {
	t.Helper()
	s := newLogView("forged")
	created := &conversation.ConversationCreated{ConversationID: "conv_1", UID: "inst_1", Agent: agentName, ID: "forged"}
	batches := [][]conversation.Record{{created, forgedAdmission("k0", "sub_0", "msg_0")}}
	batches = append(batches, []conversation.Record{&conversation.AttemptStarted{Submission: "sub_0", Attempt: 1}})
	batches = append(batches, []conversation.Record{&conversation.SubmissionSettled{Submission: "sub_0", Outcome: conversation.OutcomeCompleted}})
	batches = append(batches, []conversation.Record{forgedAdmission("k1", "sub_1", "msg_1")})
	batches = append(batches, []conversation.Record{&conversation.AttemptStarted{Submission: "sub_1", Attempt: 1}})
	batches = append(batches, []conversation.Record{&conversation.SubmissionSettled{Submission: "sub_1", Outcome: conversation.OutcomeCompleted}})
	var seen []noderun.Chunk
	for i, records := range batches {
		b := conversation.Batch{Offset: conversation.Offset(i), Records: records}
		if err := s.Add(b); err != nil {
			t.Fatal(err)
		}
		s.Hashes = append(s.Hashes, segment.Hash{byte(i + 1)})
		s.After = storage.Position{Seq: int64(i), Hash: segment.Hash{byte(i + 1)}}
		for _, raw := range s.Chunks[b.Offset] {
			chunks, err := noderun.ReadChunks([]byte("["+string(raw)+"]"), b.Offset-1)
			if err != nil {
				t.Fatal(err)
			}
			seen = append(seen, chunks...)
		}
	}
	return s, seen
}

func forgedAdmission(key, sub, msg string) *conversation.SubmissionAdmitted {
	return &conversation.SubmissionAdmitted{
		Submission: conversation.SubmissionID(sub), Message: conversation.MessageID(msg), Key: key, PayloadHash: "0",
		Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: secret + key + " tokens=1"},
	}
}

func TestAudit(t *testing.T) {
	whole := func(e *evidence) *noderun.Sight { return &e.sights[0] }
	for name, c := range map[string]struct {
		forge func(e *evidence)
		want  string
	}{
		"valid":               {func(*evidence) {}, ""},
		"a chunk is missing":  {func(e *evidence) { w := whole(e); w.Chunks = append(w.Chunks[:1:1], w.Chunks[2:]...) }, "as in the log"},
		"the last is missing": {func(e *evidence) { w := whole(e); w.Chunks = w.Chunks[:len(w.Chunks)-1] }, " lacks "},
		"a chunk comes twice": {func(e *evidence) { w := whole(e); w.Chunks = append(w.Chunks[:2:2], w.Chunks[1:]...) }, "as in the log"},
		"a chunk has another text": {func(e *evidence) {
			w := whole(e)
			w.Chunks = append([]noderun.Chunk{}, w.Chunks...)
			w.Chunks[1].Raw = json.RawMessage(strings.Replace(string(w.Chunks[1].Raw), "sub_0", "sub_1", 1))
		}, "as in the log"},
		"a chunk of the future": {func(e *evidence) { whole(e).To-- }, "which is not in the log"},
		"beyond the end":        {func(e *evidence) { whole(e).To++ }, "the log ends at"},
		"another head":          {func(e *evidence) { e.heads = []glimpse{{"forged", storage.Position{Seq: 2, Hash: segment.Hash{9}}}} }, "batch 2 has changed"},
		"a longer log":          {func(e *evidence) { e.heads = []glimpse{{"forged", storage.Position{Seq: 6, Hash: segment.Hash{7}}}} }, "lost batch 6"},
		"the same head":         {func(e *evidence) { e.heads = []glimpse{{"forged", storage.Position{Seq: 2, Hash: segment.Hash{3}}}} }, ""},
		"no head yet":           {func(e *evidence) { e.heads = []glimpse{{"forged", storage.Start()}} }, ""},
		"never settled":         {func(e *evidence) { e.logView.Order[1].Settled = nil }, "want once"},
		"settled twice": {func(e *evidence) {
			a := e.logView.Order[1]
			a.Settled = append(a.Settled, a.Settled[0])
		}, "want once"},
		"settled as failed": {func(e *evidence) { e.logView.Order[1].Settled[0] = conversation.OutcomeFailed }, "want once"},
	} {
		t.Run(name, func(t *testing.T) {
			s, seen := twoMessages(t)
			e := &evidence{logView: s, sights: []noderun.Sight{{Name: "a reader", From: conversation.Start, To: 5, Chunks: seen}, {Name: "another", From: 2, To: 5}}}
			for _, chunk := range seen {
				if chunk.Position.Batch > 2 {
					e.sights[1].Chunks = append(e.sights[1].Chunks, chunk)
				}
			}
			e.history = history{ID: "forged", Order: s.Order, Strict: true, Limit: liveness}
			for i, a := range s.Order {
				e.history.Sent = append(e.history.Sent, &sent{
					Key: a.Key, Call: at(i), Back: at(i), Receipt: &conversation.Receipt{SubmissionID: a.Submission, Offset: a.Offset},
				})
			}
			c.forge(e)
			got := strings.Join(e.check(), "\n")
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
}

func TestKeys(t *testing.T) {
	for text, want := range map[string]string{
		secret + "t1-2.3 tokens=5": "t1-2.3", "tokens=5": "", "You said: " + secret + "x": "x",
	} {
		if got := keyIn(text); got != want {
			t.Errorf("key in %q is %q, want %q", text, got, want)
		}
	}
}
