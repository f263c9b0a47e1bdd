package storage_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/storagetest"
)

func exportJournal(n int64, convs ...string) storage.ExportJournal {
	j := storage.ExportJournal{Member: "node-1_01JD", Shard: 1, Shards: 64, N: n}
	for i, c := range convs {
		j.Entries = append(j.Entries, storage.ExportEntry{Conv: keyOf(c), Seq: int64(i) - 1})
	}
	return j
}

var exportKind = journalKind[storage.ExportJournal]{exportJournal, storage.EncodeExportJournal, storage.DecodeExportJournal}

func TestExportJournalRoundTrip(t *testing.T) {
	exportKind.roundTrip(t, `{"v":8,"member":"node-1_01JD","shard":1,"shards":64,"n":9,"count":1}`+"\n"+
		fmt.Sprintf(`{"conv":"%s","seq":-1}`, keyOf("x"))+"\n")
	key := storage.ExportJournalKey("m", 3, 12)
	if key != "export/m/3/0000000000000012" {
		t.Errorf("got key %s", key)
	}
	name, err := storage.ParseKey(key)
	if diff := cmp.Diff(storage.ObjectName{Kind: storage.KindExport, Member: "m", Shard: 3, First: 12}, name); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestExportJournalIsStrict(t *testing.T) {
	exportKind.strict(t, map[string]func(*storage.ExportJournal){
		"no member":     func(j *storage.ExportJournal) { j.Member = "" },
		"member a path": func(j *storage.ExportJournal) { j.Member = "a/b" },
		"shard":         func(j *storage.ExportJournal) { j.Shard = 64 },
		"number":        func(j *storage.ExportJournal) { j.N = -1 },
		"conversation":  func(j *storage.ExportJournal) { j.Entries[0].Conv = "xyz" },
		"entry number":  func(j *storage.ExportJournal) { j.Entries[0].Seq = -2 },
	}, map[string][2]string{
		"version":         {`"v":8`, `"v":9`},
		"count":           {`"count":1`, `"count":0`},
		"shard":           {`"shard":1`, `"shard":64`},
		"number of entry": {`"seq":-1`, `"seq":-2`},
	})
}

func FuzzDecodeExportJournal(f *testing.F) {
	exportKind.fuzz(f, "{\"v\":8,\"member\":\"m\",\"shards\":64}\n",
		"{\"v\":8,\"member\":\"m\",\"shards\":64,\"count\":1}\n{\"conv\":\"00112233445566778899aabbccddeeff\",\"seq\":7}\n")
}

// TestExportJournalsAreTheirOwn checks that neither kind of journal is taken for the other.
func TestExportJournalsAreTheirOwn(t *testing.T) {
	b := memory(t)
	w := storage.NewJournalWriter(b)
	for _, n := range []int64{3, 11, 2} {
		j := exportJournal(n, "x")
		if err := w.WriteExport(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Write(t.Context(), journal(7, "x")); err != nil {
		t.Fatal(err)
	}
	key := func(n int64) string { return storage.ExportJournalKey("node-1_01JD", 1, n) }
	want := []storage.JournalRef{{Member: "node-1_01JD", Shard: 1, N: 11, Keys: []string{key(2), key(3), key(11)}}}
	got, err := storage.ExportJournals(t.Context(), b)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Fatalf("%v (-want +got):\n%s", err, diff)
	}
	if busy, err := storage.Journals(t.Context(), b); err != nil || len(busy) != 1 || busy[0].N != 7 {
		t.Errorf("pending-work journals: %+v, %v", busy, err)
	}
	j, err := storage.ReadExportJournal(t.Context(), b, "node-1_01JD", 1, 3)
	if diff := cmp.Diff(exportJournal(3, "x"), j); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := storage.ReadExportJournal(t.Context(), b, "node-1_01JD", 1, 7); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("absent: %v", err)
	}
	if err := storage.DeleteExportJournal(t.Context(), b, []string{key(2), storage.JournalKey("node-1_01JD", 7)}); !errors.Is(err, storage.ErrRefused) {
		t.Errorf("delete of a pending-work journal: %v, want ErrRefused", err)
	}
	if err := storage.DeleteJournal(t.Context(), b, []string{key(2)}); !errors.Is(err, storage.ErrRefused) {
		t.Errorf("delete of an export journal: %v, want ErrRefused", err)
	}
	if err := storage.DeleteExportJournal(t.Context(), b, []string{key(2), key(3)}); err != nil {
		t.Fatal(err)
	}
	if got, err = storage.ExportJournals(t.Context(), b); err != nil || !slices.Equal(got[0].Keys, []string{key(11)}) {
		t.Errorf("after the delete: %+v, %v", got, err)
	}
}

func TestWriteExportResolves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := faults(memory(t), "PUT", storagetest.LostAck, storagetest.ErrorBefore)
		w := storage.NewJournalWriter(b)
		if err := w.WriteExport(t.Context(), exportJournal(1, "x")); err != nil {
			t.Fatal(err)
		}
		if err := w.WriteExport(t.Context(), exportJournal(1, "x", "y")); !errors.Is(err, storage.ErrExists) {
			t.Errorf("other content under the key: %v, want exists", err)
		}
	})
}

func TestExportShards(t *testing.T) {
	seen := map[int]int{}
	for i := range 2000 {
		n := storage.ExportShard(keyOf(fmt.Sprint(i)))
		if n < 0 || n >= storage.ExportShards {
			t.Fatalf("got shard %d", n)
		}
		seen[n]++
	}
	if len(seen) != storage.ExportShards {
		t.Errorf("2000 conversations have %d shards", len(seen))
	}
}

// TestCheckpointHasExportPosition checks that no sink, nothing exported and an exported batch are
// distinct.
func TestCheckpointHasExportPosition(t *testing.T) {
	none, some := int64(-1), int64(2)
	for _, exported := range []*int64{nil, &none, &some} {
		c := newCheckpointed(t)
		c.want.Exported = exported
		c.put()
		got, err := c.logs.Checkpoint(t.Context(), c.conv)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(exported, got.Exported); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	c := newCheckpointed(t)
	below := int64(-2)
	c.want.Exported = &below
	if err := c.logs.PutCheckpoint(t.Context(), c.conv, &c.want, nil); err == nil {
		t.Error("a position before the start was stored")
	}
}
