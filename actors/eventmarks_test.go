package actors_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/conversation/feed"
	"github.com/parleyrun/parley/storage"
)

// marksOf returns the marks of the newest checkpoint, and whether it has any.
func (w *world) marksOf(t testing.TB, at conversation.Address) (feed.Marks, bool) {
	t.Helper()
	c, err := storage.NewLogs(w.bucket, nil).Checkpoint(t.Context(), at.Key())
	if err != nil || c == nil {
		t.Fatalf("got checkpoint %v, %v", c, err)
	}
	marks, err := feed.ParseMarks(c.Events)
	if err != nil {
		t.Fatal(err)
	}
	return marks, c.Events != nil
}

// streamed returns the events of a conversation and their marks, made from its log.
func (w *world) streamed(t testing.TB, at conversation.Address) (events []json.RawMessage, marks feed.Marks) {
	t.Helper()
	p := new(feed.Projector)
	for b, err := range storage.NewLogs(w.bucket, nil).Batches(t.Context(), at.Key(), storage.Start()) {
		if err != nil {
			t.Fatal(err)
		}
		records, err := conversation.DecodeRecords(b.Lines)
		if err == nil {
			err = p.Apply(records, func(e feed.Event) { events = append(events, e.JSON) })
		}
		if err != nil {
			t.Fatal(err)
		}
		marks.Note(b.Seq, p)
	}
	return events, marks
}

// TestEventMarksWithOlderNode: a node without event streams writes checkpoints without marks, or
// keeps existing ones. The next node with event streams rebuilds them from the log, and readers always
// see one stream.
// covers: beta/90
func TestEventMarksWithOlderNode(t *testing.T) {
	w := newWorld(t)
	at, sent := chat("c"), 0
	run := func(streams bool, turns int) {
		opts := agents(chatAgent())
		opts.CheckpointBatches, opts.EventStreams = 8, streams
		n := w.start(setup{opts: opts, model: remembers()})
		for range turns {
			n.admit(at, fmt.Sprint(sent), "hello")
			sent++
			w.untilSettled(at, sent)
		}
		wantStream(t, w, n, at)
		if err := n.stop(); err != nil {
			t.Error(err)
		}
	}
	run(false, 12)
	if marks, there := w.marksOf(t, at); there {
		t.Fatalf("got marks %+v from a node without streams", marks)
	}
	run(true, 6)
	made, _ := w.marksOf(t, at)
	_, want := w.streamed(t, at)
	if diff := cmp.Diff(want, made, ignoreVersion()); diff != "" || len(made.List) < 3 {
		t.Fatalf("marks of the whole log (-want +got):\n%s", diff)
	}
	run(false, 6)
	kept, _ := w.marksOf(t, at)
	if diff := cmp.Diff(made, kept); diff != "" {
		t.Fatalf("marks kept by a node without streams (-want +got):\n%s", diff)
	}
	run(true, 1)
	again, _ := w.marksOf(t, at)
	if _, want = w.streamed(t, at); !cmp.Equal(want, again, ignoreVersion()) {
		t.Errorf("marks of the longer log (-want +got):\n%s", cmp.Diff(want, again, ignoreVersion()))
	}
}

// ignoreVersion makes built marks comparable with read ones.
func ignoreVersion() cmp.Option {
	return cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "Version" }, cmp.Ignore())
}

// wantStream reads the stream of a conversation in pages and compares it with its log.
func wantStream(t *testing.T, w *world, n *node, at conversation.Address) {
	t.Helper()
	want, _ := w.streamed(t, at)
	reader := n.rt.Reader().(conversation.EventReader)
	var got []json.RawMessage
	for after, ended := int64(-1), false; !ended; {
		page, err := reader.Events(t.Context(), at, after, 50)
		if err != nil {
			t.Fatal(err)
		}
		var list []json.RawMessage
		if err := json.Unmarshal(page.JSON, &list); err != nil {
			t.Fatal(err)
		}
		got, after, ended = append(got, list...), page.Next, page.UpToDate
	}
	if len(got) < len(want) { // the log may grow by batches that settle nothing
		t.Fatalf("got %d events, want %d", len(got), len(want))
	}
	for i := range want {
		if string(want[i]) != string(got[i]) {
			t.Fatalf("event %d: got %s, want %s", i, got[i], want[i])
		}
	}
}
