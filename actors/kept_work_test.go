package actors_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage"
)

// keptHelper is the conversation that another one dispatches to.
var keptHelper = conversation.Address{Agent: "other", ID: "helper"}

// keptOptions are used by the kept process and its successor: logs get checkpoints, pages and segments
// early.
func keptOptions(sink observability.Sink) actors.Options {
	send := agent.NewTool("send", "Sends.", func(ctx context.Context, _ struct{}) (string, error) {
		_, err := agent.Dispatch(ctx, keptHelper, agent.Text("hello"))
		return "sent", err
	}, nil)
	wait := agent.NewTool("wait", "Waits.", func(ctx context.Context, _ struct{}) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}, nil)
	write := agent.NewTool("write", "Writes.", func(ctx context.Context, _ struct{}) (agent.Result, error) {
		return agent.Result{Output: "written", Images: []agent.Image{{MimeType: "image/png", Data: []byte("\x89PNG"), Filename: "a.png"}}},
			note(ctx, "tool")
	}, nil)
	a := withSubagents(chatAgent(send, wait, write, reminds(&work{}, keptDelay/2)), researcher())
	a.State = []agent.StateDefinition{diary}
	a.Compaction.KeepRecentTokens = 100
	a.Hooks.Settled = func(context.Context, *agent.Settlement) error { return nil }
	o := agents(a, &agent.Agent{Name: "other", Model: spec})
	o.CheckpointBatches, o.SegmentBatches, o.SegmentGrace = 12, 6, 100*time.Millisecond
	o.AppendTimeout, o.DrainTimeout = time.Second, time.Second
	o.Events.Sinks, o.Events.GroupEvery = []observability.Sink{sink}, 10*time.Millisecond
	return o
}

// keptModel answers as the newest message requests.
func keptModel() *vendor {
	model := func(ctx context.Context, req providers.Request, a *providers.Assembler) error {
		seen := shown(req)
		last := strings.TrimPrefix(seen[len(seen)-1], "user: ")
		next := replies("heard")
		switch tool, used := strings.CutPrefix(last, "use "); {
		case used:
			next = toolCalls(tool)
		case last == "hand on":
			next = toolCalls(task("researcher", "look"))
		case last == "fail":
			next = fails(&providers.Error{Kind: providers.KindInvalidRequest, Status: 400})
		case last == "hang":
			next = hangs("so far", nil)
		case last == "long":
			next = replies(strings.Repeat("long ", 8<<10))
		}
		return next(ctx, req, a)
	}
	return &vendor{models: map[string]script{"model": model, "child": replies("found")}}
}

// keptWork runs a process, crashes it with work in progress, and returns the readers' view.
func (w *world) keptWork(shared bool) kept {
	w.tb.Helper()
	n := w.start(setup{opts: keptOptions(&keptSink{}), model: keptModel(), shared: shared})
	turns := func(id string, bodies ...string) {
		for i, body := range bodies {
			n.admit(chat(id), id+string(rune('a'+i)), body)
			w.untilSettled(chat(id), i+1)
		}
	}
	turns("settled", "hello", "use write", "use send")
	w.untilSettled(keptHelper, 1)
	turns("failed", "hello", "fail")
	turns("tasks", "hand on")
	turns("long", strings.Split(strings.Repeat("long ", 24), " ")[:24]...)
	w.keptAttachment(n)
	turns("compacted", "long", "long", "hello")
	if any, err := n.rt.Compact(context.Background(), chat("compacted"), ""); !any || err != nil {
		w.tb.Fatalf("got no compaction: %v", err)
	}
	n.admit(chat("aborted"), "aa", "hang")
	w.untilContains(chat("aborted"), "so far")
	if any, err := n.rt.Abort(context.Background(), chat("aborted")); !any || err != nil {
		w.tb.Fatalf("got no abort: %v", err)
	}
	w.until("export journals", func() bool {
		refs, err := storage.ExportJournals(context.Background(), w.bucket)
		return err == nil && len(refs) > 1
	})

	n.admit(chat("waiting"), "aa", "use remind")
	w.untilContains(chat("waiting"), string(conversation.TypeSuspended))
	n.admit(chat("calling"), "aa", "use wait")
	w.untilContains(chat("calling"), string(conversation.TypeToolCalled))
	n.admit(chat("cut"), "aa", "hang")
	w.untilContains(chat("cut"), "so far")
	n.admit(chat("cut"), "ab", "hello")
	w.until("a timer and all segments", func() bool {
		found := map[string]bool{}
		for key := range w.listing() {
			for _, part := range strings.Split(key, "/") {
				found[part] = true
			}
		}
		return found["timer"] && found["seg"] && found["page"] && found["ckpt"] && found["blob"]
	})
	out := kept{Made: time.Now().UnixMilli()}
	for _, id := range []string{"settled", "failed", "tasks", "long", "attached", "compacted", "aborted", "waiting", "calling", "cut"} {
		out.Conversations = append(out.Conversations, n.asKept(chat(id)))
	}
	out.Conversations = append(out.Conversations, n.asKept(keptHelper))
	n.cut()
	_ = n.stop() // Its shutdown fails.
	return out
}

// asKept returns a conversation as its readers see it.
func (n *node) asKept(at conversation.Address) keptConversation {
	n.w.tb.Helper()
	records := n.w.records(at)
	head, err := n.rt.Reader().Head(context.Background(), at)
	if err != nil {
		n.w.tb.Fatal(err)
	}
	settled := len(only[*conversation.SubmissionSettled](records))
	return keptConversation{
		At: at, Head: head, Chunks: n.chunksUpTo(at, head), Settled: settled,
		Owed: len(only[*conversation.SubmissionAdmitted](records)) - settled,
	}
}

// untilContains waits until a log contains text.
func (w *world) untilContains(at conversation.Address, text string) {
	w.tb.Helper()
	w.until(text+" of "+at.ID, func() bool { return strings.Contains(w.lines(at), text) })
}

// keptAttachment sends a picture to the model.
func (w *world) keptAttachment(n *node) {
	w.tb.Helper()
	data := []byte("\x89PNG of nothing")
	sum := sha256.Sum256(data)
	digest := hex.EncodeToString(sum[:])
	blob := conversation.Blob{Content: bytes.NewReader(data), Size: int64(len(data)), Digest: digest}
	if err := n.rt.Stage(context.Background(), chat("attached"), blob); err != nil {
		w.tb.Fatal(err)
	}
	m := message(chat("attached"), "aa", "What is this?")
	m.Delivery.Attachments = []conversation.Attachment{{SHA256: digest, Size: blob.Size, MimeType: "image/png", Filename: "b.png"}}
	n.accept(m)
	w.untilSettled(chat("attached"), 1)
}

// keptSink accepts all events or none.
type keptSink struct {
	takes bool

	mu sync.Mutex
	n  int
}

func (s *keptSink) Name() string { return "kept" }

func (s *keptSink) Write(_ context.Context, events []observability.Event) error {
	if !s.takes {
		return errors.New("the sink is away")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n += len(events)
	return nil
}

func (s *keptSink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}
