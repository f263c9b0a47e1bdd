package actors

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/parleyrun/parley/actors/internal/pending"
	"github.com/parleyrun/parley/internal/waiting"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
	"github.com/parleyrun/parley/storage/storagetest"
)

// JournalLinger is the journal's linger, for external tests.
const JournalLinger = pending.Linger

// Activations counts the conversations in memory, for external tests.
func (r *Runtime) Activations() int {
	return int(r.active.count())
}

// fakeHost is a host whose owners answer as the test defines.
type fakeHost struct {
	answer func(id string) (proto.Message, error)
}

func (o *fakeHost) Start(context.Context) error { return nil }
func (o *fakeHost) Stop(context.Context) error  { return nil }
func (o *fakeHost) MemberID() string            { return "me" }

func (o *fakeHost) Request(_ context.Context, id string, _ proto.Message) (proto.Message, error) {
	return o.answer(id)
}

// runtimeWithHost returns a runtime whose owners are the oracle.
func runtimeWithHost(t *testing.T, bucket storage.Bucket, o *fakeHost, opts *Options) *Runtime {
	t.Helper()
	r, err := newRuntime(bucket, opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.attach(o); err != nil {
		t.Fatal(err)
	}
	return r
}

func memoryBucket(t *testing.T) storage.Bucket {
	t.Helper()
	return waiting.ToClose(t, local.NewMemory())
}

// sharedBucket returns a bucket in memory, initialized by a node, that nodes of this process can
// share.
func sharedBucket(t *testing.T) storage.Bucket {
	t.Helper()
	bucket := storagetest.Shared(memoryBucket(t))
	if err := storage.EnsureFormat(t.Context(), bucket); err != nil {
		t.Fatal(err)
	}
	if _, err := storage.EnsureProbed(t.Context(), bucket, "", time.Now(), nil); err != nil {
		t.Fatal(err)
	}
	return bucket
}

type blank struct{ storage.Bucket }

func (blank) List(context.Context, storage.ListQuery) (storage.ListPage, error) {
	return storage.ListPage{}, nil
}
