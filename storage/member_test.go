package storage_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/storagetest"
)

func epoch(n int64, nonce storage.Nonce, members ...string) storage.Epoch {
	e := storage.Epoch{N: n, Nonce: nonce, At: 1}
	for _, id := range members {
		e.Members = append(e.Members, storage.Member{ID: id, Address: "10.0.0.1:3000", Version: "v1.2.3", StartedAt: 2,
			Records: []conversation.RecordType{conversation.TypeDelta, "later"}})
	}
	return e
}

// shared returns an epoch of nodes that share the bucket.
func shared(n int64) storage.Epoch {
	return storage.Epoch{N: n, Nonce: "s", Members: []storage.Member{
		{ID: "x", Node: "10.0.0.1:7946", Weight: 1000, Draining: true},
		{ID: "y", Node: "[fd00::1]:1", Weight: 1},
		{ID: "z", Node: "pod-3.parley.example:65535", Wants: 3},
	}}
}

// created stores an epoch and fails unless it is the newest.
func created(t *testing.T, b storage.Bucket, e storage.Epoch) {
	t.Helper()
	if won, err := storage.CreateEpoch(t.Context(), b, e); err != nil || !won {
		t.Fatalf("create epoch %d: %v, %v", e.N, won, err)
	}
}

func TestEpochRoundTrip(t *testing.T) {
	for _, e := range []storage.Epoch{epoch(1, "a"), epoch(1e16-1, "b", "x", "y"), shared(4), {N: 2, Nonce: "c", Members: []storage.Member{{ID: "x"}}}} {
		data, err := storage.EncodeEpoch(e)
		if err != nil {
			t.Fatal(err)
		}
		got, err := storage.DecodeEpoch(data)
		if diff := cmp.Diff(e, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	for want, e := range map[string]storage.Epoch{
		`{"v":8,"n":3,"nonce":"a","at":"1970-01-01T00:00:00.001Z","members":[]}`: epoch(3, "a"),
		`{"v":8,"n":3,"nonce":"a","at":"1970-01-01T00:00:00.001Z","members":[{"id":"x","address":"10.0.0.1:3000","version":"v1.2.3",` +
			`"weight":0,"startedAt":"1970-01-01T00:00:00.002Z","records":["delta","later"]}]}`: epoch(3, "a", "x"),
		`{"v":8,"n":3,"nonce":"a","at":"1970-01-01T00:00:00.000Z","members":[{"id":"x","node":"10.0.0.1:7946","weight":1000,"draining":true,` +
			`"startedAt":"1970-01-01T00:00:00.000Z"}]}`: {N: 3, Nonce: "a", Members: shared(1).Members[:1]},
	} {
		if data, err := storage.EncodeEpoch(e); err != nil || string(data) != want+"\n" {
			t.Errorf("got object %s, %v; want %s", data, err, want)
		}
	}
	if got := storage.EpochKey(12); got != "members/0000000000000012" {
		t.Errorf("got key %s", got)
	}
}

func TestEpochIsStrict(t *testing.T) {
	for name, change := range map[string]func(*storage.Epoch){
		"number":           func(e *storage.Epoch) { e.N = 0 },
		"number too high":  func(e *storage.Epoch) { e.N = 1e16 },
		"nonce":            func(e *storage.Epoch) { e.Nonce = "" },
		"no member":        func(e *storage.Epoch) { e.Members[0].ID = "" },
		"member a path":    func(e *storage.Epoch) { e.Members[0].ID = "a/b" },
		"member twice":     func(e *storage.Epoch) { e.Members = append(e.Members, e.Members[0]) },
		"too many members": func(e *storage.Epoch) { e.Members = epoch(1, "n", many(1001)...).Members },
		"address":          func(e *storage.Epoch) { e.Members[0].Address = "a\nb" },
		"long address":     func(e *storage.Epoch) { e.Members[0].Address = strings.Repeat("x", 257) },
		"version":          func(e *storage.Epoch) { e.Members[0].Version = "\xff" },
		"node, no port":    func(e *storage.Epoch) { e.Members[0].Node = "10.0.0.1" },
		"node, no host":    func(e *storage.Epoch) { e.Members[0].Node = ":7946" },
		"node, port 0":     func(e *storage.Epoch) { e.Members[0].Node = "10.0.0.1:0" },
		"node, port":       func(e *storage.Epoch) { e.Members[0].Node = "10.0.0.1:65536" },
		"node, port named": func(e *storage.Epoch) { e.Members[0].Node = "10.0.0.1:http" },
		"node a url":       func(e *storage.Epoch) { e.Members[0].Node = "//10.0.0.1:80" },
		"node, control":    func(e *storage.Epoch) { e.Members[0].Node = "a\tb:80" },
		"long node":        func(e *storage.Epoch) { e.Members[0].Node = strings.Repeat("x", 254) + ":80" },
		"weight":           func(e *storage.Epoch) { e.Members[0].Weight = -1 },
		"weight too high":  func(e *storage.Epoch) { e.Members[0].Weight = 1001 },
		"wants":            func(e *storage.Epoch) { e.Members[0].Wants = -1 },
		"record":           func(e *storage.Epoch) { e.Members[0].Records = []conversation.RecordType{""} },
		"too many records": func(e *storage.Epoch) { e.Members[0].Records = make([]conversation.RecordType, 257) },
		"too many bytes": func(e *storage.Epoch) {
			*e = epoch(1, "n", many(1000)...)
			for i := range e.Members {
				e.Members[i].Records = []conversation.RecordType{conversation.RecordType(strings.Repeat("x", 64))}
				for range 20 {
					e.Members[i].Records = append(e.Members[i].Records, e.Members[i].Records[0])
				}
			}
		},
	} {
		e := epoch(1, "n", "x")
		change(&e)
		if _, err := storage.EncodeEpoch(e); err == nil {
			t.Errorf("%s: encoded", name)
		}
	}
	data, err := storage.EncodeEpoch(epoch(1, "n", "x"))
	if err != nil {
		t.Fatal(err)
	}
	good := string(data)
	for name, content := range map[string]string{
		"node":          strings.Replace(good, `"weight":0`, `"weight":0,"node":"x"`, 1),
		"weight":        strings.Replace(good, `"weight":0`, `"weight":1001`, 1),
		"older version": strings.Replace(good, `"v":8`, `"v":7`, 1),
		"no version":    strings.Replace(good, `"v":8,`, ``, 1),
		"cut":           good[:len(good)-3],
		"twice":         good + good,
		"nothing":       "",
		"number":        strings.Replace(good, `"n":1`, `"n":-1`, 1),
		"time":          strings.Replace(good, `1970`, `x`, 1),
		"too many bytes": strings.Replace(good, `"n":1`,
			`"x":"`+strings.Repeat("x", 1<<20)+`","n":1`, 1),
	} {
		if _, err := storage.DecodeEpoch([]byte(content)); err == nil {
			t.Errorf("%s: decoded", name)
		}
	}
	if _, err := storage.DecodeEpoch([]byte(strings.Replace(good, `"n":1`, `"n":1,"new":[]`, 1))); err != nil {
		t.Errorf("unknown field: got error %v", err)
	}
	old, err := storage.DecodeEpoch([]byte(strings.Replace(good, `"weight":0,`, ``, 1)))
	if diff := cmp.Diff(epoch(1, "n", "x"), old); err != nil || diff != "" {
		t.Errorf("a row without a weight: %v (-want +got):\n%s", err, diff)
	}
	var format *storage.FormatError
	_, err = storage.DecodeEpoch([]byte(`{"v":9,"n":{"changed":"meaning"}}`))
	if !errors.As(err, &format) || format.StoredVersion != 9 || format.SupportedVersion != 8 {
		t.Errorf("a newer version: %v", err)
	}
}

func many(n int) []string {
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("m%d", i))
	}
	return ids
}

func FuzzDecodeEpoch(f *testing.F) {
	for _, e := range []storage.Epoch{epoch(1, "a"), epoch(3, "b", "x", "y"), shared(5)} {
		data, err := storage.EncodeEpoch(e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)-3])
	}
	f.Add([]byte(`{"v":9}`))
	f.Add([]byte(`{"v":8,"n":1,"nonce":"n","at":"1970-01-01T00:00:00.000Z","members":[{"id":"x","node":":","weight":-1}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := storage.DecodeEpoch(data)
		if err != nil {
			return
		}
		again, err := storage.EncodeEpoch(e)
		if err != nil && len(data) < 1<<19 { // Escapes may make it longer than the input.
			t.Fatalf("encode decoded value: %v", err)
		}
		if err != nil {
			return
		}
		second, err := storage.DecodeEpoch(again)
		if diff := cmp.Diff(e, second); err != nil || diff != "" {
			t.Fatalf("second decode: %v (-first +second):\n%s", err, diff)
		}
	})
}

func TestNewestEpoch(t *testing.T) {
	b := memory(t)
	newest := func(after int64) (storage.Epoch, []int64) {
		t.Helper()
		e, older, err := storage.NewestEpoch(t.Context(), b, after)
		if err != nil {
			t.Fatal(err)
		}
		return e, older
	}
	for _, stray := range []string{"members/x", "members/0000000000000000", "members/12", "members/9999999999999999x", "members/0000000000000009/x"} {
		if err := b.Put(t.Context(), stray, storage.Bytes([]byte("x"))); err != nil {
			t.Fatal(err)
		}
	}
	if e, older := newest(0); e.N != 0 || older != nil {
		t.Errorf("without any: %+v, %v", e, older)
	}
	for _, n := range []int64{1, 2, 10} {
		created(t, b, epoch(n, "n", "x"))
	}
	e, older := newest(0)
	if diff := cmp.Diff(epoch(10, "n", "x"), e); diff != "" || !cmp.Equal(older, []int64{1, 2}) {
		t.Errorf("older %v (-want +got):\n%s", older, diff)
	}
	if e, older = newest(1); e.N != 10 || !cmp.Equal(older, []int64{2}) {
		t.Errorf("after 1: %d, %v", e.N, older)
	}
	if e, older = newest(10); e.N != 0 || older != nil {
		t.Errorf("after the highest: %d, %v", e.N, older)
	}
	if err := storage.DeleteEpochs(t.Context(), b, 10, []int64{1, 10}); !errors.Is(err, storage.ErrRefused) {
		t.Errorf("delete of the highest: %v, want ErrRefused", err)
	}
	if _, older = newest(0); len(older) != 2 {
		t.Errorf("rejected delete removed an object: %v", older)
	}
	if err := storage.DeleteEpochs(t.Context(), b, 10, []int64{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	if e, older = newest(0); e.N != 10 || len(older) != 0 {
		t.Errorf("after the delete: %d, %v", e.N, older)
	}
}

// TestNewestEpochMovesOn replaces and deletes the newest epoch between the listing and the read.
func TestNewestEpochMovesOn(t *testing.T) {
	store := memory(t)
	created(t, store, epoch(1, "n", "x"))
	moved := false
	b := storagetest.Faulty(store, storagetest.Plan{Decide: func(op storagetest.Op) storagetest.Kind {
		if op.Method == "GET" && !moved {
			moved = true
			created(t, store, epoch(2, "n", "y"))
			if err := storage.DeleteEpochs(t.Context(), store, 2, []int64{1}); err != nil {
				t.Error(err)
			}
		}
		return storagetest.None
	}})
	e, older, err := storage.NewestEpoch(t.Context(), b, 0)
	if err != nil || e.N != 2 || !e.Has("y") || e.Has("x") || len(older) != 0 {
		t.Errorf("got epoch %d, older %v, %v; want 2", e.N, older, err)
	}
}

func TestReadEpochChecks(t *testing.T) {
	b := memory(t)
	put := func(n int64, content string) {
		t.Helper()
		if err := b.Put(t.Context(), storage.EpochKey(n), storage.Bytes([]byte(content))); err != nil {
			t.Fatal(err)
		}
	}
	data, err := storage.EncodeEpoch(epoch(3, "n", "x"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = storage.ReadEpoch(t.Context(), b, 1); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("absent: %v", err)
	}
	for name, content := range map[string]string{
		"of another number": string(data), "garbage": "x", "too large": strings.Repeat(" ", 2<<20) + string(data),
	} {
		put(4, content)
		var corrupt *storage.CorruptError
		if _, _, err = storage.NewestEpoch(t.Context(), b, 0); !errors.As(err, &corrupt) || corrupt.Seq != 4 {
			t.Errorf("%s: %v, want corrupt", name, err)
		}
	}
	put(5, `{"v":12}`)
	var format *storage.FormatError
	if _, _, err = storage.NewestEpoch(t.Context(), b, 0); !errors.As(err, &format) || format.StoredVersion != 12 {
		t.Errorf("newer: %v, want a format error", err)
	}
}

func TestCreateEpochResolves(t *testing.T) {
	for name, ks := range map[string][]storagetest.Kind{
		"lost ack":     {storagetest.LostAck},
		"errors":       {storagetest.ErrorBefore, storagetest.ErrorAfter},
		"never landed": {storagetest.Timeout, storagetest.Timeout},
		"lands late":   {storagetest.Delayed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := faults(memory(t), "PUT", ks...)
				created(t, b, epoch(1, "a", "x"))
				created(t, b, epoch(1, "a", "x"))
				for _, other := range []storage.Epoch{epoch(1, "b", "x"), epoch(1, "a", "y")} {
					if won, err := storage.CreateEpoch(t.Context(), b, other); err != nil || won {
						t.Errorf("other content under the number: %v, %v", won, err)
					}
				}
			})
		})
	}
	for name, faulty := range map[string]func(storagetest.Op) bool{
		"no write is answered": func(op storagetest.Op) bool { return op.Method == "PUT" },
		"no list is answered":  func(op storagetest.Op) bool { return op.Method == "LIST" },
	} {
		synctest.Test(t, func(t *testing.T) {
			b := storagetest.Faulty(memory(t), storagetest.Plan{Match: faulty, Rates: map[storagetest.Kind]float64{storagetest.Timeout: 1}})
			if won, err := storage.CreateEpoch(withTimeout(t, time.Minute), b, epoch(1, "a")); won || !errors.Is(err, storage.ErrUncertain) {
				t.Errorf("%s: %v, %v, want an unknown outcome", name, won, err)
			}
		})
	}
	if won, err := storage.CreateEpoch(t.Context(), memory(t), epoch(0, "a")); won || !errors.Is(err, storage.ErrRefused) {
		t.Errorf("an invalid epoch: %v, %v", won, err)
	}
}

// TestCreateEpochOnAStaleView creates a number that is free only because older epochs were deleted: it
// is not the newest.
func TestCreateEpochOnAStaleView(t *testing.T) {
	b := memory(t)
	created(t, b, epoch(5, "a", "x"))
	if won, err := storage.CreateEpoch(t.Context(), b, epoch(4, "b", "y")); err != nil || won {
		t.Errorf("below the newest: %v, %v", won, err)
	}
	if e, _, err := storage.NewestEpoch(t.Context(), b, 0); err != nil || e.N != 5 {
		t.Errorf("got newest %d, %v", e.N, err)
	}
}

// TestCreateEpochIsReplacedAtOnce loses the answer to a create. Before the read-back, another node
// replaces and deletes the epoch.
func TestCreateEpochIsReplacedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory(t)
		b := storagetest.Faulty(store, storagetest.Plan{Decide: func(op storagetest.Op) storagetest.Kind {
			switch {
			case op.Method == "PUT" && op.Attempt == 0:
				return storagetest.LostAck
			case op.Method == "GET":
				created(t, store, epoch(2, "n", "y"))
				if err := storage.DeleteEpochs(t.Context(), store, 2, []int64{1}); err != nil {
					t.Error(err)
				}
			}
			return storagetest.None
		}})
		if won, err := storage.CreateEpoch(t.Context(), b, epoch(1, "n", "x")); err != nil || won {
			t.Errorf("got %v, %v; want a lost race", won, err)
		}
	})
}

func TestOfConcurrentEpochsOneWins(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			store := memory(t)
			var wg sync.WaitGroup
			var mu sync.Mutex
			winners := 0
			for node := range 4 {
				b := storagetest.Faulty(store, storagetest.Plan{
					Seed: seed<<8 | uint64(node), Latency: time.Second,
					Rates: map[storagetest.Kind]float64{storagetest.LostAck: .2, storagetest.Delayed: .1, storagetest.Timeout: .1},
				})
				wg.Go(func() {
					won, err := storage.CreateEpoch(t.Context(), b, epoch(1, storage.Nonce(fmt.Sprint(node)), "x"))
					if err != nil {
						t.Errorf("seed %d node %d: %v", seed, node, err)
					}
					mu.Lock()
					defer mu.Unlock()
					if won {
						winners++
					}
				})
			}
			wg.Wait()
			if winners != 1 {
				t.Errorf("seed %d: %d winners", seed, winners)
			}
		})
	}
}

func TestHeartbeat(t *testing.T) {
	b := memory(t)
	read := func() (storage.Heartbeat, error) { return storage.ReadHeartbeat(t.Context(), b, "node-1_x") }
	if _, err := read(); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("absent: %v", err)
	}
	for count := int64(1); count < 3; count++ {
		h := storage.Heartbeat{Member: "node-1_x", Count: count, At: 7, Active: 5, Busy: count}
		if err := storage.PutHeartbeat(t.Context(), b, h); err != nil {
			t.Fatal(err)
		}
		if got, err := read(); err != nil || got != h {
			t.Errorf("got %+v, %v; want %+v", got, err, h)
		}
	}
	far := storage.Heartbeat{Member: "node-1_x", Count: 2, At: 7, Active: 5, Busy: 2, Reach: &storage.Reach{Reached: 1, Missing: []string{"b"}}}
	sent, err := storage.EncodeHeartbeat(far)
	if want := `,"busy":2,"reach":{"reached":1,"missing":["b"]}}` + "\n"; err != nil || !strings.HasSuffix(string(sent), want) {
		t.Errorf("got object %s, %v; want it to end with %s", sent, err, want)
	}
	if got, err := storage.DecodeHeartbeat(sent); err != nil || !reflect.DeepEqual(got, far) {
		t.Errorf("got %+v, %v; want %+v", got, err, far)
	}
	data, err := b.Get(t.Context(), "heartbeat/node-1_x")
	if want := `{"v":8,"member":"node-1_x","count":2,"at":"1970-01-01T00:00:00.007Z","active":5,"busy":2}` + "\n"; err != nil || string(data) != want {
		t.Errorf("got object %s, %v; want %s", data, err, want)
	}
	for name, content := range map[string]string{
		"garbage": "x", "another's": strings.Replace(string(data), "node-1", "node-2", 1), "no count": strings.Replace(string(data), `"count":2,`, "", 1),
		"too large": string(data) + strings.Repeat(" ", 33_000), "older": strings.Replace(string(data), `"v":8`, `"v":7`, 1),
		"active": strings.Replace(string(data), `"active":5`, `"active":-5`, 1), "busy": strings.Replace(string(data), `"busy":2`, `"busy":-1`, 1),
	} {
		if err := b.Put(t.Context(), storage.HeartbeatKey("node-1_x"), storage.Bytes([]byte(content))); err != nil {
			t.Fatal(err)
		}
		var corrupt *storage.CorruptError
		if _, err := read(); !errors.As(err, &corrupt) {
			t.Errorf("%s: %v, want corrupt", name, err)
		}
	}
	if err := b.Put(t.Context(), storage.HeartbeatKey("node-1_x"), storage.Bytes([]byte(`{"v":9}`))); err != nil {
		t.Fatal(err)
	}
	var format *storage.FormatError
	if _, err := read(); !errors.As(err, &format) {
		t.Errorf("newer: %v, want a format error", err)
	}
	for range 2 {
		if err := storage.DeleteHeartbeat(t.Context(), b, "node-1_x"); err != nil {
			t.Error(err)
		}
	}
	if _, err := read(); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
	if err := storage.DeleteHeartbeat(t.Context(), b, "../x"); !errors.Is(err, storage.ErrRefused) {
		t.Errorf("delete of a path: %v", err)
	}
	for _, h := range []storage.Heartbeat{
		{Member: "a/b", Count: 1}, {Member: "a"}, {Member: "a", Count: 1, Active: -1}, {Member: "a", Count: 1, Busy: -1},
		{Member: "a", Count: 1, Reach: &storage.Reach{Reached: -1}}, {Member: "a", Count: 1, Reach: &storage.Reach{Missing: []string{"../b"}}},
		{Member: "a", Count: 1, Reach: &storage.Reach{Missing: slices.Repeat([]string{"b"}, storage.MaxMissing+1)}},
	} {
		if err := storage.PutHeartbeat(t.Context(), b, h); !errors.Is(err, storage.ErrRefused) {
			t.Errorf("put %+v: %v", h, err)
		}
	}
}

func FuzzDecodeHeartbeat(f *testing.F) {
	data, err := storage.EncodeHeartbeat(storage.Heartbeat{Member: "m", Count: 3, At: 9, Active: 1 << 40, Busy: 2})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(data[:len(data)-3])
	f.Add([]byte(`{"v":9}`))
	f.Add([]byte(`{"v":8,"member":"m","count":1,"at":"1970-01-01T00:00:00.000Z"}`))
	f.Add([]byte(`{"v":8,"member":"m","count":1,"at":"1970-01-01T00:00:00.000Z","reach":{"reached":2,"missing":["a","b"]}}`))
	f.Add([]byte(`{"v":8,"member":"m","count":1,"at":"1970-01-01T00:00:00.000Z","reach":{"missing":[]}}`))
	f.Add([]byte(`{"v":8,"member":"m","count":1,"at":"1970-01-01T00:00:00.000Z","active":-1,"busy":9223372036854775807}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := storage.DecodeHeartbeat(data)
		if err != nil {
			return
		}
		again, err := storage.EncodeHeartbeat(h)
		if err != nil {
			t.Fatalf("encode decoded value: %v", err)
		}
		if second, err := storage.DecodeHeartbeat(again); err != nil || !reflect.DeepEqual(second, h) {
			t.Fatalf("second decode: %+v, %v; want %+v", second, err, h)
		}
	})
}
