package conversation_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/sample"
)

// written is a log from which deliveries are read that the state does not hold.
type written struct {
	t   *testing.T
	log []conversation.Batch
	of  map[*conversation.HistoryPage]*conversation.HistoryPage // of stubs
	n   int                                                     // messages that were read
}

func (w *written) admission(l *conversation.Left) *conversation.SubmissionAdmitted {
	w.t.Helper()
	w.n++
	r := l.Of(w.log[l.At].Records)
	if r == nil {
		w.t.Fatalf("batch %d does not admit %s", int64(l.At), l.Submission)
	}
	return r
}

// join returns the concatenated pieces.
func (w *written) join(list []conversation.Piece, err error) string {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	var out strings.Builder
	for _, p := range list {
		switch {
		case p.Left != nil:
			b, err := w.admission(p.Left).EncodeMessage()
			if err != nil {
				w.t.Fatal(err)
			}
			out.Write(b)
		case p.Page != nil:
			out.WriteString(w.join(w.of[p.Page].Pieces(), nil))
		default:
			out.Write(p.Bytes)
		}
	}
	return out.String()
}

// whole restores the deliveries of exchanges.
func (w *written) whole(list []conversation.Exchange) []conversation.Exchange {
	for i, x := range list {
		if x.Left != nil {
			list[i].Delivery, list[i].Left = w.admission(x.Left).Delivery, nil
		}
	}
	return list
}

// TestLeftDeliveriesChangeNothing checks that readers see the same, whichever waiting deliveries are
// in the log only. It covers cut history, restored states, and pages read on demand.
func TestLeftDeliveriesChangeNothing(t *testing.T) {
	read, stubs := 0, 0
	for seed := range sample.Of[uint64](150, 30) {
		log := generate(seed)
		r := rand.New(rand.NewPCG(seed, 9))
		whole, inline := conversation.NewState(), r.IntN(12)
		kept := &keeper{r: r, state: conversation.NewStateHolding(inline), inline: inline}
		for _, b := range log {
			if err := whole.Apply(b); err != nil {
				t.Fatal(err)
			}
			if err := kept.apply(b); err != nil {
				t.Fatalf("seed %d, batch %d: %v", seed, int64(b.Offset), err)
			}
		}
		w := &written{t: t, log: log, of: map[*conversation.HistoryPage]*conversation.HistoryPage{}}
		pages := make([]*conversation.HistoryPage, len(kept.pages))
		for i, p := range kept.pages {
			if pages[i] = p; r.IntN(2) == 0 {
				pages[i] = p.Stub()
				w.of[pages[i]] = p
				stubs++
			}
		}
		for _, s := range []struct {
			*conversation.State
			pages []*conversation.HistoryPage
		}{{whole, nil}, {kept.state, pages}} {
			if err := s.Attach(s.pages); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		if diff := cmp.Diff(w.join(whole.Snapshot().Pieces()), w.join(kept.state.Snapshot().Pieces())); diff != "" {
			t.Fatalf("seed %d, snapshots (-whole +left):\n%s", seed, diff)
		}
		if whole.Exists() {
			checkReset(t, w, whole.Snapshot(), kept.state.Snapshot())
		}
		if err := kept.state.Attach(kept.pages); err != nil {
			t.Fatal(err)
		}
		want, got := readAll(t, whole, nil, log), readAll(t, kept.state, kept.pages, log)
		want.Exchanges, got.Exchanges = w.whole(want.Exchanges), w.whole(got.Exchanges)
		if diff := cmp.Diff(tidy(t, want), tidy(t, got)); diff != "" {
			t.Fatalf("seed %d (-whole +left):\n%s", seed, diff)
		}
		read += w.n
	}
	if read < sample.Of(150, 15) || stubs < sample.Of(50, 10) {
		t.Errorf("got only %d messages read from the log, %d pages from the bucket", read, stubs)
	}
}

// checkReset compares the chunk of a reset with that of a batch.
func checkReset(t *testing.T, w *written, whole, left *conversation.Snapshot) {
	t.Helper()
	want, err := conversation.AppendChunks([]byte{'['}, []conversation.Chunk{{
		Type: conversation.ChunkReset, ConversationID: whole.ConversationID, Snapshot: whole,
		Position: conversation.Position{Batch: whole.Offset},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got := w.join(conversation.ResetPieces(left)); got != string(want)+"]" {
		t.Fatalf("reset:\n%s\nwant\n%s]", got, want)
	}
}

func TestWaitingDeliveriesStayInTheLog(t *testing.T) {
	s := conversation.NewState()
	body := strings.Repeat("x", conversation.InlineBytes/4)
	admit := func(n int, records ...conversation.Record) {
		t.Helper()
		id := fmt.Sprint(n)
		err := s.Apply(conversation.Batch{Offset: s.Head() + 1, Records: append(records, &conversation.SubmissionAdmitted{
			Submission: conversation.SubmissionID("sub_" + id), Message: conversation.MessageID("msg_" + id), Key: id,
			Delivery: conversation.Delivery{
				Kind: conversation.KindUser, Body: body,
				Attachments: []conversation.Attachment{{ID: conversation.AttachmentID("att_" + id), Filename: "f"}},
			},
		})})
		if err != nil {
			t.Fatal(err)
		}
	}
	admit(0, &conversation.ConversationCreated{Agent: "a", ID: "1"})
	for n := range 40 {
		admit(n + 1)
	}
	inline := 0
	for _, sub := range s.Unsettled() {
		inline += len(sub.Delivery.Body)
	}
	if most := 5 * conversation.InlineBytes / 4; inline > most || inline < most/2 {
		t.Errorf("got %d inline bytes, want at most %d", inline, most)
	}
	if got, want := s.WaitingBytes(), 40*(len(body)+1); got != want {
		t.Errorf("got %d waiting bytes, want %d", got, want)
	}
	if a, ok := s.Attachment("att_40"); !ok || a.Filename != "f" {
		t.Errorf("attachment of a message in the log: %v, %v", a, ok)
	}
	b, err := conversation.EncodeState(s)
	if err != nil || len(b) > 3*conversation.InlineBytes {
		t.Errorf("state of %d bytes, %v", len(b), err)
	}
	if _, err := s.Snapshot().MarshalJSON(); err == nil {
		t.Error("snapshot was encoded without the log")
	}
}

// TestOlderVersionsReadWholeStates checks that a state requires a newer fold version only if an older
// one would lose data.
func TestOlderVersionsReadWholeStates(t *testing.T) {
	reducer := func(inline int, more ...conversation.Record) int {
		s := conversation.NewStateHolding(inline)
		apply(t, s, created(), admitted(1), attempt("sub_1", 1), admitted(2))
		apply(t, s, started("res_1", "sub_1", "turn_1"), &conversation.Delta{Message: "res_1", Kind: conversation.PartReasoning, Text: "hm"},
			&conversation.PartDone{Message: "res_1", Signature: "sig"}, called("call_1"))
		apply(t, s, more...)
		b, err := conversation.EncodeState(s)
		if err != nil {
			t.Fatal(err)
		}
		version, err := conversation.ReducerOf(b)
		if err != nil {
			t.Fatal(err)
		}
		return version
	}
	if whole, left := reducer(conversation.InlineBytes), reducer(0); whole != 5 || left != 6 {
		t.Errorf("got reducer %d, and %d with messages in the log only", whole, left)
	}
	for name, r := range map[string]*conversation.PartSigned{
		"text":      {Message: "res_1", Kind: conversation.PartText, Signature: "sig"},
		"reasoning": {Message: "res_1", Kind: conversation.PartReasoning, Signature: "sig"},
		"call":      {Message: "res_1", Call: "call_1", Signature: "sig"},
	} {
		if got := reducer(0, r); got != 7 {
			t.Errorf("signed %s: %d", name, got)
		}
	}
	if got := reducer(0, &conversation.RetryScheduled{Submission: "sub_2"}); got != 8 {
		t.Errorf("retry: got reducer %d", got)
	}
	if got := reducer(0, &conversation.ImagesRefused{Attachments: []conversation.AttachmentID{"att_1"}}); got != 9 {
		t.Errorf("refused image: got reducer %d", got)
	}
	stored := &conversation.OutputStored{Call: "call_1", StoredOutput: conversation.StoredOutput{Size: 1}}
	if got := reducer(0, &conversation.ImagesRefused{Attachments: []conversation.AttachmentID{"att_1"}}, stored); got != 10 {
		t.Errorf("stored output: got reducer %d", got)
	}
	paid := &conversation.StepCompleted{Message: "res_1", Turn: "turn_1", Facts: conversation.CallFacts{Price: &conversation.Price{Total: 0.5}}}
	if got := reducer(0, paid); got != 11 {
		t.Errorf("cost: got reducer %d", got)
	}
	for name, r := range map[string]conversation.Record{
		"a wait":        &conversation.WaitStarted{Call: "call_1", Name: "approval", At: at},
		"a kept signal": &conversation.SignalKept{Submission: "sub_2", Name: "approval", At: at},
	} {
		if got := reducer(0, paid, r); got != 12 {
			t.Errorf("%s: %d", name, got)
		}
	}
	suspended := []conversation.Record{
		&conversation.StepCompleted{Message: "res_1", Turn: "turn_1"}, &conversation.Suspended{Submission: "sub_1"},
		&conversation.Overtook{Submission: "sub_2"},
	}
	if got := reducer(0, suspended...); got != 13 {
		t.Errorf("overtook: got reducer %d", got)
	}
	if got := reducer(0, paid, &conversation.ReplyPending{Submission: "sub_2"}); got != 14 {
		t.Errorf("pending reply: got reducer %d", got)
	}
	kept := []conversation.Record{admitted(3), &conversation.KeyKept{Submission: "sub_3", Until: at}}
	if got := reducer(0, append([]conversation.Record{paid}, kept...)...); got != 15 {
		t.Errorf("key_kept: got reducer %d", got)
	}
	for name, r := range map[string]conversation.Record{
		"a post":                  &conversation.PostEnqueued{Post: "post_1", Target: "ledger", At: at},
		"a notice that is wanted": &conversation.NoticeAsked{Submission: "sub_2", Target: "ledger"},
	} {
		if got := reducer(0, paid, r); got != 16 {
			t.Errorf("%s: %d", name, got)
		}
	}
}

// TestOlderVersionsReadNoPartOfAResponse checks that older versions, which have no bound, reject a
// truncated response, including a subagent's.
func TestOlderVersionsReadNoPartOfAResponse(t *testing.T) {
	s := running(t)
	apply(t, s, called("call_1"), completed("res_1", "turn_1"), task(1, "call_1"), hidden("work", "task_1", "turn_2"))
	apply(t, s, &conversation.Delta{
		Message: "work", Child: "child_1", Kind: conversation.PartText, Text: strings.Repeat("x", conversation.MaxResponseText+1),
	})
	b, err := conversation.EncodeState(s)
	if err != nil {
		t.Fatal(err)
	}
	if version, err := conversation.ReducerOf(b); err != nil || version != 6 {
		t.Errorf("got reducer %d, %v, want 6", version, err)
	}
}

func TestDecodeHistoryChecksReferences(t *testing.T) {
	const good = `{"messages":2,"settlements":0,"exchanges":0,"left":1}` + "\n[{},\t" + `{"left":{"at":"0000000000000000_0000000000000003","submission":"sub_1"}}` + "]\n[]\n[]\n[]\n"
	p, err := conversation.DecodeHistory([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	list, err := json.Marshal(p.Pieces())
	if want := `[{"Bytes":"e30s","Left":null,"Page":null},{"Bytes":null,"Left":{"at":"0000000000000000_0000000000000003","submission":"sub_1"},"Page":null}]`; err != nil || string(list) != want {
		t.Errorf("got pieces %s, %v, want %s", list, err, want)
	}
	for _, bad := range []string{
		strings.Replace(good, `"left":1`, `"left":2`, 1), strings.Replace(good, `,"left":1`, ``, 1),
		strings.Replace(good, `{"left":{`, `{"lost":{`, 1), strings.Replace(good, `}}]`, `}]`, 1),
	} {
		if _, err := conversation.DecodeHistory([]byte(bad)); err == nil {
			t.Errorf("decoded invalid input %q", bad)
		}
	}
}

// TestStubHoldsNothingElse: a page is decoded in place, so a shared part would retain all of it.
func TestStubHoldsNothingElse(t *testing.T) {
	long := `{"id":"` + strings.Repeat("x", 8<<20) + `"}`
	data := []byte(`{"messages":1,"settlements":1,"exchanges":0}` + "\n[" + long + "]\n[{}]\n[]\n[]\n")
	page, err := conversation.DecodeHistory(data)
	if err != nil {
		t.Fatal(err)
	}
	freed := make(chan struct{})
	runtime.AddCleanup(&data[0], func(freed chan struct{}) { close(freed) }, freed)
	stub := page.Stub()
	data, page = nil, nil
	for range 100 { // a cleanup is queued by one collection, and may run after the next
		runtime.GC()
		select {
		case <-freed:
			if stub.Bytes() != len("{}[]") {
				t.Errorf("the stub has %d bytes", stub.Bytes())
			}
			return
		default:
			runtime.Gosched()
		}
	}
	t.Error("stub retains the memory of its page")
	runtime.KeepAlive(stub)
}
