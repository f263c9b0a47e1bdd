package actors_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/internal/waiting"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage"
)

// heldBucket holds some requests.
type heldBucket struct {
	storage.Bucket
	get, create func(ctx context.Context, key string)
}

func (b *heldBucket) Get(ctx context.Context, key string) ([]byte, error) {
	if b.get != nil {
		b.get(ctx, key)
	}
	if err := ctx.Err(); err != nil {
		return nil, &storage.Error{Op: "get", Key: key, Kind: storage.ErrUnavailable, Err: err}
	}
	return b.Bucket.Get(ctx, key)
}

func (b *heldBucket) Create(ctx context.Context, key string, body storage.Body) error {
	if b.create != nil {
		b.create(ctx, key)
	}
	if err := ctx.Err(); err != nil {
		return &storage.Error{Op: "create", Key: key, Kind: storage.ErrUncertain, Err: err}
	}
	return b.Bucket.Create(ctx, key, body)
}

// over starts a cluster node over a bucket.
func (w *world) over(b *heldBucket, o actors.Options, model providers.Protocol) *node {
	w.tb.Helper()
	b.Bucket = w.bucket
	o.Providers = providers.NewRegistry(nil)
	o.Providers.RegisterProtocol("test", model)
	if err := o.Providers.RegisterProvider("test", providers.Registration{API: "test", BaseURL: "test:"}); err != nil {
		w.tb.Fatal(err)
	}
	rt, err := actors.New(b, &o)
	if err != nil {
		w.tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = rt.Run(ctx)
	}()
	w.tb.Cleanup(func() {
		cancel()
		<-done
	})
	<-rt.Ready()
	return &node{w: w, rt: rt, log: &waiting.Log{}}
}

// TestStagedAdmissionSurvivesHandOver: the owner is drained while it reads an admission from the
// bucket. The caller is redirected, not rejected.
func TestStagedAdmissionSurvivesHandOver(t *testing.T) {
	if isolated(t) {
		return
	}
	w := newWorld(t)
	o := clustered(agents(chatAgent()))
	o.AdmitTimeout = patience
	reading := make(chan struct{}, 10)
	owner := w.over(&heldBucket{get: func(ctx context.Context, key string) {
		if strings.Contains(key, "staged/") {
			reading <- struct{}{}
			<-ctx.Done()
		}
	}}, o, emits(1))
	other := w.start(setup{opts: o, model: emits(1)})
	w.meet([]*node{owner, other})
	at := ownedBy(t, owner, "c")
	answer := make(chan error, 1)
	go func() {
		_, err := other.rt.Admit(context.Background(), message(at, "k", strings.Repeat("x", 1<<20)))
		answer <- err
	}()
	await(t, reading, "the read of the staged admission")
	if _, err := actors.SetDraining(context.Background(), w.bucket, owner.rt.Status().Member, true); err != nil {
		t.Fatal(err)
	}
	if err := await(t, answer, "the answer"); err != nil {
		t.Errorf("rejected during the handover: %v", err)
	}
}

// TestHandOverIsRetried: a failed handover can be retried, and a node does not report a handover that has
// not happened.
func TestHandOverIsRetried(t *testing.T) {
	if isolated(t) {
		return
	}
	w := newWorld(t)
	o := clustered(agents(chatAgent()))
	o.DrainTimeout = 2 * patience
	ctx, cancel := context.WithCancel(context.Background())
	var stall atomic.Bool
	resume := make(chan struct{})
	owner := w.over(&heldBucket{create: func(ctx context.Context, key string) {
		if stall.Load() && strings.Contains(key, "members/") {
			cancel()
			select {
			case <-ctx.Done():
			case <-resume:
			}
		}
	}}, o, make(stage))
	other := w.start(setup{opts: o, model: make(stage)})
	w.meet([]*node{owner, other})
	at := ownedBy(t, owner, "c")
	owner.admit(at, "k", "x")
	stall.Store(true)
	if err := owner.rt.HandOver(ctx); err == nil {
		t.Fatal("handover returned before the row was draining")
	}
	stall.Store(false)
	close(resume)
	if err := owner.rt.HandOver(context.Background()); err != nil {
		t.Error(err)
	}
	if got := owner.rt.Status().Active; got != 0 {
		t.Errorf("got nil from the second handover with %d active conversations", got)
	}
}
