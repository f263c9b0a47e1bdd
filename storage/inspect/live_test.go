package inspect_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/inspect"
)

// TestVerifyWithAWriter checks a log that grows, is compacted and loses compacted batches during the
// check.
func TestVerifyWithAWriter(t *testing.T) {
	w := newWorld(t)
	moving := &stirred{Bucket: w.bucket}
	moves := 0
	budget := 0 // a log that grows faster than it is read never ends
	moving.stir = func() {
		if budget--; budget < 0 {
			return
		}
		moves++
		switch moves % 5 {
		case 0:
			w.remove(w.segments(w.pos.Seq))
		case 1:
			w.checkpoint(moves%2 == 0)
		case 2:
			w.writer = w.logs.Writer(w.conv, storage.Nonce("s"+number(int64(moves))), w.pos, 1)
			w.claims = append(w.claims, storage.Claim{Seq: w.pos.Seq + 1, Nonce: w.writer.Nonce()})
			w.turn()
		default:
			w.turn()
		}
	}
	for range 10 {
		budget = 30
		_, err := inspect.Verify(t.Context(), moving, inspect.Scope{Conv: w.conv}, &inspect.Options{Prefetch: 2}, func(f inspect.Finding) {
			if f.Severity == inspect.Corruption {
				t.Errorf("found %+v", f)
			}
		})
		check(t, err)
	}
	if moves < 100 {
		t.Errorf("got only %d concurrent changes", moves)
	}
	if got := w.verify(inspect.Scope{}); len(got) > 0 {
		t.Errorf("idle bucket: verify found %v", got)
	}
}

// stirred is a bucket that calls a hook before every listing and after every fourth read.
type stirred struct {
	storage.Bucket
	mu   sync.Mutex
	gets int
	stir func()
}

// Get implements storage.Bucket.
func (s *stirred) Get(ctx context.Context, key string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gets++; s.gets%4 == 0 {
		defer s.stir()
	}
	return s.Bucket.Get(ctx, key)
}

// List implements storage.Bucket.
func (s *stirred) List(ctx context.Context, q storage.ListQuery) (storage.ListPage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stir()
	return s.Bucket.List(ctx, q)
}

// TestAnyCorruption corrupts objects at random. If the conversation is unreadable or reads differently,
// verify must have found corruption. If verify found none, repair must fix all findings.
func TestAnyCorruption(t *testing.T) {
	for seed := range sample.Of[uint64](60, 6) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(t)
		before := w.transcript()
		var did []string
		for range 1 + r.IntN(3) {
			did = append(did, w.spoil(r))
		}
		corruption := false
		for _, f := range w.verify(inspect.Scope{}) {
			corruption = corruption || strings.HasPrefix(f, "damage")
		}
		after, err := w.read()
		if !corruption && (err != nil || after != before) {
			t.Fatalf("seed %d: after %v the log differs, and verify found no corruption: %v", seed, did, err)
		}
		if corruption {
			continue
		}
		_, err = inspect.Repair(t.Context(), w.bucket, inspect.Scope{}, &inspect.RepairOptions{Write: true, Watch: 1}, func(inspect.Action) {})
		if err != nil {
			t.Fatalf("seed %d: repair after %v: %v", seed, did, err)
		}
		left := slices.DeleteFunc(w.verify(inspect.Scope{}), func(f string) bool { return strings.HasPrefix(f, "note") })
		if len(left) > 0 {
			t.Fatalf("seed %d: after %v and a repair, verify found %v", seed, did, left)
		}
		if after, err := w.read(); err != nil || after != before {
			t.Fatalf("seed %d: after %v and a repair the log differs: %v", seed, did, err)
		}
	}
}

// spoil corrupts one object and returns a description.
func (w *world) spoil(r *rand.Rand) string {
	keys := slices.Sorted(maps.Keys(w.objects(storage.FolderOf(w.conv))))
	key, other := keys[r.IntN(len(keys))], keys[r.IntN(len(keys))]
	data := bytes.Clone(w.get(key))
	switch r.IntN(5) {
	case 0:
		if key == w.log(35) { // Without its checkpoint nothing shows that it ever existed.
			return "nothing"
		}
		w.delete(key)
		return "delete " + key
	case 1:
		w.put(key, data[:1+r.IntN(len(data))])
		return "cut " + key
	case 2:
		w.put(key, w.get(other))
		return "put " + other + " into " + key
	case 3:
		w.put(key, append(data, byte(r.IntN(256))))
		return "append to " + key
	default:
		data[r.IntN(len(data))] ^= byte(1 << r.IntN(8))
		w.put(key, data)
		return "flip a bit in " + key
	}
}

// read returns the conversation as read, or the error.
func (w *world) read() (string, error) {
	state := conversation.NewState()
	for b, err := range w.logs.Batches(context.Background(), w.conv, storage.Start()) {
		if err != nil {
			return "", err
		}
		records, err := conversation.DecodeRecords(b.Lines)
		if err == nil {
			err = state.Apply(conversation.Batch{Offset: conversation.Offset(b.Seq), Records: records})
		}
		if err != nil {
			return "", err
		}
	}
	line, err := conversation.EncodeJSON(state.Snapshot())
	return string(line), err
}

// TestLargeSegments has frames that are read in several parts.
func TestLargeSegments(t *testing.T) {
	w := newWorld(t)
	conv := w.big(90)
	garbage, err := w.logs.Compactor(conv).Compact(t.Context(), 89, nil, 1)
	check(t, err)
	check(t, w.logs.Remove(t.Context(), conv, garbage))
	scope := inspect.Scope{Conv: conv}
	if got := w.verify(scope); len(got) > 0 {
		t.Fatalf("verify found %v", got)
	}
	key := storage.SegmentKey(conv, 0, 88)
	if size := len(w.get(key)); size < 2<<20 {
		t.Fatalf("got a segment of only %d bytes", size)
	}
	w.flip(key)
	got := w.verify(scope)
	if len(got) != 2 || !strings.Contains(got[0], "damage gap") || !strings.Contains(got[1], "damage unreadable-segment") {
		t.Errorf("corrupt segment: verify found %v", got)
	}
}

// narrow is a bucket that lists two entries per page and fails the reads of a key.
type narrow struct {
	storage.Bucket
	fail string
}

// List implements storage.Bucket.
func (n narrow) List(ctx context.Context, q storage.ListQuery) (storage.ListPage, error) {
	q.Limit = 2
	return n.Bucket.List(ctx, q)
}

// Get implements storage.Bucket.
func (n narrow) Get(ctx context.Context, key string) ([]byte, error) {
	if key == n.fail {
		return nil, &storage.Error{Op: "get", Key: key, Kind: storage.ErrRefused, Status: 403}
	}
	return n.Bucket.Get(ctx, key)
}

func TestVerifyByShortPages(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"a", "b", "c", "d"} {
		conv := conversation.Address{Agent: "assistant", ID: id}.Key()
		must(w.logs.Writer(conv, "n", storage.Start(), 1).Append(t.Context(), nil, at))(t)
	}
	w.put("zz", []byte("x"))
	var found []string
	sum, err := inspect.Verify(t.Context(), narrow{w.bucket, ""}, inspect.Scope{}, nil, func(f inspect.Finding) { found = append(found, w.line(f)) })
	if err != nil || sum.Conversations != 5 || sum.Batches != 40 || !slices.Equal(found, []string{"note foreign-key zz"}) {
		t.Errorf("got %+v, %v, %v", sum, found, err)
	}
}

// TestBucketThatDoesNotAnswer checks that unreadable objects are not reported as findings if the
// bucket fails.
func TestBucketThatDoesNotAnswer(t *testing.T) {
	w := newWorld(t)
	for key := range w.objects("") {
		if key == w.log(35) || strings.Contains(key, "/seg/") || strings.Contains(key, "/ckpt/") || strings.Contains(key, "/page/") ||
			strings.HasSuffix(key, "head") || strings.HasPrefix(key, "pending/") || strings.HasPrefix(key, "index/") || key == "format.json" {
			_, err := inspect.Verify(t.Context(), narrow{w.bucket, key}, inspect.Scope{}, nil, func(f inspect.Finding) { t.Errorf("%s: found %+v", key, f) })
			if !errors.Is(err, storage.ErrRefused) {
				t.Errorf("%s: %v", key, err)
			}
		}
	}
}

// TestManyFindings has more findings than the limit, and corruption after it.
func TestManyFindings(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	for n := range 1200 {
		must(w.logs.PutPage(ctx, w.conv, 5, fmt.Appendf(nil, "%d\n", n)))(t)
	}
	if got := w.verify(inspect.Scope{}); len(got) != 1001 || got[0] != "note more " {
		t.Errorf("%d findings, the first is %s", len(got), got[0])
	}
	w.delete(storage.BlobKey(w.conv, w.blob))
	_, err := inspect.Repair(ctx, w.bucket, inspect.Scope{}, &inspect.RepairOptions{Write: true, Watch: 1}, func(a inspect.Action) {
		if a.Outcome == inspect.Done {
			t.Fatalf("next to corruption: got steps %q", a.Steps)
		}
	})
	check(t, err)
	w2 := newWorld(t)
	for n := range 1200 {
		must(w2.logs.PutPage(ctx, w2.conv, 5, fmt.Appendf(nil, "%d\n", n)))(t)
	}
	for range 2 {
		_, err := inspect.Repair(ctx, w2.bucket, inspect.Scope{}, &inspect.RepairOptions{Write: true, Watch: 1}, func(inspect.Action) {})
		check(t, err)
	}
	if got := w2.verify(inspect.Scope{}); len(got) > 0 {
		t.Errorf("after two repairs: %v", got)
	}
}
