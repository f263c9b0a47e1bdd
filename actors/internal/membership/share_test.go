package membership_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/storagetest"
)

// shares returns the members of the newest epoch, those with a weight in capitals.
func (w *world) shares() string {
	w.t.Helper()
	var out []string
	for _, m := range w.newest().Members {
		if m.Weight > 0 {
			out = append(out, strings.ToUpper(m.ID))
		} else {
			out = append(out, m.ID)
		}
		if (m.Weight > 0) == (m.Wants > 0) {
			w.t.Errorf("row of %s has weight %d and wants %d", m.ID, m.Weight, m.Wants)
		}
	}
	slices.SortFunc(out, func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) })
	return strings.Join(out, " ")
}

func (w *world) wantShares(when, want string) {
	w.t.Helper()
	if got := w.shares(); got != want {
		w.t.Errorf("%s: %s, want %s", when, got, want)
	}
}

// networked runs a test in a bubble, with a bucket and a network.
func networked(t *testing.T, test func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.net = &network{}
		test(t, w)
	})
}

// startAll starts nodes one after the other, half a second apart.
func (w *world) startAll(ids ...string) map[string]*node {
	w.t.Helper()
	nodes := map[string]*node{}
	for i, id := range ids {
		nodes[id] = w.peer(id, storagetest.Plan{Seed: uint64(i), Latency: latency}).join().run()
		time.Sleep(heartbeat)
	}
	time.Sleep(heartbeat)
	return nodes
}

// long covers all effects of a network partition.
const long = 3 * (suspect + heartbeat)

// TestShareOfReachedNodes: of nodes that reach each other, the first gets its share immediately, the
// others within a heartbeat.
func TestShareOfReachedNodes(t *testing.T) {
	networked(t, func(t *testing.T, w *world) {
		a := w.peer("a", storagetest.Plan{Latency: latency}).join().run()
		w.wantShares("the first", "A")
		b := w.peer("b", storagetest.Plan{Latency: latency}).join()
		w.wantShares("before the first answers", "A b")
		b.run()
		time.Sleep(heartbeat)
		w.wantShares("answered", "A B")
		c := w.peer("c", storagetest.Plan{Latency: latency}).join().run()
		time.Sleep(2 * heartbeat)
		w.wantShares("answered", "A B C")
		w.wantViews([]*node{a, b, c}, "a", "b", "c")
		h, err := storage.ReadHeartbeat(t.Context(), w.bucket, "c")
		if err != nil || h.Reach == nil || h.Reach.Reached != 2 || len(h.Reach.Missing) != 0 {
			t.Errorf("heartbeat of c: %+v, %v", h.Reach, err)
		}
	})
}

// TestShareOfUnreachedNodes: nodes that most others do not reach permanently own nothing.
func TestShareOfUnreachedNodes(t *testing.T) {
	for name, tt := range map[string]struct {
		start []string
		cut   func(a, b string) bool
		want  string
		warns string // Nodes that log that others do not answer.
	}{
		"the second":               {[]string{"a", "b"}, apart("a", "b"), "A b", "b"},
		"the fourth":               {[]string{"a", "b", "c", "x"}, apart("abc", "x"), "A B C x", "x"},
		"more than those with one": {[]string{"a", "b", "x", "y", "z"}, apart("ab", "x", "y", "z"), "A B x y z", "x y z"},
		"reached by one of two":    {[]string{"a", "b", "x"}, apart("ab", "bx"), "A B x", "x"},
		"reached by two of three":  {[]string{"a", "b", "c", "x"}, apart("abc", "bcx"), "A B C X", ""},
		"the first, by one of two": {[]string{"x", "a", "b"}, apart("ab", "ax"), "A b X", "b"},
		"the first, by none":       {[]string{"x", "a", "b"}, apart("ab", "x"), "A B x", "a b"},
	} {
		networked(t, func(t *testing.T, w *world) {
			w.net.breaks(tt.cut)
			nodes := w.startAll(tt.start...)
			time.Sleep(long)
			w.wantShares(name, tt.want)
			for id, n := range nodes {
				want := 0
				if slices.Contains(strings.Fields(tt.warns), id) {
					want = 1
				}
				if got := strings.Count(n.logs.String(), `msg="members do not answer this node"`); got != want {
					t.Errorf("%s: got %d warnings of %s, want %d, in\n%s", name, got, id, want, n.logs)
				}
			}
			e := w.newest()
			for _, n := range nodes {
				n.requests()
			}
			time.Sleep(10 * heartbeat)
			if now := w.newest(); now.N != e.N {
				t.Errorf("%s: epoch %d follows %d, want no change", name, now.N, e.N)
			}
			for id, n := range nodes {
				reads, wanted := 0, 0
				for _, request := range n.requests() {
					if strings.HasPrefix(request, "GET heartbeat/") {
						reads++
					}
				}
				if wanted = 20 * min(len(nodes)-1, 3); reads > wanted+4*len(nodes) {
					t.Errorf("%s: %s read %d heartbeats in 10 of its own, want about %d", name, id, reads, wanted)
				}
			}
		})
	}
}

// TestShareOverBreaks partitions the network between nodes with shares, and repairs it.
func TestShareOverBreaks(t *testing.T) {
	for name, tt := range map[string]struct {
		start   []string
		cut     func(a, b string) bool
		during  string
		changes bool
	}{
		"two":                    {[]string{"a", "b"}, apart("a", "b"), "A B", false},
		"two of three":           {[]string{"a", "b", "c"}, apart("ac", "bc"), "A B C", false},
		"one of three":           {[]string{"a", "b", "c"}, apart("ab", "c"), "A B c", true},
		"no links at all":        {[]string{"a", "b", "c", "d"}, apart("a", "b", "c", "d"), "A B C D", false},
		"two halves":             {[]string{"a", "b", "c", "d"}, apart("ab", "cd"), "A B C D", false},
		"a chain":                {[]string{"a", "b", "c", "d"}, apart("ab", "bc", "cd"), "A B C D", false},
		"one that others reach":  {[]string{"a", "b", "c"}, func(from, _ string) bool { return from == "c" }, "A B C", false},
		"two and three":          {[]string{"a", "b", "c", "d", "e"}, apart("ab", "cde"), "a b C D E", true},
		"a hub that all reach":   {[]string{"a", "b", "c", "d"}, apart("ad", "bd", "cd"), "A B C D", false},
		"two and the rest alone": {[]string{"a", "b", "c", "d", "e"}, apart("ab", "c", "d", "e"), "A B c d e", true},
	} {
		networked(t, func(t *testing.T, w *world) {
			nodes := w.startAll(tt.start...)
			all := strings.ToUpper(strings.Join(tt.start, " "))
			w.wantShares(name, all)
			before := w.newest().N
			w.net.breaks(tt.cut)
			time.Sleep(suspect / 2)
			w.wantShares(name+", early", all)
			time.Sleep(long)
			w.wantShares(name+", late", tt.during)
			if after := w.newest().N; (after != before) != tt.changes {
				t.Errorf("%s: epoch changed from %[3]d to %[2]d", name, after, before)
			}
			for id, n := range nodes {
				if logged := strings.Contains(n.logs.String(), "returned share"); logged != strings.Contains(tt.during, id) {
					t.Errorf("%s: %s logged that it returned its share: %v", name, id, logged)
				}
			}
			w.net.breaks(nil)
			time.Sleep(suspect / 2)
			w.wantShares(name+", after the repair", tt.during)
			time.Sleep(long)
			w.wantShares(name+", long after the repair", all)
			w.wantViews(values(nodes), tt.start...)
		})
	}
}

// TestShareOverFlaps: missing answers for less than Suspect change nothing. Once a node has lost its
// share, answers for less than Suspect do not restore it.
func TestShareOverFlaps(t *testing.T) {
	networked(t, func(t *testing.T, w *world) {
		w.startAll("a", "b", "c")
		before := w.newest().N
		for range 10 {
			w.net.breaks(apart("ab", "c"))
			time.Sleep(suspect - 2*heartbeat)
			w.net.breaks(nil)
			time.Sleep(heartbeat)
		}
		if after := w.newest().N; after != before {
			t.Errorf("epoch changed from %[2]d to %[1]d, want no change", after, before)
		}
		w.net.breaks(apart("ab", "c"))
		time.Sleep(long)
		w.wantShares("cut off", "A B c")
		for range 10 {
			w.net.breaks(nil)
			time.Sleep(suspect - 2*heartbeat)
			w.net.breaks(apart("ab", "c"))
			time.Sleep(heartbeat)
		}
		w.wantShares("reached now and then", "A B c")
	})
}

// TestShareAfterAllCrashed kills all nodes and starts new ones, at the same and at other addresses. Rows
// of crashed nodes delay them only until they are expelled.
func TestShareAfterAllCrashed(t *testing.T) {
	for name, again := range map[string][]string{
		"same addresses":  {"a2", "b2", "c2"},
		"other addresses": {"d", "e", "f"},
		"one of them":     {"b2"},
		"one elsewhere":   {"d"},
	} {
		networked(t, func(t *testing.T, w *world) {
			for _, n := range w.startAll("a", "b", "c") {
				n.kill()
			}
			for i, id := range again {
				w.peer(id, storagetest.Plan{Seed: uint64(i), Latency: latency}).join().run()
			}
			time.Sleep(suspect + 4*heartbeat)
			w.wantShares(name, strings.ToUpper(strings.Join(again, " ")))
		})
	}
}

// TestShareWhenOwnersGo ends the only node with a share. Only unreached nodes remain.
func TestShareWhenOwnersGo(t *testing.T) {
	for _, orderly := range []bool{true, false} {
		networked(t, func(t *testing.T, w *world) {
			w.net.breaks(apart("a", "b", "c"))
			nodes := w.startAll("a", "b", "c")
			w.wantShares("a serves", "A b c")
			if orderly {
				nodes["a"].leave()
			} else {
				nodes["a"].kill()
			}
			time.Sleep(suspect + 3*heartbeat)
			if got := w.shares(); got != "B c" && got != "b C" {
				t.Errorf("shares without a: %s, want one of the others", got)
			}
		})
	}
}

// TestShareAmongVersions: an older version edits the members and drops "wants". It gives the row
// nothing, the row's node still takes its share, and a node of that version, which reports no reach,
// outvotes none.
func TestShareAmongVersions(t *testing.T) {
	networked(t, func(t *testing.T, w *world) {
		w.net.breaks(apart("ab", "x"))
		w.startAll("a", "b", "x")
		w.oldVersion(func(row map[string]any) { row["draining"] = row["id"] == "a" })
		e := w.newest()
		if x := e.Members[2]; x.ID != "x" || x.Weight != 0 || x.Wants != 0 || !e.Members[0].Draining {
			t.Fatalf("rows after the edit: %+v", e.Members)
		}
		time.Sleep(long)
		if x := w.newest().Members[2]; x.Weight != 0 {
			t.Error("unreached node took its share")
		}
		w.oldVersion(func(row map[string]any) { row["draining"] = false })
		w.net.breaks(nil)
		time.Sleep(2 * heartbeat)
		w.wantShares("reached", "A B X")
		// Six rows of the older version, which never answer, do not outvote.
		w.oldVersion(func(row map[string]any) {})
		silent := storage.Epoch{N: w.newest().N + 1, Nonce: "old", Members: w.newest().Members}
		var beating sync.WaitGroup
		defer beating.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i := range 6 {
			id := fmt.Sprint("old", i)
			silent.Members = append(silent.Members, storage.Member{ID: id, Node: id + ".example:1", Weight: 1})
			beating.Go(func() {
				for count := int64(1); ctx.Err() == nil; count++ {
					_ = storage.PutHeartbeat(context.Background(), w.bucket, storage.Heartbeat{Member: id, Count: count})
					time.Sleep(heartbeat)
				}
			})
		}
		if won, err := storage.CreateEpoch(t.Context(), w.bucket, silent); err != nil || !won {
			t.Fatal(won, err)
		}
		time.Sleep(long)
		w.wantShares("with six silent nodes of an older version", "A B OLD0 OLD1 OLD2 OLD3 OLD4 OLD5 X")
	})
}

// oldVersion edits the rows like the version without "wants".
func (w *world) oldVersion(change func(row map[string]any)) {
	w.t.Helper()
	e := w.newest()
	data, err := storage.EncodeEpoch(e)
	if err != nil {
		w.t.Fatal(err)
	}
	var object map[string]any
	if err := json.Unmarshal(data, &object); err != nil {
		w.t.Fatal(err)
	}
	object["n"], object["nonce"] = e.N+1, fmt.Sprint("old", e.N)
	for _, row := range object["members"].([]any) {
		delete(row.(map[string]any), "wants")
		change(row.(map[string]any))
	}
	if data, err = json.Marshal(object); err != nil {
		w.t.Fatal(err)
	}
	if err := w.bucket.Create(context.Background(), storage.EpochKey(e.N+1), storage.Bytes(data)); err != nil {
		w.t.Fatal(err)
	}
	time.Sleep(heartbeat)
}
