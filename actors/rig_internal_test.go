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

// JournalLinger is for the external tests.
const JournalLinger = pending.Linger

// Activations counts the conversations in memory, for the external tests.
func (r *Runtime) Activations() int {
	return int(r.active.count())
}

// oracle is a host whose owners answer what the test says.
type oracle struct {
	answer func(id string) (proto.Message, error)
}

func (o *oracle) Start(context.Context) error { return nil }
func (o *oracle) Stop(context.Context) error  { return nil }
func (o *oracle) MemberID() string            { return "me" }

func (o *oracle) Request(_ context.Context, id string, _ proto.Message) (proto.Message, error) {
	return o.answer(id)
}

// oracular makes a runtime on a bucket whose owners are the oracle.
func oracular(t *testing.T, bucket storage.Bucket, o *oracle, opts *Options) *Runtime {
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

// sharedBucket is one in memory that nodes of one process are members of. A node has
// begun it.
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

// blank is an empty bucket.
type blank struct{ storage.Bucket }

func (blank) List(context.Context, storage.ListQuery) (storage.ListPage, error) {
	return storage.ListPage{}, nil
}
