package conversation_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/sample"
)

// keeper folds a log as an owner with checkpoints does: it cuts closed history out of its state, and
// sometimes restores the state from its encoded form.
type keeper struct {
	r      *rand.Rand
	state  *conversation.State
	inline int // see conversation.InlineBytes
	pages  []*conversation.HistoryPage
	cuts   int
}

func (k *keeper) apply(b conversation.Batch) error {
	if err := k.state.Apply(b); err != nil {
		return err
	}
	if err := k.state.CheckSums(); err != nil {
		return err
	}
	if k.state.History() == (conversation.HistoryCounts{}) {
		k.pages = nil // nothing was cut, or a new incarnation has begun
	}
	if k.r.IntN(3) == 0 {
		most := math.MaxInt
		if k.r.IntN(2) == 0 {
			most = 1 + k.r.IntN(4)
		}
		page, err := k.state.CutUpTo(most)
		if err == nil && page != nil {
			err = k.keep(page)
		}
		if err != nil {
			return err
		}
	}
	if k.r.IntN(4) == 0 {
		return k.restore()
	}
	return nil
}

// keep adds a page, or joins it to the last.
func (k *keeper) keep(page *conversation.HistoryPage) error {
	k.cuts++
	if n := len(k.pages); n > 0 && k.r.IntN(2) == 0 {
		page = k.pages[n-1].Join(page)
		k.pages = k.pages[:n-1]
	}
	page, err := readBack(page)
	k.pages = append(k.pages, page)
	return err
}

// restore replaces the state by its decoded form.
func (k *keeper) restore() error {
	b, err := conversation.EncodeState(k.state)
	if err != nil {
		return err
	}
	restored, err := conversation.DecodeState(b)
	if err != nil {
		return err
	}
	again, err := conversation.EncodeState(restored)
	if err != nil {
		return err
	}
	if !bytes.Equal(b, again) {
		return fmt.Errorf("restored state differs:\n%s\n%s", b, again)
	}
	k.state = restored
	k.state.Hold(k.inline)
	return k.state.CheckSums()
}

func readBack(p *conversation.HistoryPage) (*conversation.HistoryPage, error) {
	b, err := conversation.EncodeHistory(p)
	if err != nil {
		return nil, err
	}
	return conversation.DecodeHistory(b)
}

// seen is everything that can be read of a conversation.
type seen struct {
	Snapshot  string
	Exchanges []conversation.Exchange
	Unsettled []conversation.SubmissionID
	Keys      map[string]conversation.SubmissionID
	Files     map[conversation.AttachmentID]conversation.Attachment
	Author    map[string]json.RawMessage
	Refused   []conversation.AttachmentID
}

// readAll reads everything from a state with attached history. The ids are those of the log.
func readAll(t *testing.T, s *conversation.State, pages []*conversation.HistoryPage, log []conversation.Batch) seen {
	t.Helper()
	w := &written{t: t, log: log}
	out := seen{
		Snapshot: w.join(s.Snapshot().Pieces()), Keys: map[string]conversation.SubmissionID{},
		Files: map[conversation.AttachmentID]conversation.Attachment{}, Author: s.AuthorState(),
		Refused: s.Refused(),
	}
	for _, p := range pages {
		x, err := p.Exchanges()
		if err != nil {
			t.Fatal(err)
		}
		out.Exchanges = append(out.Exchanges, x...)
	}
	for _, sub := range s.Exchanges("") {
		out.Exchanges = append(out.Exchanges, conversation.Exchange{Submission: sub.ID, Delivery: sub.Delivery, Left: sub.LeftOf(), Turns: sub.Turns()})
	}
	for _, sub := range s.Unsettled() {
		out.Unsettled = append(out.Unsettled, sub.ID)
	}
	for _, b := range log {
		for _, r := range b.Records {
			adm, ok := r.(*conversation.SubmissionAdmitted)
			if !ok {
				continue
			}
			if sub := s.Lookup(adm.Key); sub != nil {
				out.Keys[adm.Key] = sub.ID
			}
			for _, a := range adm.Delivery.Attachments {
				if file, ok := s.Attachment(a.ID); ok {
					out.Files[a.ID] = file
				}
			}
		}
	}
	return out
}

// TestRemovedHistoryChangesNothing compares a state that was cut, encoded and decoded with the whole
// state.
func TestRemovedHistoryChangesNothing(t *testing.T) {
	cuts := 0
	for seed := range sample.Of[uint64](150, 15) {
		log := generate(seed)
		whole := conversation.NewState()
		kept := &keeper{r: rand.New(rand.NewPCG(seed, 4)), state: conversation.NewState(), inline: conversation.InlineBytes}
		for _, b := range log {
			if err := whole.Apply(b); err != nil {
				t.Fatal(err)
			}
			if err := kept.apply(b); err != nil {
				t.Fatalf("seed %d, batch %d: %v", seed, int64(b.Offset), err)
			}
		}
		cuts += kept.cuts
		if err := kept.state.Attach(kept.pages); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		want, got := readAll(t, whole, nil, log), readAll(t, kept.state, kept.pages, log)
		if diff := cmp.Diff(tidy(t, want), tidy(t, got)); diff != "" {
			t.Fatalf("seed %d (-whole +cut):\n%s", seed, diff)
		}
	}
	if cuts < sample.Of(150, 15) {
		t.Errorf("got only %d cuts", cuts)
	}
}

// tidy returns the JSON form, in which absent and empty values are equal.
func tidy(t *testing.T, v any) any {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestCutTakesOnlyClosedHistory(t *testing.T) {
	log := generate(7)
	s := conversation.NewState()
	for _, b := range log {
		if err := s.Apply(b); err != nil {
			t.Fatal(err)
		}
	}
	page, err := s.Cut()
	if err != nil || page == nil || page.Counts.Messages == 0 || page.Size() == 0 {
		t.Fatalf("cut %+v, %v", page, err)
	}
	for _, sub := range s.Unsettled() {
		if !strings.Contains(snapshotJSON(t, page, s), string(sub.ID)) || bytes.Contains(page.Messages, []byte(sub.ID)) {
			t.Errorf("messages of the open submission %s were cut", sub.ID)
		}
	}
	if again, err := s.Cut(); again != nil || err != nil {
		t.Errorf("cut again: %+v, %v", again, err)
	}
	if err := s.Attach(nil); err == nil {
		t.Error("attach of a missing page succeeded")
	}
	s = stateWithout(t, s)
	for _, bad := range [][]*conversation.HistoryPage{nil, {page, page}} {
		if err := s.Attach(bad); err == nil {
			t.Errorf("attached %d pages, want an error because 1 was cut", len(bad))
		}
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("snapshot without attached history succeeded")
			}
		}()
		s.Snapshot()
	}()
	if err := s.Attach([]*conversation.HistoryPage{page}); err != nil {
		t.Error(err)
	}
	s.Snapshot()
}

// snapshotJSON attaches a page and returns the snapshot.
func snapshotJSON(t *testing.T, page *conversation.HistoryPage, s *conversation.State) string {
	t.Helper()
	if err := s.Attach([]*conversation.HistoryPage{page}); err != nil {
		t.Fatal(err)
	}
	b, err := s.Snapshot().MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// stateWithout returns the state as decoded, without its history.
func stateWithout(t *testing.T, s *conversation.State) *conversation.State {
	t.Helper()
	b, err := conversation.EncodeState(s)
	if err != nil {
		t.Fatal(err)
	}
	if s, err = conversation.DecodeState(b); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDecodeHistoryRefuses(t *testing.T) {
	good := `{"messages":1,"settlements":0,"exchanges":0}` + "\n[{}]\n[]\n[]\n[]\n"
	if _, err := conversation.DecodeHistory([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{
		"", "\n\n\n\n\n", "{}\n[{}]\n[]\n[]\n[]\n", "{}\n{}\n[]\n[]\n[]\n", strings.TrimSuffix(good, "\n"), good + "x", good[1:],
		strings.Replace(good, `"messages":1`, `"messages":-1`, 1), strings.Replace(good, `"settlements":0`, `"settlements":2`, 1),
	} {
		if _, err := conversation.DecodeHistory([]byte(bad)); err == nil {
			t.Errorf("decoded invalid input %q", bad)
		}
	}
	p, err := conversation.DecodeHistory([]byte(strings.Replace(good, `"exchanges":0`, `"exchanges":1`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Exchanges(); err == nil {
		t.Error("missing exchange was not detected")
	}
}

func TestDecodeStateRefuses(t *testing.T) {
	_, err := conversation.DecodeState([]byte(`{"reducer":999,"head":5}`))
	if !errors.Is(err, conversation.ErrReducer) {
		t.Errorf("another reducer: %v", err)
	}
	const sub = `{"id":"s1","key":"k","payloadHash":"","delivery":{"kind":"user","body":""},"offset":1,"admittedAt":0,"delivered":"m1","elapsed":[0,0]`
	created := `{"reducer":6,"head":5,"created":{"agent":"a"}`
	for name, bad := range map[string]string{
		"nothing":             ``,
		"no json":             `{`,
		"more":                created + `} {}`,
		"no conversation":     `{"reducer":6,"submissions":[` + sub + `}]}`,
		"no reducer":          `{"head":5}`,
		"odd reducer":         `{"reducer":x}`,
		"cut off":             `{"reducer":6`,
		"unknown key":         created + `,"keys":["s9"]}`,
		"keys missing":        created + `,"kept":1}`,
		"keys too many":       created + "}\n{\"id\":\"s1\"}",
		"key cut off":         created + ",\"kept\":1}\n{\"id\":\"s1",
		"runs out of turn":    created + `,"submissions":[` + sub + `},` + strings.Replace(sub, "s1", "s2", 1) + `,"running":true}]}`,
		"beyond the head":     created + `,"submissions":[` + strings.Replace(sub, `"offset":1`, `"offset":9`, 1) + `}]}`,
		"no such response":    created + `,"submissions":[` + sub + `,"message":"m2"}]}`,
		"response of no one":  created + `,"messages":[{"view":{"id":"m2","submissionId":"s1"},"response":true}]}`,
		"twice":               created + `,"messages":[{"view":{"id":"m"}},{"view":{"id":"m"}}]}`,
		"sealed data":         created + `,"messages":[{"view":{"id":"m"},"parts":[{"kind":"data-","sealed":true}]}]}`,
		"part of no step":     created + `,"messages":[{"view":{"id":"m"},"parts":[{"kind":"text","step":3}]}]}`,
		"call of no response": created + `,"messages":[{"view":{"id":"m"},"parts":[{"kind":"dynamic-tool","call":"c"}]}]}`,
	} {
		if _, err := conversation.DecodeState([]byte(bad)); err == nil || errors.Is(err, conversation.ErrReducer) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDataOfAnEarlierFold restores a state of an earlier fold version, with one part per write of
// data.
func TestDataOfAnEarlierFold(t *testing.T) {
	wrote := func(name, v string) conversation.Record {
		return &conversation.DataWritten{Message: "res_1", Name: name, Data: json.RawMessage(v)}
	}
	const want = `[{"type":"data-plan","data":3},{"type":"data-cost","data":2}]`
	earlier := running(t)
	apply(t, earlier, wrote("plan", `1`), wrote("cost", `2`), wrote("plan again", `3`))
	state, err := conversation.EncodeState(earlier)
	if err != nil {
		t.Fatal(err)
	}
	restored, err := conversation.DecodeState(bytes.Replace(state, []byte("plan again"), []byte("plan"), 1))
	if err != nil {
		t.Fatal(err)
	}
	folded := running(t)
	apply(t, folded, wrote("plan", `1`), wrote("cost", `2`), wrote("plan", `3`))
	for name, s := range map[string]*conversation.State{"restored": restored, "folded": folded} {
		shown := s.Snapshot().Messages
		got, err := conversation.EncodeJSON(shown[len(shown)-1].Parts)
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", name, got, err, want)
		}
	}
}

func FuzzDecodeState(f *testing.F) {
	for seed := range uint64(4) {
		s := conversation.NewState()
		for _, b := range generate(seed) {
			if err := s.Apply(b); err != nil {
				f.Fatal(err)
			}
		}
		b, err := conversation.EncodeState(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := conversation.DecodeState(b)
		if err != nil {
			return
		}
		again, err := conversation.EncodeState(s)
		if err != nil {
			t.Fatalf("encode decoded history: %v", err)
		}
		if _, err := conversation.DecodeState(again); err != nil {
			t.Fatalf("decode encoded history: %v\n%s", err, again)
		}
		s.Exchanges("")
		if s.History() == (conversation.HistoryCounts{}) {
			s.Snapshot()
		}
		if _, err := s.Cut(); err != nil {
			t.Fatalf("cut: %v", err)
		}
	})
}

func FuzzDecodeHistory(f *testing.F) {
	f.Add([]byte("{\"messages\":1,\"settlements\":0,\"exchanges\":0}\n[{}]\n[]\n[]\n[]\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := conversation.DecodeHistory(b)
		if err != nil {
			return
		}
		again, err := conversation.EncodeHistory(p)
		if err != nil || len(again) == 0 {
			t.Fatalf("encode: %v", err)
		}
		_, _ = p.Exchanges()
		_, _ = p.Attachments()
	})
}

// TestCutTakesSettlementsAlong covers a settlement whose submission was cut earlier, because another
// preceded it.
func TestCutTakesSettlementsAlong(t *testing.T) {
	s := conversation.NewState()
	user := conversation.Delivery{Kind: conversation.KindUser, Body: "hello"}
	if err := s.Apply(conversation.Batch{Records: []conversation.Record{
		&conversation.ConversationCreated{Agent: "a", ID: "c", UID: "inst_1", ConversationID: "conv_1"},
		&conversation.SubmissionAdmitted{Submission: "sub_x", Message: "msg_x", Key: "x", Delivery: user},
		&conversation.SubmissionAdmitted{Submission: "sub_y", Message: "msg_y", Key: "y", Delivery: user},
		&conversation.SubmissionSettled{Submission: "sub_y", Outcome: conversation.OutcomeAborted},
		&conversation.SubmissionSettled{Submission: "sub_x", Outcome: conversation.OutcomeAborted},
	}}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := s.CutUpTo(1); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.History(); got.Settlements != 2 || got.Messages != 2 {
		t.Errorf("cut %+v, want two messages and their settlements", got)
	}
}
