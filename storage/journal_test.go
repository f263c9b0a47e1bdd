package storage_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/storagetest"
)

func journal(n int64, convs ...string) storage.Journal {
	j := storage.Journal{Member: "node-1_01JD", N: n}
	for i, c := range convs {
		j.Entries = append(j.Entries, storage.JournalEntry{Conv: keyOf(c), Nonce: "n1", Seq: int64(i) - 1})
	}
	return j
}

// journalKind is one of the two kinds of journals, for their common tests.
type journalKind[J any] struct {
	of     func(n int64, convs ...string) J
	encode func(J) ([]byte, error)
	decode func([]byte) (J, error)
}

var busyKind = journalKind[storage.Journal]{journal, storage.EncodeJournal, storage.DecodeJournal}

// checkRoundTrip encodes and decodes a journal twice.
func (k journalKind[J]) checkRoundTrip(t *testing.T, j J) {
	t.Helper()
	data, err := k.encode(j)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	got, err := k.decode(data)
	if diff := cmp.Diff(j, got); err != nil || diff != "" {
		t.Fatalf("decode: %v (-want +got):\n%s", err, diff)
	}
}

// roundTrip checks the content of journal 9 with one conversation, and that it decodes to the same
// journal.
func (k journalKind[J]) roundTrip(t *testing.T, want string) {
	t.Helper()
	for _, j := range []J{k.of(0), k.of(9, "x"), k.of(1e16-1, "x", "y", "z")} {
		k.checkRoundTrip(t, j)
	}
	data, err := k.encode(k.of(9, "x"))
	if got := string(decompress(t, data)); err != nil || got != want {
		t.Errorf("object holds %s, %v; want %s", got, err, want)
	}
}

// strict checks that no changed journal can be encoded and no changed content decoded, and that
// unknown fields are ignored.
func (k journalKind[J]) strict(t *testing.T, changes map[string]func(*J), contents map[string][2]string) {
	t.Helper()
	for name, change := range changes {
		j := k.of(1, "x")
		change(&j)
		if _, err := k.encode(j); err == nil {
			t.Errorf("%s: encoded", name)
		}
	}
	data, err := k.encode(k.of(1, "x"))
	if err != nil {
		t.Fatal(err)
	}
	good := string(decompress(t, data))
	for name, content := range contents {
		if !strings.Contains(good, content[0]) {
			t.Errorf("%s: the content is %s", name, good)
		}
		if _, err := k.decode(compress(t, strings.Replace(good, content[0], content[1], 1))); err == nil {
			t.Errorf("%s: decoded", name)
		}
	}
	for name, content := range map[string]string{"cut": good[:len(good)-1], "entry": good + "x\n", "no header": ""} {
		if _, err := k.decode(compress(t, content)); err == nil {
			t.Errorf("%s: decoded", name)
		}
	}
	for _, last := range []string{`"count":1`, `"seq":-1`} {
		if _, err := k.decode(compress(t, strings.Replace(good, last, last+`,"new":[]`, 1))); err != nil {
			t.Errorf("unknown field: got error %v", err)
		}
	}
}

// fuzz checks that decoded content survives a round trip. contents are the seeds.
func (k journalKind[J]) fuzz(f *testing.F, contents ...string) {
	for i, j := range []J{k.of(0), k.of(3, "x", "y")} {
		data, err := k.encode(j)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, []byte(contents[i]))
		f.Add(data[:len(data)-3], []byte(contents[1-i]))
	}
	f.Fuzz(func(t *testing.T, data, content []byte) {
		for _, d := range [][]byte{data, compress(t, string(content))} {
			if j, err := k.decode(d); err == nil {
				k.checkRoundTrip(t, j)
			}
		}
	})
}

func TestJournalRoundTrip(t *testing.T) {
	busyKind.roundTrip(t, `{"v":8,"member":"node-1_01JD","shard":0,"shards":1,"n":9,"count":1}`+"\n"+
		fmt.Sprintf(`{"conv":"%s","nonce":"n1","seq":-1}`, keyOf("x"))+"\n")
	if got := storage.JournalKey("m", 12); got != "pending/m/0/0000000000000012" {
		t.Errorf("got key %s", got)
	}
}

func TestJournalIsStrict(t *testing.T) {
	busyKind.strict(t, map[string]func(*storage.Journal){
		"no member":     func(j *storage.Journal) { j.Member = "" },
		"member a path": func(j *storage.Journal) { j.Member = "a/b" },
		"number":        func(j *storage.Journal) { j.N = -1 },
		"conversation":  func(j *storage.Journal) { j.Entries[0].Conv = "xyz" },
		"nonce":         func(j *storage.Journal) { j.Entries[0].Nonce = "" },
		"entry number":  func(j *storage.Journal) { j.Entries[0].Seq = -2 },
	}, map[string][2]string{
		"version":         {`"v":8`, `"v":7`},
		"count":           {`"count":1`, `"count":2`},
		"shard":           {`"shard":0,"shards":1`, `"shard":1,"shards":2`},
		"shards":          {`"shards":1`, `"shards":0`},
		"number of entry": {`"seq":-1`, `"seq":-2`},
	})
}

func FuzzDecodeJournal(f *testing.F) {
	busyKind.fuzz(f, "{\"v\":8,\"member\":\"m\",\"shards\":1}\n", "{\"v\":8,\"member\":\"m\",\"shards\":1,\"count\":1}\n{}\n")
}

// FuzzJournalKey checks that every accepted journal key is exactly what JournalKey returns.
func FuzzJournalKey(f *testing.F) {
	for _, key := range []string{
		"pending/a/0/0000000000000012", "pending/a/00/0000000000000012", "pending/a/-1/0000000000000012", "pending//0/0000000000000012", "pending/a/0/12",
		"pending/a/0/0000000000000012/x", "heartbeat/a", "pending/a b/0/0000000000000012", "pending/a/9999999999999999999/0000000000000012", "",
	} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		refs, err := storage.Journals(t.Context(), &oneKey{key: key})
		if err != nil || len(refs) > 1 {
			t.Fatalf("got %+v, %v", refs, err)
		}
		if len(refs) == 0 {
			return
		}
		r := refs[0]
		if storage.JournalKey(r.Member, r.N) != key || !slices.Equal(r.Keys, []string{key}) {
			t.Errorf("parsed %q as %+v", key, r)
		}
		if _, err := storage.EncodeJournal(storage.Journal{Member: r.Member, N: r.N}); err != nil {
			t.Errorf("parsed %q as a journal that cannot be encoded: %v", key, err)
		}
	})
}

func TestJournalsFindsTheNewest(t *testing.T) {
	b := memory(t)
	stored := []storage.Journal{
		{Member: "a", N: 3}, {Member: "a", N: 11}, {Member: "a", N: 2}, {Member: "a-b", N: 7}, {Member: "b", N: 5},
	}
	for _, j := range stored {
		if err := storage.NewJournalWriter(b).Write(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
	for _, stray := range []string{"pending/a", "pending/a/0/12", "pending/a/1/0000000000000000", "pending/a/x/0000000000000001", "pending/c/00/0000000000000001", "pending/ä/0/0000000000000001", "pending/a/0/0000000000000001/x"} {
		if err := b.Put(t.Context(), stray, storage.Bytes([]byte("x"))); err != nil {
			t.Fatal(err)
		}
	}
	got, err := storage.Journals(t.Context(), b)
	keys := func(member string, ns ...int64) (keys []string) {
		for _, n := range ns {
			keys = append(keys, storage.JournalKey(member, n))
		}
		return keys
	}
	want := []storage.JournalRef{
		{Member: "a-b", N: 7, Keys: keys("a-b", 7)},
		{Member: "a", N: 11, Keys: keys("a", 2, 3, 11)},
		{Member: "b", N: 5, Keys: keys("b", 5)},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Fatalf("%v (-want +got):\n%s", err, diff)
	}
	if err := storage.DeleteJournal(t.Context(), b, got[1].Keys[:2]); err != nil {
		t.Fatal(err)
	}
	if got, err = storage.Journals(t.Context(), b); err != nil || len(got) != 3 || !cmp.Equal(got[1].Keys, keys("a", 11)) {
		t.Errorf("after the delete: %+v, %v", got, err)
	}
	err = storage.DeleteJournal(t.Context(), b, []string{keys("a", 11)[0], "pending/a"})
	if !errors.Is(err, storage.ErrRefused) {
		t.Errorf("delete of a stray key: %v, want ErrRefused", err)
	}
	if _, err = storage.ReadJournal(t.Context(), b, "a", 11); err != nil {
		t.Errorf("rejected delete removed an object: %v", err)
	}
}

func TestReadJournal(t *testing.T) {
	b := memory(t)
	j := journal(5, "x", "y")
	if err := storage.NewJournalWriter(b).Write(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	got, err := storage.ReadJournal(t.Context(), b, j.Member, 5)
	if diff := cmp.Diff(j, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err = storage.ReadJournal(t.Context(), b, j.Member, 6); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("absent: %v", err)
	}
	data, err := b.Get(t.Context(), storage.JournalKey(j.Member, 5))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Put(t.Context(), storage.JournalKey(j.Member, 6), storage.Bytes(data)); err != nil {
		t.Fatal(err)
	}
	var corrupt *storage.CorruptError
	if _, err = storage.ReadJournal(t.Context(), b, j.Member, 6); !errors.As(err, &corrupt) || corrupt.Seq != 6 {
		t.Errorf("under another key: %v, want corrupt", err)
	}
}

func TestWriteJournalResolves(t *testing.T) {
	for name, ks := range map[string][]storagetest.Kind{
		"lost ack":     {storagetest.LostAck},
		"errors":       {storagetest.ErrorBefore, storagetest.ErrorAfter},
		"never landed": {storagetest.Timeout, storagetest.Timeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory(t)
				b := faults(store, "PUT", ks...)
				if err := storage.NewJournalWriter(b).Write(t.Context(), journal(1, "x")); err != nil {
					t.Fatal(err)
				}
				if err := storage.NewJournalWriter(b).Write(t.Context(), journal(1, "x")); err != nil {
					t.Errorf("same content again: %v", err)
				}
				err := storage.NewJournalWriter(b).Write(t.Context(), journal(1, "x", "y"))
				if !errors.Is(err, storage.ErrExists) {
					t.Errorf("other content under the key: %v, want exists", err)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		b := storagetest.Faulty(memory(t), storagetest.Plan{Rates: map[storagetest.Kind]float64{storagetest.Timeout: 1}})
		if err := storage.NewJournalWriter(b).Write(withTimeout(t, time.Second), journal(1)); !errors.Is(err, storage.ErrUncertain) {
			t.Errorf("without an answer: %v, want an unknown outcome", err)
		}
	})
}
