package actors_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
	"github.com/parleyrun/parley/storage/storagetest"
)

// batchesPerTurn is typical for a reply of a few seconds.
const batchesPerTurn = 50

// grown writes the log of settled turns, about n batches, as a runtime does. A node opens it once,
// stores a checkpoint, and merges the rest into segments.
func (w *world) grown(at conversation.Address, n int) {
	w.tb.Helper()
	if err := storage.EnsureFormat(context.Background(), w.bucket); err != nil {
		w.tb.Fatal(err)
	}
	writer := w.logs.Writer(at.Key(), "first", storage.Start(), 0)
	put := func(records ...conversation.Record) {
		lines, err := conversation.EncodeRecords(nil, records)
		if err == nil {
			_, err = writer.Append(context.Background(), lines, 1)
		}
		if err != nil {
			w.tb.Fatal(err)
		}
	}
	per := min(batchesPerTurn, n)
	for i := range max(1, n/per) {
		sub, user, reply, turn := conversation.SubmissionID(fmt.Sprint("sub_", i)), conversation.MessageID(fmt.Sprint("msg_u", i)),
			conversation.MessageID(fmt.Sprint("msg_a", i)), conversation.TurnID(fmt.Sprint("turn_", i))
		var records []conversation.Record
		if i == 0 {
			records = append(records, &conversation.ConversationCreated{Agent: at.Agent, ID: at.ID, UID: "inst_1", ConversationID: "conv_1"})
		}
		adm := message(at, fmt.Sprint(i), "Go on.")
		hash, err := adm.PayloadHash()
		if err != nil {
			w.tb.Fatal(err)
		}
		put(append(records,
			&conversation.SubmissionAdmitted{Submission: sub, Message: user, Key: adm.Key, PayloadHash: hash, Delivery: adm.Delivery},
			&conversation.AttemptStarted{Submission: sub, Attempt: 1, Writer: "first"},
			&conversation.ResponseStarted{Message: reply, Submission: sub, Turn: turn, Model: spec})...)
		for k := range per - 2 {
			put(&conversation.Delta{Message: reply, Kind: conversation.PartText, Text: fmt.Sprintf("and the %d. thing ", k)})
		}
		put(&conversation.StepCompleted{Message: reply, Turn: turn, StopReason: "stop"},
			&conversation.SubmissionSettled{Submission: sub, Outcome: conversation.OutcomeCompleted})
	}
	opts := agents(chatAgent())
	opts.AdmitTimeout, opts.DrainTimeout = patience, patience // It folds the whole log; later openings start from its first checkpoint.
	node := w.start(setup{opts: opts, model: replies("ok")})
	node.admit(at, "last", "hello")
	w.untilSettled(at, max(1, n/per)+1)
	if err := node.stop(); err != nil {
		w.tb.Fatal(err)
	}
}

// open decides an admission at a node that has not opened the conversation.
func (n *node) open(tb testing.TB, at conversation.Address) {
	tb.Helper()
	if _, err := n.rt.Precheck(context.Background(), message(at, "new", "hello")); err != nil {
		tb.Fatal(err)
	}
}

// TestOpeningCostsTheSame counts the requests until an admission can be decided, and those of a read
// at the end of the log, for short and long logs.
func TestOpeningCostsTheSame(t *testing.T) {
	// maximum distance from the newest checkpoint to the end after a graceful shutdown
	const tail = 8
	for _, n := range sample.Of([]int{10, 1000, 5000}, []int{10, 1000}) {
		w := newWorld(t)
		w.grown(chat("c"), n)
		node := w.start(setup{opts: agents(chatAgent()), model: replies("ok")})
		node.counts.Reset()
		node.open(t, chat("c"))
		// The newest checkpoint, its reference, one LIST, and the tail behind it.
		bill{get(storagetest.Ckpt): 2, list(storagetest.Log): 1, get(storagetest.Log): tail}.
			check(t, fmt.Sprintf("opening %d batches", n), node.counts.Counts())
		_, head := node.updates(chat("c"), conversation.Offset(n-1))
		node.counts.Reset()
		if _, err := node.rt.Reader().Updates(t.Context(), chat("c"), head-1, 10); err != nil {
			t.Fatal(err)
		}
		bill{list(storagetest.Seg): 1, get(storagetest.Log): 1}.check(t, fmt.Sprintf("the end of %d batches", n), node.counts.Counts())
		node.counts.Reset()
		if _, err := node.rt.Reader().Updates(t.Context(), chat("c"), conversation.Offset(n/2), 1); err != nil {
			t.Fatal(err)
		}
		bill{list(storagetest.Seg): 1, get(storagetest.Seg): 2, get(storagetest.Log): 1}.
			check(t, fmt.Sprintf("the middle of %d batches", n), node.counts.Counts())
	}
}

// BenchmarkOpen measures the time until an admission can be decided, by log length, on a running node
// without the conversation in memory.
func BenchmarkOpen(b *testing.B) {
	const shed = time.Millisecond
	for _, n := range []int{10, 1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			store, err := local.Open(b.TempDir(), nil)
			if err != nil {
				b.Fatal(err)
			}
			w := newWorldOver(b, store)
			w.grown(chat("c"), n)
			opts := agents(chatAgent())
			opts.UnloadAfter, opts.EvictAfter = shed, shed
			node := w.start(setup{opts: opts, model: replies("ok")})
			node.open(b, chat("c"))
			var total time.Duration
			for range b.N {
				b.StopTimer()
				time.Sleep(10 * shed)
				b.StartTimer()
				began := time.Now()
				node.open(b, chat("c"))
				total += time.Since(began)
			}
			b.ReportMetric(float64(total.Microseconds())/float64(b.N), "us/open")
		})
	}
}
