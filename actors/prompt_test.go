package actors_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/storagetest"
)

// show admits a message with images to conversation c.
func (n *node) show(images ...[]byte) {
	n.w.tb.Helper()
	a := message(chat("c"), "k", "What is this?")
	for i, data := range images {
		digest := sha256.Sum256(data)
		sum := hex.EncodeToString(digest[:])
		blob := conversation.Blob{Content: bytes.NewReader(data), Size: int64(len(data)), Digest: sum}
		for range 2 { // staging is idempotent
			if err := n.rt.Stage(context.Background(), chat("c"), blob); err != nil {
				n.w.tb.Fatal(err)
			}
		}
		a.Delivery.Attachments = append(a.Delivery.Attachments, conversation.Attachment{
			SHA256: sum, Size: blob.Size, MimeType: []string{"image/png", "image/jpeg"}[i],
		})
	}
	n.accept(a)
}

func drawn(t testing.TB, width, height int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// fetch reads the content of an image.
func fetch(c providers.Content) ([]byte, error) {
	r, err := c.Open(context.Background())
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	return data, errors.Join(err, r.Close())
}

func TestImagesReachTheModel(t *testing.T) {
	w := newWorld(t)
	model := make(stage)
	n := w.start(setup{opts: agents(chatAgent()), model: model})
	// The second has the wrong type and is no valid image.
	images := [][]byte{drawn(t, 3, 2), []byte("\xff\xd8 two")}
	n.show(images...)
	c := model.next(t)
	want := []providers.Message{{Role: providers.RoleUser, Parts: []providers.Part{
		providers.Text{Text: "What is this?"},
		providers.Image{MimeType: "image/png", Content: providers.Bytes(images[0]), Facts: &providers.ImageFacts{MimeType: "image/png", Width: 3, Height: 2}},
		providers.Image{MimeType: "image/jpeg", Content: providers.Bytes(images[1]), Facts: &providers.ImageFacts{}},
	}}}
	seen := cmp.Transformer("look", func(c providers.Content) string {
		data, err := fetch(c)
		if err != nil || int64(len(data)) != c.Size() {
			t.Errorf("read %d bytes of %d, %v", len(data), c.Size(), err)
		}
		return string(data)
	})
	if diff := cmp.Diff(want, c.req.Messages, seen); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	if c.req.System != "Be brief." {
		t.Errorf("got system prompt %q", c.req.System)
	}
	c.finish()
	w.untilSettled(chat("c"), 1)
}

// TestImageThatCannotBeRead distinguishes transient from permanent failures.
func TestImageThatCannotBeRead(t *testing.T) {
	data := []byte("\x89PNG one")
	w := newWorld(t)
	model := make(stage)
	n := w.start(setup{opts: agents(chatAgent()), model: model})
	n.show(data)
	c := model.next(t)
	image := c.req.Messages[0].Parts[1].(providers.Image).Content
	var key string
	for k := range w.listing() {
		if strings.Contains(k, "/blob/") {
			key = k
		}
	}
	store := func(data []byte) {
		if err := w.bucket.Put(t.Context(), key, storage.Bytes(data)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name   string
		happen func()
		want   error
	}{
		{"no answer", func() { n.fault.Store(int32(storagetest.ErrorBefore)) }, providers.ErrUnavailable},
		{"other bytes", func() { n.fault.Store(0); store([]byte("\x89PNG two")) }, nil},
		{"another size", func() { store(data[1:]) }, nil},
		{"none", func() {
			if err := w.bucket.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}, storage.ErrNotFound},
	} {
		tt.happen()
		got, err := fetch(image)
		passes := tt.want == providers.ErrUnavailable
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) || errors.Is(err, providers.ErrUnavailable) != passes {
			t.Errorf("%s: read %d bytes, %v", tt.name, len(got), err)
		}
	}
	c.finish()
	w.untilSettled(chat("c"), 1)
}

// covers: protocol/25
func TestSignalsAreRenderedForTheModel(t *testing.T) {
	for name, test := range map[string]struct {
		signal conversation.Delivery
		want   string
	}{
		"bare": {
			conversation.Delivery{Type: "deploy", Body: "done"},
			"<signal type=\"deploy\">\ndone\n</signal>",
		},
		"own tag": {
			conversation.Delivery{Type: "deploy", Body: "done", TagName: "ci.event-1"},
			"<ci.event-1 type=\"deploy\">\ndone\n</ci.event-1>",
		},
		"type first, then sorted": {
			conversation.Delivery{Type: "deploy", Body: "done", Attributes: map[string]string{"z": "1", "a": "2", "m": "3"}},
			"<signal type=\"deploy\" a=\"2\" m=\"3\" z=\"1\">\ndone\n</signal>",
		},
		"names that cannot stand in a tag": {
			conversation.Delivery{Type: "t", Body: "done", Attributes: map[string]string{
				"a b": "1", "": "2", "1x": "3", "x><y": "<&>", "ok": "4",
			}},
			"<signal type=\"t\" ok=\"4\">\n: 2\n1x: 3\na b: 1\nx&gt;&lt;y: &lt;&amp;&gt;\ndone\n</signal>",
		},
		"an attribute named type": {
			conversation.Delivery{Type: "t", Body: "done", Attributes: map[string]string{"type": "forged"}},
			"<signal type=\"t\">\ntype: forged\ndone\n</signal>",
		},
		"escaping": {
			conversation.Delivery{Type: `a"b<c`, Body: "</signal>\n& \"quoted\"", Attributes: map[string]string{"v": `"><x y="`}},
			"<signal type=\"a&quot;b&lt;c\" v=\"&quot;&gt;&lt;x y=&quot;\">\n&lt;/signal&gt;\n&amp; \"quoted\"\n</signal>",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			model := make(stage)
			n := w.start(setup{opts: agents(chatAgent()), model: model})
			test.signal.Kind = conversation.KindSignal
			n.accept(conversation.Admission{Address: chat("c"), Key: "k", Delivery: test.signal})
			c := model.next(t)
			if diff := cmp.Diff([]string{"user: " + test.want}, c.seen()); diff != "" {
				t.Errorf("prompt (-want +got):\n%s", diff)
			}
			c.finish()
			w.untilSettled(chat("c"), 1)
		})
	}
}

func TestContextIsBuiltPerSubmission(t *testing.T) {
	ts := newTools()
	w := newWorld(t)
	model := make(stage)
	n := w.start(setup{opts: agents(ts.agent()), model: model})
	n.admit(chat("c"), "1", "first")
	c := model.next(t)
	n.admit(chat("c"), "2", "second")
	c.text("Let me see.")
	c.call("p1", "quick", "{}")
	c.finish()

	c = model.next(t)
	wantFirst := []string{"user: first", "assistant: Let me see.|quick{}", "tool: p1=quick result"}
	if diff := cmp.Diff(wantFirst, c.seen()); diff != "" {
		t.Errorf("context of the running submission (-want +got):\n%s", diff)
	}
	c.text("Done.")
	c.finish()

	c = model.next(t)
	if diff := cmp.Diff(append(wantFirst, "assistant: Done.", "user: second"), c.seen()); diff != "" {
		t.Errorf("context of the next submission (-want +got):\n%s", diff)
	}
	c.finish()
	outcomes(t, afterSettlements(w, chat("c"), 2))
	// The transcript has the second message at its admission.
	var order []string
	for _, r := range w.records(chat("c")) {
		switch r := r.(type) {
		case *conversation.SubmissionAdmitted:
			order = append(order, r.Delivery.Body)
		case *conversation.ToolCalled:
			order = append(order, r.Name)
		}
	}
	if diff := cmp.Diff([]string{"first", "second", "quick"}, order); diff != "" {
		t.Errorf("order of the log (-want +got):\n%s", diff)
	}
}

func afterSettlements(w *world, at conversation.Address, n int) []conversation.Record {
	w.tb.Helper()
	w.untilSettled(at, n)
	return w.records(at)
}

func TestToolResultsAreShownInCallOrder(t *testing.T) {
	gates := map[string]chan struct{}{"a": make(chan struct{}), "b": make(chan struct{}), "c": make(chan struct{})}
	type in struct {
		Name string `json:"name"`
	}
	gate := agent.NewTool("gate", "Waits for its gate.", func(ctx context.Context, in in) (map[string]string, error) {
		select {
		case <-gates[in.Name]:
		case <-ctx.Done():
		}
		return map[string]string{"gate": in.Name}, nil
	}, nil)
	w := newWorld(t)
	model := make(stage)
	n := w.start(setup{opts: agents(chatAgent(gate)), model: model})
	n.admit(chat("c"), "k", "go")
	c := model.next(t)
	for _, name := range []string{"a", "b", "c"} {
		c.call("same id", "gate", fmt.Sprintf(`{"name":%q}`, name))
	}
	c.finish()
	for i, name := range []string{"c", "a", "b"} {
		close(gates[name])
		w.until("the result of "+name, func() bool { return len(only[*conversation.ToolSettled](w.records(chat("c")))) == i+1 })
	}
	c = model.next(t)
	want := `tool: same id={"gate":"a"}|same id={"gate":"b"}|same id={"gate":"c"}`
	if got := c.seen(); got[len(got)-1] != want {
		t.Errorf("got results %s, want %s", got[len(got)-1], want)
	}
	c.finish()
	w.untilSettled(chat("c"), 1)
}

func TestReasoningIsShownWithItsModel(t *testing.T) {
	w := newWorld(t)
	model := make(stage)
	n := w.start(setup{opts: agents(chatAgent()), model: model})
	n.admit(chat("c"), "1", "first")
	c := model.next(t)
	c.do(move{act: func(a *providers.Assembler) {
		a.Reasoning("Let me ", "")
		a.Reasoning("think.", "signature")
		a.Text("Answer.")
	}})
	c.finish()
	n.admit(chat("c"), "2", "second")
	c = model.next(t)
	want := []providers.Message{
		{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: "first"}}},
		{Role: providers.RoleAssistant, Model: spec, Parts: []providers.Part{
			providers.Reasoning{Text: "Let me think.", Signature: "signature"}, providers.Text{Text: "Answer."},
		}},
		{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: "second"}}},
	}
	if diff := cmp.Diff(want, c.req.Messages); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	c.finish()
	w.untilSettled(chat("c"), 2)
}

// turns is an instructions function that records its facts.
type turns struct {
	mu   sync.Mutex
	seen []agent.Turn
	err  error
}

func (ts *turns) instructions(_ context.Context, t *agent.Turn) (string, error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.seen = append(ts.seen, *t)
	return fmt.Sprintf("call %d", len(ts.seen)), ts.err
}

func (ts *turns) facts() []agent.Turn {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return append([]agent.Turn(nil), ts.seen...)
}

func TestInstructionsAreEvaluatedBeforeEveryModelCall(t *testing.T) {
	var ts turns
	a := newTools().agent()
	a.Instructions, a.InstructionsFunc = "", ts.instructions
	w := newWorld(t)
	model := make(stage)
	opts := doomed(a)
	first := w.start(setup{opts: opts, model: model})
	adm := message(chat("c"), "1", "first")
	adm.InitialData = json.RawMessage(`{"repo":"parley"}`)
	r := first.accept(adm)
	c := model.next(t)
	systems := []string{c.req.System}
	c.call("p1", "quick", "{}")
	c.finish()
	systems = append(systems, model.next(t).req.System)
	first.cut()

	w.start(setup{opts: agents(a), model: model})
	c = model.next(t)
	systems = append(systems, c.req.System)
	c.finish()
	w.untilSettled(chat("c"), 1)

	turn := agent.Turn{
		Address: chat("c"), UID: r.UID, Submission: r.SubmissionID, Attempt: 1, Number: 1,
		Delivery: adm.Delivery, InitialData: adm.InitialData,
	}
	want := []agent.Turn{turn, turn, turn}
	want[1].Number = 2
	want[2].Attempt = 2
	if diff := cmp.Diff(want, ts.facts()); diff != "" {
		t.Errorf("facts of the turns (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"call 1", "call 2", "call 3"}, systems); diff != "" {
		t.Errorf("system prompts (-want +got):\n%s", diff)
	}
}

func TestInstructionsErrorFailsTheSubmission(t *testing.T) {
	const secret = "connection string postgres://secret"
	for name, instructions := range map[string]func(context.Context, *agent.Turn) (string, error){
		"error": (&turns{err: errors.New(secret)}).instructions,
		"panic": func(context.Context, *agent.Turn) (string, error) { panic(secret) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := &agent.Agent{Name: "chat", Model: spec, InstructionsFunc: instructions}
			n := w.start(setup{opts: agents(a), model: emits(1)})
			n.admit(chat("c"), "k", "hello")
			failedSafely(t, w, chat("c"), &conversation.SettlementError{
				Type: conversation.CodeInternal, Message: "The agent could not prepare the reply.",
			}, secret)
		})
	}
}
