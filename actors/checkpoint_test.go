package actors_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/storagetest"
)

// remembers is a model that answers with the number of messages in its prompt, and with enough text to
// fill pages.
func remembers() script {
	return func(_ context.Context, req providers.Request, a *providers.Assembler) error {
		a.Text(fmt.Sprintf("%d messages", len(req.Messages)))
		a.Text(strings.Repeat(" and more", 500))
		a.Finish(providers.Done{StopReason: providers.StopStop})
		return nil
	}
}

// longTurns is the number of turns of a long conversation whose node was stopped gracefully; longPage
// is its page size.
var longTurns, longPage = sample.Of(130, 30), sample.Of(0, 24<<10)

// longObjects are the objects of that conversation, which is created once.
var longObjects struct {
	once sync.Once
	all  map[string][]byte
}

// longConversation copies that conversation into a world without nodes.
func longConversation(t *testing.T, w *world) {
	t.Helper()
	longObjects.once.Do(func() { longObjects.all = makeLong(t, newWorld(t)) })
	for key, object := range longObjects.all {
		if err := w.bucket.Create(t.Context(), key, storage.Bytes(object)); err != nil {
			t.Fatal(err)
		}
	}
}

func makeLong(t *testing.T, w *world) map[string][]byte {
	t.Helper()
	opts := agents(chatAgent())
	opts.CheckpointBatches = 8
	n := w.start(setup{opts: opts, model: remembers(), page: longPage})
	for i := range longTurns {
		n.admit(chat("c"), fmt.Sprint(i), "hello")
		if i%10 == 9 {
			w.untilSettled(chat("c"), i+1)
		}
	}
	if err := n.stop(); err != nil {
		t.Error(err)
	}
	for _, part := range []string{"/head", "/ckpt/", "/page/"} {
		if len(w.keysWith(part)) == 0 {
			t.Fatalf("no object %s in %v", part, w.keysWith("/"))
		}
	}
	all := map[string][]byte{}
	for key := range w.listing() {
		object, err := w.bucket.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		all[key] = object
	}
	return all
}

// keysWith returns the keys of the bucket that contain text.
func (w *world) keysWith(text string) []string {
	var out []string
	for k := range w.listing() {
		if strings.Contains(k, text) {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}

// folded returns the snapshot folded from the log alone.
func (w *world) folded(at conversation.Address) string {
	w.tb.Helper()
	s := conversation.NewStateHolding(math.MaxInt)
	for i, records := range w.batches(at) {
		if err := s.Apply(conversation.Batch{Offset: conversation.Offset(i), Records: records}); err != nil {
			w.tb.Fatal(err)
		}
	}
	b, err := conversation.EncodeJSON(s.Snapshot())
	if err != nil {
		w.tb.Fatal(err)
	}
	return string(b)
}

// checkLong continues a long conversation and compares its snapshot with the log.
func checkLong(t *testing.T, w *world, n *node) {
	t.Helper()
	shown := func() string {
		page, err := n.rt.Reader().Snapshot(t.Context(), chat("c"))
		if err != nil {
			t.Fatal(err)
		}
		return string(page.JSON)
	}
	if diff := cmp.Diff(w.folded(chat("c")), shown()); diff != "" {
		t.Errorf("snapshot (-log +got):\n%s", diff)
	}
	again := n.admit(chat("c"), "0", "hello")
	if !again.Deduplicated || again.Offset != 0 {
		t.Errorf("got replay of the first message %+v", again)
	}
	if _, err := n.rt.Wait(t.Context(), chat("c"), n.admit(chat("c"), "next", "and now?")); err != nil {
		t.Fatal(err)
	}
	w.untilSettled(chat("c"), longTurns+1)
	want := fmt.Sprintf("%d messages and", 2*longTurns+1)
	messages := n.snapshot(chat("c")).Messages
	if text := *messages[len(messages)-1].Parts[0].Text; !strings.HasPrefix(text, want) {
		t.Errorf("got reply %.60q, want %q", text, want)
	}
	if diff := cmp.Diff(w.folded(chat("c")), shown()); diff != "" {
		t.Errorf("snapshot after the turn (-log +got):\n%s", diff)
	}
}

// TestOpeningALongConversation costs as much as opening a short one.
func TestOpeningALongConversation(t *testing.T) {
	w := newWorld(t)
	longConversation(t, w)
	n := w.start(setup{opts: agents(chatAgent()), model: remembers(), page: longPage})
	n.counts.Reset()
	if _, err := n.rt.Precheck(t.Context(), message(chat("c"), "new", "hello")); err != nil {
		t.Fatal(err)
	}
	opening := n.counts.Counts()
	bill{get(storagetest.Ckpt): 2, list(storagetest.Log): 1, get(storagetest.Log): 2}.check(t, "opening", opening)
	n.counts.Reset()
	if _, err := n.rt.Reader().Snapshot(t.Context(), chat("c")); err != nil {
		t.Fatal(err)
	}
	pages := len(w.keysWith("/page/"))
	bill{get(storagetest.Ckpt): 2 + pages, list(storagetest.Log): 1, get(storagetest.Log): 2}.check(t, "snapshot", n.counts.Counts())
	checkLong(t, w, n)
}

// TestCheckpointIsNeverTrusted corrupts each kind of object of a checkpoint: the conversation
// continues from its log.
func TestCheckpointIsNeverTrusted(t *testing.T) {
	for _, part := range []string{"/head", "/ckpt/", "/page/"} {
		for name, corrupt := range map[string]func(w *world, key string) error{
			"gone": func(w *world, key string) error { return w.bucket.Delete(context.Background(), key) },
			"garbage": func(w *world, key string) error {
				return w.bucket.Put(context.Background(), key, storage.Bytes([]byte("garbage")))
			},
		} {
			t.Run(strings.Trim(part, "/")+" "+name, func(t *testing.T) {
				w := newWorld(t)
				longConversation(t, w)
				for _, key := range w.keysWith(part) {
					if err := corrupt(w, key); err != nil {
						t.Fatal(err)
					}
				}
				checkLong(t, w, w.start(setup{opts: agents(chatAgent()), model: remembers(), page: longPage}))
			})
		}
	}
}

// TestCheckpointAheadOfTheLog: a checkpoint of batches that no longer exist, as after a restore from a
// backup, is ignored.
func TestCheckpointAheadOfTheLog(t *testing.T) {
	w := newWorld(t)
	longConversation(t, w)
	logs := w.keysWith("/log/")
	for _, key := range logs[len(logs)-20:] {
		if err := w.bucket.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	n := w.start(setup{opts: agents(chatAgent()), model: remembers(), page: longPage})
	n.admit(chat("c"), "next", "and now?")
	w.until("the answer", func() bool {
		return len(only[*conversation.SubmissionSettled](w.records(chat("c")))) == len(only[*conversation.SubmissionAdmitted](w.records(chat("c"))))
	})
	page, err := n.rt.Reader().Snapshot(t.Context(), chat("c"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(w.folded(chat("c")), string(page.JSON)); diff != "" {
		t.Errorf("snapshot (-log +got):\n%s", diff)
	}
}

func TestCheckpointOptions(t *testing.T) {
	w := newWorld(t)
	if _, err := actors.New(w.bucket, &actors.Options{CheckpointBatches: -1}); err == nil {
		t.Error("negative batches were accepted")
	}
}

// benchLong creates a conversation of many short turns and stops its node.
func benchLong(b *testing.B, w *world, turns int) {
	n := w.start(setup{opts: agents(chatAgent()), model: emits(20)})
	for i := range turns {
		settleOn(b, n, chat("c"), n.admit(chat("c"), fmt.Sprint(i), "hello").Offset)
	}
	if err := n.stop(); err != nil {
		b.Error(err)
	}
}

// BenchmarkFirstSnapshot measures the first read of a conversation after a restart.
func BenchmarkFirstSnapshot(b *testing.B) {
	for _, turns := range []int{10, 1000} {
		b.Run(fmt.Sprint(turns), func(b *testing.B) {
			w := newWorld(b)
			benchLong(b, w, turns)
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				n := w.start(setup{opts: agents(chatAgent()), model: emits(20)})
				b.StartTimer()
				if _, err := n.rt.Reader().Snapshot(b.Context(), chat("c")); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := n.stop(); err != nil {
					b.Error(err)
				}
				b.StartTimer()
			}
		})
	}
}

// BenchmarkTurnAfter measures a short turn of a conversation with n earlier turns.
func BenchmarkTurnAfter(b *testing.B) {
	for _, turns := range []int{10, 1000} {
		b.Run(fmt.Sprint(turns), func(b *testing.B) {
			w := newWorld(b)
			benchLong(b, w, turns)
			n := w.start(setup{opts: agents(chatAgent()), model: emits(20)})
			i := 0
			for b.Loop() {
				settleOn(b, n, chat("c"), n.admit(chat("c"), fmt.Sprint("b", i), "hello").Offset)
				i++
			}
			b.StopTimer()
			if err := n.stop(); err != nil {
				b.Error(err)
			}
		})
	}
}
