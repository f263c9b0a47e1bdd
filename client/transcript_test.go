package client_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/sample"
)

// generator makes random valid histories of one conversation.
type generator struct {
	r      *rand.Rand
	serial int
	out    []conversation.Batch
	cur    []conversation.Record
}

func generate(seed uint64) []conversation.Batch {
	g := &generator{r: rand.New(rand.NewPCG(seed, 9))}
	g.push(&conversation.ConversationCreated{Agent: "chat", ID: "x", UID: "inst_1", ConversationID: "conv_1", At: 1})
	first := g.admit()
	g.cut()
	g.respond(first)
	for range g.r.IntN(4) {
		sub := g.admit()
		g.cut()
		g.respond(sub)
	}
	g.cut()
	return g.out
}

func (g *generator) next(prefix string) string {
	g.serial++
	return fmt.Sprintf("%s_%04d", prefix, g.serial)
}

func (g *generator) chance(percent int) bool { return g.r.IntN(100) < percent }

func pick[T any](g *generator, options ...T) T { return options[g.r.IntN(len(options))] }

func (g *generator) push(r conversation.Record) { g.cur = append(g.cur, r) }

// add adds a record; the batch may end after it.
func (g *generator) add(r conversation.Record) {
	if g.push(r); g.chance(35) {
		g.cut()
	}
	if g.chance(5) {
		g.push(&conversation.Advisory{
			Message: conversation.MessageID(g.next("msg")), Text: "so\u2028", Display: conversation.DisplayDiagnostic, TagName: "note",
		})
	}
}

func (g *generator) cut() {
	if len(g.cur) == 0 && g.chance(80) {
		return
	}
	g.out = append(g.out, conversation.Batch{Offset: conversation.Offset(len(g.out)), Records: g.cur})
	g.cur = nil
}

func (g *generator) json() json.RawMessage {
	return json.RawMessage(pick(g, `null`, `true`, `"a<b"`, `[]`, `{}`, `12345678901234567890`, `[1,{"a":null}]`, `{"n":[1.50]}`, `-0.0`))
}

func (g *generator) object() json.RawMessage {
	return json.RawMessage(pick(g, `{}`, `{"a":1}`, `{"a":{"b":{"c":[1]}}}`, `{"a":{"b":{"d":null}}}`, `{"b":null,"z":"<&>"}`,
		`{"constructor":{"a":1},"a":{"__proto__":2,"k":12345678901234567890},"prototype":1}`))
}

func (g *generator) admit() conversation.SubmissionID {
	sub := conversation.SubmissionID(g.next("sub"))
	d := conversation.Delivery{Kind: conversation.KindUser, Body: pick(g, "", "hello", "<b>…")}
	switch g.r.IntN(3) {
	case 0:
		d = conversation.Delivery{Kind: conversation.KindSignal, Type: "done", TagName: pick(g, "", "t"), Attributes: pick(g, nil, map[string]string{"a b": ""})}
	case 1:
		d.Attachments = []conversation.Attachment{{ID: conversation.AttachmentID(g.next("att")), MimeType: "image/png", Size: int64(g.r.IntN(2)), Filename: pick(g, "", "a&b")}}
	}
	g.push(&conversation.SubmissionAdmitted{Submission: sub, Message: conversation.MessageID(g.next("msg")), Key: g.next("key"), PayloadHash: "h", Delivery: d, At: 2})
	return sub
}

// respond runs a submission until its settlement.
func (g *generator) respond(sub conversation.SubmissionID) {
	g.push(&conversation.AttemptStarted{Submission: sub, Attempt: 1, Writer: g.next("w"), At: 3})
	g.cut()
	id := conversation.MessageID(g.next("msg"))
	for n := range g.r.IntN(4) {
		g.step(sub, id, n == 0)
	}
	r := &conversation.SubmissionSettled{Submission: sub, Outcome: conversation.OutcomeCompleted, At: 9}
	if g.chance(30) {
		r.Outcome = pick(g, conversation.OutcomeFailed, conversation.OutcomeAborted)
		r.Error = &conversation.SettlementError{Type: conversation.CodeModelFailed, Message: "It ended.", Meta: map[string]any{"n": 1}}
	}
	g.push(r)
}

func (g *generator) step(sub conversation.SubmissionID, id conversation.MessageID, first bool) {
	turn := conversation.TurnID(g.next("turn"))
	start := &conversation.ResponseStarted{Message: id, Submission: sub, Turn: turn, At: 4}
	if first && g.chance(50) {
		start.Metadata = g.object()
	}
	g.add(start)
	if g.chance(15) { // withdrawn: a reset
		g.add(&conversation.Delta{Message: id, Kind: conversation.PartText, Text: "lost"})
		g.add(&conversation.StepDropped{Message: id, Turn: turn})
		turn = conversation.TurnID(g.next("turn"))
		g.add(&conversation.ResponseStarted{Message: id, Submission: sub, Turn: turn, At: 4})
	}
	var calls []conversation.CallID
	streaming := false
	for range g.r.IntN(9) {
		switch n := g.r.IntN(10); {
		case n == 0 && !streaming:
			g.add(&conversation.DataWritten{Message: id, Name: pick(g, "plan", "cost"), Data: g.json()})
		case n == 1 && !streaming:
			g.add(&conversation.MetadataMerged{Message: id, Metadata: g.object()})
		case n == 2:
			call := conversation.CallID(g.next("call"))
			calls, streaming = append(calls, call), false
			g.add(&conversation.ToolCalled{Message: id, Call: call, Name: "label", Input: g.json(), At: 5})
		default:
			streaming = true
			g.add(&conversation.Delta{Message: id, Kind: pick(g, conversation.PartText, conversation.PartText, conversation.PartReasoning), Text: pick(g, "a", " b", "…😀", "\u2028\"")})
		}
	}
	g.add(&conversation.StepCompleted{Message: id, Turn: turn, StopReason: "stop", At: 6})
	g.r.Shuffle(len(calls), func(i, j int) { calls[i], calls[j] = calls[j], calls[i] })
	for _, call := range calls {
		took := int64(g.r.IntN(9))
		r := &conversation.ToolSettled{Call: call, DurationMs: pick(g, nil, &took), At: 7}
		if r.Failed = g.chance(30); r.Failed {
			r.ErrorText = pick(g, "", "no such label")
		} else {
			r.Output = g.json()
		}
		g.add(r)
	}
}

// wire is the published form of a history: snapshot and chunks of each batch.
type wire struct {
	snapshots []string
	chunks    []string
}

func play(t *testing.T, batches []conversation.Batch) wire {
	t.Helper()
	var w wire
	s := conversation.NewState()
	for _, b := range batches {
		if err := s.Apply(b); err != nil {
			t.Fatal(err)
		}
		chunks, err := conversation.Project(s.Created().ConversationID, b, func() (*conversation.Snapshot, error) { return s.Snapshot(), nil })
		if err != nil {
			t.Fatal(err)
		}
		w.snapshots = append(w.snapshots, string(must(conversation.EncodeJSON(s.Snapshot()))))
		w.chunks = append(w.chunks, "["+string(must(conversation.AppendChunks(nil, chunks)))+"]")
	}
	return w
}

// update returns the client's update for the chunks of some batches.
func (w wire) update(t *testing.T, from, to int) client.Update {
	t.Helper()
	u := client.Update{Next: conversation.Offset(to)}
	for _, line := range w.chunks[from : to+1] {
		var list []conversation.Chunk
		if err := json.Unmarshal([]byte(line), &list); err != nil {
			t.Fatal(err)
		}
		u.Chunks = append(u.Chunks, list...)
	}
	return u
}

func (w wire) snapshot(t *testing.T, n int) *conversation.Snapshot {
	t.Helper()
	var s conversation.Snapshot
	if err := json.Unmarshal([]byte(w.snapshots[n]), &s); err != nil {
		t.Fatal(err)
	}
	return &s
}

// TestTranscriptIsTheLaterSnapshot checks that a snapshot plus its updates, in any portions, equals
// every later snapshot byte for byte.
func TestTranscriptIsTheLaterSnapshot(t *testing.T) {
	types, batches := map[conversation.ChunkType]int{}, 0
	for seed := range sample.Of[uint64](150, 15) {
		w := play(t, generate(seed))
		g := &generator{r: rand.New(rand.NewPCG(seed, 10))}
		batches += len(w.chunks)
		for from := -1; from < len(w.chunks)-1; from += 1 + g.r.IntN(7) {
			var snap *conversation.Snapshot
			if from >= 0 {
				snap = w.snapshot(t, from)
			}
			tr, err := client.NewTranscript(snap)
			if err != nil {
				t.Fatal(err)
			}
			var kept *conversation.Snapshot // must not change with later updates
			keptAt := -1
			for at := from + 1; at < len(w.chunks); {
				to := min(at+g.r.IntN(4), len(w.chunks)-1)
				u := w.update(t, max(0, at-g.r.IntN(2)), to) // sometimes with an overlap
				for _, c := range u.Chunks {
					types[c.Type]++
				}
				if err := tr.Apply(u); err != nil {
					t.Fatal(err)
				}
				if got := string(must(conversation.EncodeJSON(tr.Snapshot()))); got != w.snapshots[to] {
					t.Fatalf("seed %d, from %d to %d:\n%s\nwant\n%s", seed, from, to, got, w.snapshots[to])
				}
				if kept == nil || g.chance(10) {
					kept, keptAt = tr.Snapshot(), to
				}
				at = to + 1
			}
			if got := string(must(conversation.EncodeJSON(kept))); keptAt >= 0 && got != w.snapshots[keptAt] {
				t.Fatalf("seed %d: the snapshot at %d has changed since:\n%s\nwant\n%s", seed, keptAt, got, w.snapshots[keptAt])
			}
		}
	}
	for _, want := range []conversation.ChunkType{
		conversation.ChunkReset, conversation.ChunkAppended, conversation.ChunkStarted, conversation.ChunkMetadata,
		conversation.ChunkDataPart, conversation.ChunkDelta, conversation.ChunkToolInput, conversation.ChunkToolOutput,
		conversation.ChunkToolOutputError, conversation.ChunkCompleted, conversation.ChunkSettled,
	} {
		if types[want] < sample.Of(20, 2) {
			t.Errorf("got chunk %s only %d times", want, types[want])
		}
	}
	if batches < sample.Of(1500, 150) {
		t.Errorf("only %d batches", batches)
	}
}

// TestPartialTranscript applies updates without a snapshot: it has all later messages and no earlier
// ones.
func TestPartialTranscript(t *testing.T) {
	for seed := range sample.Of[uint64](50, 5) {
		w := play(t, generate(seed))
		last := len(w.chunks) - 1
		whole := w.snapshot(t, last)
		for from := range last {
			tr := must(client.NewTranscript(nil))
			if err := tr.Apply(w.update(t, from+1, last)); err != nil {
				t.Fatal(err)
			}
			before := map[conversation.MessageID]bool{}
			for _, m := range w.snapshot(t, from).Messages {
				before[m.ID] = true
			}
			reset := false
			for _, c := range w.update(t, from+1, last).Chunks {
				reset = reset || c.Type == conversation.ChunkReset
			}
			// An active response may show its later steps, so it is omitted.
			later := func(list []conversation.Message) []conversation.Message {
				return slices.DeleteFunc(list, func(m conversation.Message) bool { return !reset && before[m.ID] })
			}
			want, got := later(slices.Clone(whole.Messages)), later(tr.Snapshot().Messages)
			if len(want)+len(got) > 0 && differ(want, got) != "" {
				t.Fatalf("seed %d from %d:\n%s", seed, from, differ(want, got))
			}
		}
	}
}

func TestTranscriptRefuses(t *testing.T) {
	at := conversation.Position{Batch: 1}
	for _, c := range []conversation.Chunk{
		{Type: "stream-closed", Position: at}, {Type: conversation.ChunkReset, Position: at}, {Type: conversation.ChunkAppended, Position: at},
		{Type: conversation.ChunkStarted, MessageID: "m", Metadata: json.RawMessage(`[1]`), Position: at},
	} {
		if err := must(client.NewTranscript(nil)).Apply(client.Update{Chunks: []conversation.Chunk{c}}); err == nil {
			t.Errorf("invalid %+v was accepted", c)
		}
	}
	if _, err := client.NewTranscript(&conversation.Snapshot{Messages: []conversation.Message{{Metadata: json.RawMessage(`7`)}}}); err == nil {
		t.Error("metadata that is not an object was accepted")
	}
}

func TestReplyOfAnyMessage(t *testing.T) {
	text := func(s string) *string { return &s }
	tr := must(client.NewTranscript(&conversation.Snapshot{Messages: []conversation.Message{
		{ID: "m1", Role: conversation.RoleUser, SubmissionID: "sub_1", Parts: []conversation.Part{{Type: "text", Text: text("q")}}},
		{ID: "m2", Role: conversation.RoleAssistant, SubmissionID: "sub_1", Metadata: json.RawMessage(`{"a":1}`), Parts: []conversation.Part{
			{Type: "reasoning", Text: text("hm")}, {Type: "text", Text: text("one")}, {Type: "data-x", Data: json.RawMessage("1")},
			{Type: "dynamic-tool"}, {Type: "text", Text: text("two")}, {Type: "data-x", Data: json.RawMessage("2")},
		}},
		{ID: "m3", Role: conversation.RoleSystem, SubmissionID: "sub_1"},
		{ID: "m4", Role: conversation.RoleUser, SubmissionID: "sub_2"},
	}}))
	got := tr.Reply("sub_1")
	if got.Text != "one\n\ntwo" || fmt.Sprintf("%s", got.Data) != "map[x:[1 2]]" || string(got.Metadata) != `{"a":1}` || got.Message.ID != "m2" {
		t.Errorf("got reply %+v", got)
	}
	if got := tr.Reply("sub_2"); got.Message != nil || got.Text != "" || len(got.Data) != 0 {
		t.Errorf("empty reply: got %+v", got)
	}
}
