package inspect_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/inspect"
)

// number formats a number of a key.
func number(n int64) string { return fmt.Sprintf("%016d", n) }

// corruption is one way to corrupt a world.
type corruption struct {
	name string
	do   func(w *world)
	want []string // findings of verify; keys that depend on digests end in "*"
	kept []string // findings that remain after a repair; corruption is rejected together with the rest
}

func log(n int64) string { return "log/" + number(n) }

func seg(first, last int64) string { return "seg/" + number(last) + "-" + number(first) }

func batchCorruptions() []corruption {
	return []corruption{
		{name: "batch in no segment flipped", do: func(w *world) { w.flip(w.log(31)) },
			want: []string{"damage unreadable-batch " + log(31)}},
		{name: "batch in no segment cut off", do: func(w *world) { w.cut(w.log(31)) },
			want: []string{"damage unreadable-batch " + log(31)}},
		{name: "batch in no segment deleted", do: func(w *world) { w.delete(w.log(31)) },
			want: []string{"damage gap " + log(31)}},
		{name: "highest batch flipped", do: func(w *world) { w.flip(w.log(35)) },
			want: []string{"damage unreadable-batch " + log(35)}},
		{name: "highest batches deleted", do: func(w *world) { w.delete(w.log(35)); w.delete(w.log(34)) },
			want: []string{"damage missing-tail ckpt/" + number(35) + "-*"}},
		{name: "all after the segments deleted", do: func(w *world) {
			for seq := int64(30); seq <= 35; seq++ {
				w.delete(w.log(seq))
			}
		}, want: []string{"damage journal pending/m1/0/" + number(3), "damage missing-tail ckpt/" + number(35) + "-*", "damage missing-tail " + log(30)}},
		{name: "batch of another number", do: func(w *world) { w.put(w.log(31), w.get(w.log(30))) },
			want: []string{"damage unreadable-batch " + log(31)}},
		{name: "batch of another chain", do: func(w *world) {
			w.batch(storage.Header{Seq: 31, Nonce: "n3", Prev: storage.Hash{1}}, "")
		}, want: []string{"damage chain " + log(31), "damage chain " + log(32)}},
		{name: "leftover flipped", do: func(w *world) { w.flip(w.log(20)) }, want: []string{"repairable unreadable-batch " + log(20)}},
		{name: "leftover cut off", do: func(w *world) { w.cut(w.log(18)) }, want: []string{"repairable unreadable-batch " + log(18)}},
		{name: "leftover deleted", do: func(w *world) { w.delete(w.log(20)) }},
		{name: "pin flipped", do: func(w *world) { w.flip(w.log(12)) }, want: []string{"repairable unreadable-batch " + log(12)}},
		{name: "first pin cut off", do: func(w *world) { w.cut(w.log(0)) }, want: []string{"repairable unreadable-batch " + log(0)}},
		{name: "pin deleted", do: func(w *world) { w.delete(w.log(12)) }, want: []string{"damage missing-pin " + log(12)}},
		{name: "pin replaced", do: func(w *world) {
			w.batch(storage.Header{Seq: 12, Nonce: "late", First: true, Prev: w.batches(11, 11)[0].Hash}, "")
		}, want: []string{"damage foreign-batch " + log(12)}},
		{name: "late claim", do: func(w *world) {
			w.batch(storage.Header{Seq: 15, Nonce: "late", First: true, Prev: w.batches(14, 14)[0].Hash}, "")
		}, want: []string{"note orphan-batch " + log(15)}},
		{name: "late claim of another chain", do: func(w *world) {
			w.batch(storage.Header{Seq: 15, Nonce: "late", First: true, Prev: storage.Hash{7}}, "")
		}, want: []string{"note orphan-batch " + log(15)}},
		{name: "late batch that is no claim", do: func(w *world) {
			w.batch(storage.Header{Seq: 20, Nonce: "n2", Prev: w.batches(19, 19)[0].Hash}, "{\"type\":\"x\"}\n")
		}, want: []string{"damage foreign-batch " + log(20)}},
		{name: "foreign key in the log", do: func(w *world) { w.put(storage.FolderOf(w.conv)+"log/31", []byte("x")) },
			want: []string{"damage foreign-key log/31"}},
	}
}

func segmentCorruptions() []corruption {
	return []corruption{
		{name: "last segment flipped", do: func(w *world) { w.flip(w.seg(23, 29)) },
			want: []string{"damage gap " + log(23), "damage gap " + log(25), "damage unreadable-segment " + seg(23, 29)}},
		{name: "middle segment cut off", do: func(w *world) { w.cut(w.seg(11, 22)) },
			want: []string{"damage gap " + log(11), "damage gap " + log(13), "damage unreadable-segment " + seg(11, 22)}},
		{name: "middle segment deleted", do: func(w *world) { w.delete(w.seg(11, 22)) },
			want: []string{"damage gap " + log(11), "damage gap " + log(13)}},
		{name: "segment with a wrong number", do: func(w *world) {
			w.put(w.seg(11, 21), w.get(w.seg(11, 22)))
			w.delete(w.seg(11, 22))
		}, want: []string{"damage gap " + log(11), "damage gap " + log(13), "damage unreadable-segment " + seg(11, 21)}},
		{name: "foreign key among the segments", do: func(w *world) { w.put(storage.FolderOf(w.conv)+"seg/x", []byte("x")) },
			want: []string{"damage foreign-key seg/x"}},
		{name: "segment of another history", do: func(w *world) {
			var other []storage.Batch
			prev := w.batches(29, 29)[0].Hash
			prev[0]++
			for seq := int64(30); seq < 33; seq++ {
				h := storage.Header{Version: storage.SchemaVersion, Seq: seq, Nonce: "n3", Prev: prev}
				prev = h.Chain(nil)
				other = append(other, storage.Batch{Header: h, Hash: prev})
			}
			w.segment(w.seg(30, 32), other)
		}, want: []string{"damage unreadable-segment " + seg(30, 32)}},
		{name: "merged with its parts left", do: func(w *world) { w.segment(w.seg(0, 22), w.batches(0, 22)) },
			want: []string{"note duplicate-segment " + seg(0, 10), "note duplicate-segment " + seg(11, 22)}},
		{name: "merged with a damaged part left", do: func(w *world) {
			w.segment(w.seg(0, 22), w.batches(0, 22))
			w.flip(w.seg(0, 10))
			w.delete(w.seg(11, 22))
		}, want: []string{"repairable duplicate-segment " + seg(0, 10)}},
		{name: "damaged merged with its parts left", do: func(w *world) {
			w.segment(w.seg(0, 22), w.batches(0, 22))
			w.cut(w.seg(0, 22))
		}, want: []string{"repairable duplicate-segment " + seg(0, 22)}},
		{name: "segments overlap", do: func(w *world) {
			w.segment(w.seg(5, 17), w.batches(5, 17))
		}, want: []string{"note duplicate-segment " + seg(5, 17)}},
		{name: "overlapping segments are needed", do: func(w *world) {
			w.segment(w.seg(5, 25), w.batches(5, 25))
			w.delete(w.seg(11, 22))
		}},
	}
}

func checkpointCorruptions() []corruption {
	ckpt := func(n int64) string { return "ckpt/" + number(n) + "-*" }
	first := func(folder string, n int) func(w *world) string {
		return func(w *world) string { return w.under(folder)[n] }
	}
	older, newer, page := first("ckpt/", 0), first("ckpt/", 1), first("page/", 1)
	head := func(w *world) string { return storage.HeadKey(w.conv) }
	return []corruption{
		{name: "head deleted", do: func(w *world) { w.delete(head(w)) }, want: []string{"repairable lost-head head"}},
		{name: "head cut off", do: func(w *world) { w.cut(head(w)) }, want: []string{"repairable lost-head head"}},
		{name: "killed before the first head", do: func(w *world) {
			w.delete(head(w))
			w.delete(older(w))
		}, want: []string{
			"note orphan-checkpoint " + ckpt(35), "note orphan-page page/" + number(0) + "-*", "note orphan-page page/" + number(1) + "-*"}},
		{name: "head and checkpoints deleted", do: func(w *world) {
			for _, key := range append(w.under("ckpt/"), head(w)) {
				w.delete(key)
			}
		}, want: []string{"note orphan-page page/" + number(0) + "-*", "note orphan-page page/" + number(1) + "-*"}},
		{name: "newest checkpoint deleted", do: func(w *world) { w.delete(newer(w)) }, want: []string{"repairable lost-checkpoint " + ckpt(35)}},
		{name: "newest checkpoint flipped", do: func(w *world) { w.flip(newer(w)) }, want: []string{"repairable lost-checkpoint " + ckpt(35)}},
		{name: "older checkpoint flipped", do: func(w *world) { w.flip(older(w)) }, want: []string{"repairable lost-checkpoint " + ckpt(23)}},
		{name: "older checkpoint deleted", do: func(w *world) { w.delete(older(w)) }},
		{name: "checkpoint of another state", do: func(w *world) {
			c := *w.newest
			other := conversation.NewState()
			created := &conversation.ConversationCreated{Agent: w.at.Agent, ID: w.at.ID, UID: "inst_2", ConversationID: "conv_2", At: at}
			for seq := range conversation.Offset(36) {
				b := conversation.Batch{Offset: seq}
				if seq == 0 {
					b.Records = []conversation.Record{created}
				}
				check(w.t, other.Apply(b))
			}
			c.State, c.Pages = must(conversation.EncodeState(other))(w.t), nil
			check(w.t, w.logs.PutCheckpoint(context.Background(), w.conv, &c, nil))
		}, want: []string{"repairable lost-checkpoint " + ckpt(35)}},
		{name: "checkpoint of another chain", do: func(w *world) {
			c := *w.newest
			c.At.Hash[3]++
			c.State = must(conversation.EncodeState(w.state))(w.t)
			check(w.t, w.logs.PutCheckpoint(context.Background(), w.conv, &c, nil))
		}, want: []string{"repairable lost-checkpoint " + ckpt(35)}},
		{name: "head of a checkpoint that never was", do: func(w *world) {
			w.put(head(w), must(storage.EncodeHead(storage.Head{Seq: 30}))(w.t))
		}, want: []string{"repairable lost-checkpoint " + ckpt(30)}},
		{name: "page flipped", do: func(w *world) { w.flip(page(w)) }, want: []string{
			"note orphan-page page/" + number(0) + "-*", "note orphan-page page/" + number(1) + "-*",
			"repairable lost-checkpoint " + ckpt(23), "repairable lost-checkpoint " + ckpt(35)}},
		{name: "page deleted", do: func(w *world) { w.delete(page(w)) }, want: []string{
			"note orphan-page page/" + number(0) + "-*",
			"repairable lost-checkpoint " + ckpt(23), "repairable lost-checkpoint " + ckpt(35)}},
		{name: "stray page", do: func(w *world) { must(w.logs.PutPage(context.Background(), w.conv, 2, []byte("x\n")))(w.t) },
			want: []string{"note orphan-page page/" + number(2) + "-*"}},
		{name: "stray checkpoint", do: func(w *world) {
			headNow := w.get(head(w))
			w.checkpointAgain()
			w.put(head(w), headNow)
		}, want: []string{"note orphan-checkpoint " + ckpt(35)}},
	}
}

func otherCorruptions() []corruption {
	blob := func(w *world) string { return storage.BlobKey(w.conv, w.blob) }
	const journal = "pending/m1/0/"
	return []corruption{
		{name: "attachment flipped", do: func(w *world) { w.flip(blob(w)) }, want: []string{"damage attachment blob/*"}},
		{name: "attachment cut off", do: func(w *world) { w.cut(blob(w)) }, want: []string{"damage attachment blob/*"}},
		{name: "attachment deleted", do: func(w *world) { w.delete(blob(w)) }, want: []string{"damage attachment blob/*"}},
		{name: "attachment of no message", do: func(w *world) {
			check(w.t, storage.PutBlob(context.Background(), w.bucket, w.conv, storage.Bytes([]byte("lost race"))))
		}, want: []string{"note unreferenced-attachment blob/"}, kept: []string{"note unreferenced-attachment blob/"}},
		{name: "foreign key", do: func(w *world) { w.put(storage.FolderOf(w.conv)+"notes.txt", []byte("x")); w.put("x/y", []byte("x")) },
			want: []string{"note foreign-key notes.txt", "note foreign-key x/"}, kept: []string{"note foreign-key notes.txt", "note foreign-key x/"}},
		{name: "what nodes that died had under way", do: func(w *world) {
			w.put(storage.StagedKey("m2", "x"), []byte("{}"))
			w.put(storage.MigrationKey(string(w.conv), 1), []byte("{}"))
		}},

		{name: "journal flipped", do: func(w *world) { w.flip(journal + number(3)) }, want: []string{"damage journal " + journal + number(3)}},
		{name: "journal of another number", do: func(w *world) { w.put(journal+number(4), w.get(journal+number(3))) },
			want: []string{"damage journal " + journal + number(4)}},
		{name: "export journal flipped", do: func(w *world) { w.flip("export/m1/0/" + number(5)) },
			want: []string{"note export export/m1/0/*"}, kept: []string{"note export export/m1/0/*"}},
		{name: "stray export journal", do: func(w *world) { w.put("export/m1/soon", []byte("x")) },
			want: []string{"note foreign-key export/m1/soon"}, kept: []string{"note foreign-key export/m1/soon"}},
		{name: "epoch cut off", do: func(w *world) { w.cut(storage.EpochKey(1)) }, want: []string{"damage epoch members/" + number(1)}},
		{name: "stray heartbeat", do: func(w *world) {
			check(w.t, storage.PutHeartbeat(context.Background(), w.bucket, storage.Heartbeat{Member: "m0", Count: 1}))
		},
			want: []string{"note heartbeat heartbeat/m0"}, kept: []string{"note heartbeat heartbeat/m0"}},
		{name: "timer cut off", do: func(w *world) {
			timer := storage.Timer{Conv: w.conv, Seq: 3, Until: 60_000}
			check(w.t, storage.PutTimer(context.Background(), w.bucket, timer))
			w.cut(storage.TimerKey(timer))
		}, want: []string{"note timer timer/*"}, kept: []string{"note timer timer/*"}},
		{name: "quarantined", do: func(w *world) {
			must(storage.PutQuarantine(context.Background(), w.bucket, storage.Quarantine{Conv: w.conv, Why: "by hand"}))(w.t)
		}, want: []string{"note quarantine quarantine/*"}, kept: []string{"note quarantine quarantine/*"}},
		{name: "quarantined, nobody can tell why", do: func(w *world) { w.put(storage.QuarantineKey(w.conv), []byte("x")) },
			want: []string{"note quarantine quarantine/*"}, kept: []string{"note quarantine quarantine/*"}},
		{name: "stray timer", do: func(w *world) { w.put("timer/0/soon", []byte("x")) },
			want: []string{"note foreign-key timer/0/soon"}, kept: []string{"note foreign-key timer/0/soon"}},
		{name: "index entry flipped", do: func(w *world) { w.cut(storage.IndexKey(storage.IndexEntry{Address: w.at, Day: "2026-01-02"})) },
			want: []string{"damage index index/*"}},
		{name: "index entry of nothing", do: func(w *world) {
			check(w.t, w.logs.PutIndex(context.Background(), storage.IndexEntry{Address: conversation.Address{Agent: "assistant", ID: "gone"}, Day: "2026-01-02"}))
		}, want: []string{"damage index index/*"}},
		{name: "format deleted", do: func(w *world) { w.delete("format.json") }, want: []string{"damage format format.json"}},
		{name: "format of another version", do: func(w *world) { w.put("format.json", []byte(`{"schemaVersion":9,"minWriter":9}`)) },
			want: []string{"damage format format.json"}},
	}
}

// checkpointAgain stores the newest checkpoint with another day in it.
func (w *world) checkpointAgain() {
	c := *w.newest
	c.Indexed = "2026-01-03"
	c.State = must(conversation.EncodeState(w.state))(w.t)
	c.Tail = w.tail()
	check(w.t, w.logs.PutCheckpoint(context.Background(), w.conv, &c, nil))
}

// tail returns the tail of the newest checkpoint.
func (w *world) tail() []byte {
	return must(w.logs.Checkpoint(context.Background(), w.conv))(w.t).Tail
}

func TestWholeBucketIsClean(t *testing.T) {
	w := newWorld(t)
	var found []inspect.Finding
	sum, err := inspect.Verify(t.Context(), w.bucket, inspect.Scope{}, nil, func(f inspect.Finding) { found = append(found, f) })
	if err != nil || len(found) > 0 {
		t.Fatalf("found %v, %v", found, err)
	}
	want := inspect.Summary{
		Conversations: 1, Batches: 36, Segments: 3, Objects: 14, Pins: 3, Leftovers: 5, Checkpoints: 2, Pages: 2, Attachments: 1, Journals: 1,
	}
	if diff := cmp.Diff(want, sum); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
}

func fits(want, got []string) bool {
	return slices.EqualFunc(want, got, func(want, got string) bool {
		prefix, open := strings.CutSuffix(want, "*")
		return want == got || open && strings.HasPrefix(got, prefix)
	})
}

func TestEveryCorruption(t *testing.T) {
	for i, tt := range slices.Concat(batchCorruptions(), segmentCorruptions(), checkpointCorruptions(), otherCorruptions()) {
		if i%sample.Of(1, 4) != 0 {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			before := w.transcript()
			tt.do(w)
			if got := w.verify(inspect.Scope{}); !fits(tt.want, got) {
				t.Fatalf("verify found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
			corrupt := slices.ContainsFunc(tt.want, func(s string) bool { return strings.HasPrefix(s, "damage") })
			stored := w.objects("")
			w.repair(false, tt.want)
			if diff := cmp.Diff(stored, w.objects("")); diff != "" {
				t.Fatalf("dry run changed the bucket (-before +after):\n%s", diff)
			}
			w.repair(true, tt.want)
			if corrupt {
				if diff := cmp.Diff(stored, w.objects("")); diff != "" {
					t.Fatalf("rejected repair changed the bucket (-before +after):\n%s", diff)
				}
				return
			}
			if got := w.verify(inspect.Scope{}); !fits(tt.kept, got) {
				t.Errorf("after the repair, verify found\n%s", strings.Join(got, "\n"))
			}
			if after := w.transcript(); after != before {
				t.Errorf("transcript is\n%s\nit was\n%s", after, before)
			}
			if _, err := w.logs.Checkpoint(t.Context(), w.conv); err != nil {
				t.Errorf("checkpoint after the repair: %v", err)
			}
		})
	}
}

// repair repairs the bucket and checks the report.
func (w *world) repair(write bool, want []string) {
	w.t.Helper()
	var got []string
	counts := map[inspect.Outcome]int64{}
	sum, err := inspect.Repair(context.Background(), w.bucket, inspect.Scope{}, &inspect.RepairOptions{Write: write, Watch: time.Millisecond},
		func(a inspect.Action) {
			got = append(got, w.line(a.Finding))
			corruption := slices.ContainsFunc(want, func(s string) bool { return strings.HasPrefix(s, "damage") })
			o := inspect.Planned
			switch {
			case a.Severity == inspect.Note && !a.Leftover():
				o = inspect.Left
			case corruption:
				o = inspect.Refused
			case write:
				o = inspect.Done
			}
			counts[a.Outcome]++
			if a.Outcome != o || (a.Severity == inspect.Repairable || a.Leftover()) != (len(a.Steps) > 0) {
				w.t.Errorf("%s: %s, %q; want %s", w.line(a.Finding), a.Outcome, a.Steps, o)
			}
		})
	var format *storage.FormatError
	var epoch *storage.CorruptError
	if errors.As(err, &format) || errors.As(err, &epoch) && write {
		return
	}
	check(w.t, err)
	if sum.Planned != counts[inspect.Planned] || sum.Repaired != counts[inspect.Done] {
		w.t.Errorf("repair counts %d planned and %d repaired, and did %v", sum.Planned, sum.Repaired, counts)
	}
	if slices.Sort(got); !fits(want, got) {
		w.t.Errorf("repair found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestFindingsNameTheConversation takes the address from the log, or else a checkpoint, or else the
// index.
func TestFindingsNameTheConversation(t *testing.T) {
	for name, do := range map[string]func(w *world){
		"the log": func(w *world) { w.delete(w.log(33)) },
		"a checkpoint": func(w *world) {
			w.flip(w.log(0))
			w.flip(w.seg(0, 10))
			w.delete(storage.IndexKey(storage.IndexEntry{Address: w.at, Day: "2026-01-02"}))
		},
		"the index": func(w *world) {
			for _, folder := range []string{"ckpt/", "seg/"} {
				for _, key := range w.under(folder) {
					w.delete(key)
				}
			}
			w.flip(w.log(0))
		},
	} {
		w := newWorld(t)
		do(w)
		corruptions := 0
		_, err := inspect.Verify(t.Context(), w.bucket, inspect.Scope{Conv: w.conv}, nil, func(f inspect.Finding) {
			if f.Severity == inspect.Corruption {
				corruptions++
			}
			if f.Agent != w.at.Agent || f.ID != w.at.ID {
				t.Errorf("%s: a finding of %q, %q", name, f.Agent, f.ID)
			}
		})
		if check(t, err); corruptions == 0 {
			t.Errorf("%s: corruption was not found", name)
		}
	}
}

func TestVerifyOfNothing(t *testing.T) {
	w := newWorld(t)
	_, err := inspect.Verify(t.Context(), w.bucket, inspect.Scope{Conv: conversation.Address{Agent: "assistant", ID: "never"}.Key()}, nil, nil)
	if !errors.Is(err, inspect.ErrNoConversation) {
		t.Errorf("got %v", err)
	}
	if _, err := inspect.Verify(t.Context(), newBucket(t), inspect.Scope{}, nil, nil); err != nil {
		t.Errorf("an empty bucket: %v", err)
	}
}

func TestRepairRefusesServedBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.delete(storage.HeadKey(w.conv))
		stored := w.objects(storage.FolderOf(w.conv))
		beats, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for n := int64(8); beats.Err() == nil; n++ {
				_ = storage.PutHeartbeat(beats, w.bucket, storage.Heartbeat{Member: "m1", Count: n})
				time.Sleep(time.Second / 2)
			}
		}()
		opts := &inspect.RepairOptions{Write: true}
		_, err := inspect.Repair(t.Context(), w.bucket, inspect.Scope{}, opts, func(a inspect.Action) { t.Errorf("reports %+v", a) })
		var served *inspect.ServedError
		if !errors.As(err, &served) || served.Member.ID != "m1" || !strings.Contains(err.Error(), "stop every node") {
			t.Errorf("got %v", err)
		}
		if diff := cmp.Diff(stored, w.objects(storage.FolderOf(w.conv))); diff != "" {
			t.Errorf("changed (-before +after):\n%s", diff)
		}
		stop()
		<-ended
		if _, err := inspect.Repair(t.Context(), w.bucket, inspect.Scope{}, opts, func(inspect.Action) {}); err != nil {
			t.Errorf("after the stop: got %v", err)
		}
	})
}

func TestFindingIsJSON(t *testing.T) {
	w := newWorld(t)
	w.flip(w.log(20))
	_, err := inspect.Repair(t.Context(), w.bucket, inspect.Scope{Conv: w.conv}, nil, func(a inspect.Action) {
		line := string(must(json.Marshal(a))(t))
		for _, want := range []string{`"severity":"repairable"`, `"kind":"unreadable-batch"`, `"seq":20`, `"outcome":"planned"`, `"steps":["delete `} {
			if !strings.Contains(line, want) {
				t.Errorf("%s lacks %s", line, want)
			}
		}
	})
	check(t, err)
}

// TestPiecesOfAnOutput checks that a missing piece counts like a missing attachment.
func TestPiecesOfAnOutput(t *testing.T) {
	w := newWorld(t)
	var out conversation.StoredOutput
	var keys []string
	for _, text := range []string{"what a tool ", "has returned"} {
		body := storage.Bytes([]byte(text))
		check(t, storage.PutBlob(t.Context(), w.bucket, w.conv, body))
		out.Pieces = append(out.Pieces, conversation.StoredPiece{SHA256: storage.Digest(body.SHA256).String(), Size: body.Size})
		keys = append(keys, storage.BlobKey(w.conv, body.SHA256))
	}
	w.append(&conversation.SubmissionAdmitted{Submission: "sub_x", Message: "in_x", Key: "x", At: at},
		&conversation.AttemptStarted{Submission: "sub_x", Attempt: 1, Writer: string(w.writer.Nonce()), At: at},
		&conversation.ResponseStarted{Message: "msg_x", Submission: "sub_x", Turn: "turn_x", At: at},
		&conversation.ToolCalled{Message: "msg_x", Call: "call_x", Name: "look", Input: []byte("{}"), At: at},
		&conversation.OutputStored{Must: true, Call: "call_x", StoredOutput: out},
		&conversation.ToolSettled{Call: "call_x", Output: []byte(`"what a"`), At: at})
	if got := w.verify(inspect.Scope{}); len(got) > 0 {
		t.Errorf("found %q", got)
	}
	w.flip(keys[0])
	w.delete(keys[1])
	if want, got := []string{"damage attachment blob/*", "damage attachment blob/*"}, w.verify(inspect.Scope{}); !fits(want, got) {
		t.Errorf("found %q", got)
	}
}
