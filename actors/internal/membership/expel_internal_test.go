package membership

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
)

// silentBucket is a bucket that rejects heartbeats while on is set.
type silentBucket struct {
	storage.Bucket
	on bool
}

func (m *silentBucket) Put(ctx context.Context, key string, body storage.Body) error {
	if m.on {
		return &storage.Error{Op: "put", Key: key, Kind: storage.ErrUncertain}
	}
	return m.Bucket.Put(ctx, key, body)
}

func newSilentBucket(t *testing.T) *silentBucket {
	t.Helper()
	store := local.NewMemory()
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return &silentBucket{Bucket: store}
}

// TestExpelChecksAgain: a correct decision is not acted on if one condition has changed.
func TestExpelChecksAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		against func(*testing.T, *silentBucket, *Membership, *ring)
		want    string // reason of the abort; "" expels
	}{
		"nothing":                      {func(*testing.T, *silentBucket, *Membership, *ring) {}, ""},
		"own heartbeat was not stored": {func(_ *testing.T, b *silentBucket, _ *Membership, _ *ring) { b.on = true }, "own heartbeat was not stored"},
		"an own one was not stored": {func(_ *testing.T, _ *silentBucket, m *Membership, _ *ring) {
			m.heartbeatSent(time.Now(), errors.New("x"), false)
		}, "own heartbeats were not stored"},
		"passive":                {func(_ *testing.T, _ *silentBucket, m *Membership, _ *ring) { m.unconfirm(nil) }, "this node is passive"},
		"a pause of the process": {func(_ *testing.T, _ *silentBucket, m *Membership, _ *ring) { time.Sleep(m.opts.Fence + 1) }, "this node is passive"},
		"its heartbeat changed": {func(t *testing.T, b *silentBucket, _ *Membership, _ *ring) {
			if err := storage.PutHeartbeat(t.Context(), b, storage.Heartbeat{Member: "b", Count: 6}); err != nil {
				t.Error(err)
			}
		}, "heartbeat of member b changed"},
		"this node is replaced": {func(t *testing.T, b *silentBucket, _ *Membership, _ *ring) {
			if won, err := storage.CreateEpoch(t.Context(), b, storage.Epoch{N: 2, Nonce: "n", Members: rows("b@b:1")}); err != nil || !won {
				t.Error(won, err)
			}
		}, "this node is replaced"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newSilentBucket(t)
				m, err := New(b, Self{ID: "a", Node: "a:1"}, nil)
				if err != nil {
					t.Fatal(err)
				}
				e := storage.Epoch{N: 1, Nonce: "n", Members: rows("a@a:1 b@b:1")}
				if won, err := storage.CreateEpoch(t.Context(), b, e); err != nil || !won {
					t.Fatal(won, err)
				}
				err = errors.Join(storage.PutHeartbeat(t.Context(), b, storage.Heartbeat{Member: "b", Count: 5}), m.beat(t.Context()))
				if err != nil {
					t.Fatal(err)
				}
				m.learn(e, time.Now())
				var r ring
				r.observe([]string{"b"}, []observation{{mark: 5}}, 0, 1)
				tt.against(t, b, m, &r)
				done, err := m.expel(t.Context(), &r, []string{"b"})
				var aborted *expelAbortedError
				switch {
				case tt.want == "" && (err != nil || rowText(done.epoch.Members) != "a@a:1" || m.known().N != 2):
					t.Errorf("got %+v, %v", done, err)
				case tt.want != "" && (!errors.As(err, &aborted) || aborted.why != tt.want):
					t.Errorf("got %v, want %q", err, tt.want)
				}
			})
		})
	}
}

// TestPublishInOrder: an older epoch is seen after a newer one because of a slow request.
func TestPublishInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []int64
		m, err := New(newSilentBucket(t), Self{ID: "a"}, &Options{Publish: func(v View) { got = append(got, v.Epoch) }})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int64{2, 1, 2, 5, 4} {
			m.learn(storage.Epoch{N: n, Members: rows("a")}, time.Now())
		}
		if diff := cmp.Diff([]int64{2, 5}, got); diff != "" || m.known().N != 5 {
			t.Errorf("known is %d, published (-want +got):\n%s", m.known().N, diff)
		}
	})
}
