package conversation_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/conversation/feed"
	"github.com/parleyrun/parley/internal/sample"
)

// eventsOf projects batches, and returns the events and the number of events before each batch.
func eventsOf(t testing.TB, p *feed.Projector, batches []conversation.Batch) (out []string, before []int64) {
	t.Helper()
	for _, b := range batches {
		before = append(before, p.Next())
		err := p.Apply(b.Records, func(e feed.Event) {
			if e.Number != before[0]+int64(len(out)) {
				t.Fatalf("event %d comes after %d", e.Number, before[0]+int64(len(out))-1)
			}
			out = append(out, string(e.JSON))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out, before
}

// TestEventsOfRandomHistories checks three properties: numbers are dense; a projector resumed from a
// mark makes the same events; the eventIndex of each submission counts from 0 without a gap.
// covers: beta/23, beta/66, beta/74, beta/109, beta/110, beta/111, upgrade/25
func TestEventsOfRandomHistories(t *testing.T) {
	seeds := sample.Of(300, 50)
	total, runs := 0, 0
	for seed := range uint64(seeds) {
		batches := rooted(generate(seed))
		all, before := eventsOf(t, new(feed.Projector), batches)
		total += len(all)
		indexed(t, seed, all)
		runs += runsEnd(t, seed, batches, all, before)

		at := rand.New(rand.NewPCG(seed, 1)).IntN(len(batches))
		counted := new(feed.Projector)
		var creation *conversation.ConversationCreated
		for _, b := range batches[:at] {
			for _, r := range b.Records {
				if created, ok := r.(*conversation.ConversationCreated); ok {
					creation = created
				}
			}
			if err := counted.Apply(b.Records, nil); err != nil {
				t.Fatal(err)
			}
		}
		mark, err := counted.Mark(int64(at) - 1)
		if err != nil {
			t.Fatal(err)
		}
		resumed, err := mark.Resume(creation)
		if err != nil {
			t.Fatal(err)
		}
		rest, _ := eventsOf(t, resumed, batches[at:])
		if diff := cmp.Diff(all[before[at]:], rest, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("seed %d, on from batch %d (-want +got):\n%s", seed, at, diff)
		}
	}
	if total < 30*seeds {
		t.Errorf("%d events of %d histories", total, seeds)
	}
	if runs < seeds/15 {
		t.Errorf("%d runs of %d histories have ended", runs, seeds)
	}
}

// rooted sets the origin of call outcomes, as the runtime does.
func rooted(batches []conversation.Batch) []conversation.Batch {
	responses, calls := map[conversation.MessageID]conversation.SubmissionID{}, map[conversation.CallID]conversation.SubmissionID{}
	for _, b := range batches {
		for _, r := range b.Records {
			switch r := r.(type) {
			case *conversation.ResponseStarted:
				responses[r.Message] = r.Submission
			case *conversation.ToolCalled:
				calls[r.Call] = responses[r.Message]
			case *conversation.ToolSettled:
				r.Root = calls[r.Call]
			}
		}
	}
	return batches
}

// runsEnd compares the events of runs with the state of their logs, and returns the number of ended
// runs.
func runsEnd(t *testing.T, seed uint64, batches []conversation.Batch, events []string, before []int64) (runs int) {
	t.Helper()
	s, over := conversation.NewState(), false
	for i, b := range batches {
		if err := s.Apply(b); err != nil {
			t.Fatal(err)
		}
		made := events[before[i]:]
		if i+1 < len(before) {
			made = events[before[i]:before[i+1]]
		}
		run := s.Run()
		ended := run != nil && run.Outcome != ""
		switch {
		case over && ended && len(made) > 0:
			t.Fatalf("seed %d: batch %d emits events after run_end: %s", seed, i, made)
		case !over && ended:
			runs++
			wantEnd(t, seed, run, made[len(made)-1])
		}
		over = ended
	}
	return runs
}

func wantEnd(t *testing.T, seed uint64, run *conversation.Run, event string) {
	t.Helper()
	var end struct {
		Type, RunID string
		Result      json.RawMessage
		IsError     bool
		Error       *feed.RunError
		DurationMs  int64
	}
	if err := json.Unmarshal([]byte(event), &end); err != nil {
		t.Fatal(err)
	}
	want, completed := "null", run.Outcome == conversation.OutcomeCompleted
	if completed && run.Output != nil {
		want = compact(run.Output)
	}
	if end.Type != feed.TypeRunEnd || end.RunID != "42" || string(end.Result) != want || end.IsError == completed ||
		(end.Error == nil) != completed || end.DurationMs != int64(run.EndedAt-run.StartedAt) {
		t.Fatalf("seed %d: run %+v ends with %s", seed, run, event)
	}
}

func compact(v json.RawMessage) string {
	out, err := conversation.EncodeJSON(v)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

func indexed(t testing.TB, seed uint64, events []string) {
	t.Helper()
	next := map[string]int{}
	for i, line := range events {
		var e struct {
			V            int    `json:"v"`
			Type         string `json:"type"`
			EventIndex   int    `json:"eventIndex"`
			SubmissionID string `json:"submissionId"`
			RunID        string `json:"runId"`
			InstanceID   string `json:"instanceId"`
			Timestamp    string `json:"timestamp"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("seed %d, event %d: %v: %s", seed, i, err, line)
		}
		if e.V != feed.EventVersion || e.Type == "" || e.Timestamp == "" {
			t.Fatalf("seed %d, event %d: %s", seed, i, line)
		}
		if (e.RunID == "") != (e.InstanceID != "") || e.RunID != "" && (e.SubmissionID != "" || e.EventIndex != i) {
			t.Fatalf("seed %d, event %d: %s", seed, i, line)
		}
		if e.SubmissionID == "" {
			continue
		}
		if e.EventIndex != next[e.SubmissionID] {
			t.Fatalf("seed %d, event %d has index %d, want %d: %s", seed, i, e.EventIndex, next[e.SubmissionID], line)
		}
		next[e.SubmissionID]++
		if e.Type == feed.TypeSettled {
			next[e.SubmissionID] = 0
		}
	}
}

// TestEventsDoNotDependOnBatches splits records into other batches. Only the outcome "aborted" of a
// turn depends on its batch.
// covers: beta/24
func TestEventsDoNotDependOnBatches(t *testing.T) {
	for seed := range uint64(60) {
		var single []conversation.Batch
		aborts := false
		batches := generate(seed)
		for _, b := range batches {
			for _, r := range b.Records {
				single = append(single, conversation.Batch{Offset: conversation.Offset(len(single)), Records: []conversation.Record{r}})
				_, aborted := r.(*conversation.AbortRequested)
				aborts = aborts || aborted
			}
		}
		if aborts {
			continue
		}
		whole, _ := eventsOf(t, new(feed.Projector), batches)
		split, _ := eventsOf(t, new(feed.Projector), single)
		if diff := cmp.Diff(whole, split); diff != "" {
			t.Fatalf("seed %d (-batches +records):\n%s", seed, diff)
		}
	}
}

// TestMarksOfAStream checks that every event is reachable from a mark nearby, and that the number of
// marks is bounded.
// covers: beta/74
func TestMarksOfAStream(t *testing.T) {
	var marks feed.Marks
	var batches [][]conversation.Record
	p, creation := new(feed.Projector), &conversation.ConversationCreated{Agent: "a", ID: "1", ConversationID: "conv_1"}
	apply := func(records ...conversation.Record) {
		if err := p.Apply(records, nil); err != nil {
			t.Fatal(err)
		}
		marks.Note(int64(len(batches)), p)
		batches = append(batches, records)
	}
	apply(creation)
	for n := 0; p.Next() < 20_000; n++ {
		sub, msg := conversation.SubmissionID(fmt.Sprint("sub_", n)), conversation.MessageID(fmt.Sprint("msg_", n))
		apply(&conversation.SubmissionAdmitted{Submission: sub}, &conversation.AttemptStarted{Submission: sub})
		apply(&conversation.ResponseStarted{Submission: sub, Message: msg, Turn: "turn_1"})
		for range n % 9 {
			apply(&conversation.Delta{Message: msg, Kind: conversation.PartText, Text: "and so on "})
		}
		apply(&conversation.StepCompleted{Message: msg, Turn: "turn_1", StopReason: "stop"}, &conversation.SubmissionSettled{Submission: sub, Began: true})
	}
	if n := len(marks.List); n < 32 || n > 128 {
		t.Fatalf("got %d marks for %d events", n, p.Next())
	}
	least, most := p.Next(), int64(0)
	for i, k := range marks.List[1:] {
		gap := k.Next - marks.List[i].Next
		least, most = min(least, gap), max(most, gap)
	}
	if most > 3*least {
		t.Errorf("got gaps of %d to %d events between marks", least, most)
	}
	encoded, err := marks.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if len(encoded) > 16<<10 {
		t.Errorf("got marks of %d bytes", len(encoded))
	}
	read, err := feed.ParseMarks(encoded)
	if err != nil {
		t.Fatal(err)
	}
	from := func(p *feed.Projector, batches [][]conversation.Record) (out []string) {
		for _, b := range batches {
			if err := p.Apply(b, func(e feed.Event) { out = append(out, string(e.JSON)) }); err != nil {
				t.Fatal(err)
			}
		}
		return out
	}
	all := from(new(feed.Projector), batches)
	worst := int64(0)
	for _, n := range []int64{1000, 7777, p.Next() / 2, p.Next() - 100, p.Next() - 1} {
		mark, ok := read.Before(n)
		if !ok || mark.Next > n {
			t.Fatalf("event %d: got mark %+v, %t", n, mark, ok)
		}
		worst = max(worst, n-mark.Next)
		resumed, err := mark.Resume(creation)
		if err != nil {
			t.Fatal(err)
		}
		if rest := from(resumed, batches[mark.Seq+1:]); rest[n-mark.Next] != all[n] {
			t.Fatalf("event %d is %s, want %s", n, rest[n-mark.Next], all[n])
		}
	}
	if worst > p.Next()/20 {
		t.Errorf("a reader projects up to %d of %d events for one", worst, p.Next())
	}
	// A new incarnation has its own marks.
	apply(&conversation.ConversationDeleted{})
	if last, ok := marks.Last(); len(marks.List) != 1 || !ok || last.Next != p.FirstEvent() {
		t.Errorf("after a deletion: %d marks, the last at %d of %d", len(marks.List), last.Next, p.FirstEvent())
	}
}

// covers: beta/91
func TestMarksThatCannotBeUsed(t *testing.T) {
	for _, tt := range []struct {
		name, json string
		fails      bool
	}{
		{"nothing", "", false},
		{"another version", `{"v":2,"gap":1,"marks":[{"seq":1,"next":2,"state":{}}]}`, false},
		{"no JSON", `{`, true},
		{"out of order", `{"v":1,"gap":64,"marks":[{"seq":4,"next":9,"state":{}},{"seq":3,"next":10,"state":{}}]}`, true},
		{"negative", `{"v":1,"gap":64,"marks":[{"seq":-1,"next":9,"state":{}}]}`, true},
	} {
		m, err := feed.ParseMarks([]byte(tt.json))
		if (err != nil) != tt.fails || len(m.List) != 0 {
			t.Errorf("%s: %+v, %v", tt.name, m, err)
		}
	}
	if _, err := (feed.Mark{Seq: 1, Next: 5, State: json.RawMessage(`{"next":4}`)}).Resume(nil); err == nil {
		t.Error("mark with a foreign state resumed")
	}
}

// covers: beta/25
func TestStreamOfANewerVersion(t *testing.T) {
	newer := &conversation.ConversationCreated{Agent: "a", ID: "1", Stream: feed.Version + 1}
	if err := new(feed.Projector).Apply([]conversation.Record{newer}, nil); err == nil {
		t.Error("newer stream version was projected")
	}
	if err := new(feed.Projector).Apply([]conversation.Record{&conversation.ConversationCreated{}}, nil); err != nil {
		t.Errorf("first version: got error %v", err)
	}
}
