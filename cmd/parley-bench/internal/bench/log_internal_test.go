package bench

import (
	"bytes"
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/internal/s3front"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
)

// Payloads are valid records of the requested size, equal in every run, and compress as text does.
func TestPayloads(t *testing.T) {
	for _, size := range []int{1 << 10, 8 << 10} {
		pool, err := payloads(size)
		again, _ := payloads(size)
		if err != nil || len(pool) == 0 {
			t.Fatal(err)
		}
		for i, p := range pool {
			b, err := storage.DecodeBatch(p.object, 0)
			if err != nil || !bytes.Equal(b.Lines, p.lines) {
				t.Fatalf("payload %d is another batch: %v", i, err)
			}
			records, err := conversation.DecodeRecords(p.lines)
			if err != nil || len(records) != 1 || len(p.lines) != size {
				t.Fatalf("payload %d: %d records, %d bytes, %v", i, len(records), len(p.lines), err)
			}
			if !bytes.Equal(p.object, again[i].object) {
				t.Errorf("payload %d differs from run to run", i)
			}
			if i > 0 && bytes.Equal(p.lines, pool[0].lines) {
				t.Errorf("payload %d is the first one", i)
			}
			text := records[0].(*conversation.Delta).Text
			if words := len(strings.Fields(text)); words < size/12 {
				t.Errorf("payload %d has %d words", i, words)
			}
		}
	}
}

// Every record is stored once, in order, and no batch exceeds the limit of waiting records.
func TestStream(t *testing.T) {
	store := local.NewMemory()
	defer store.Close()
	j := &job{runner: &runner{limits: bounds{long: time.Hour}}, Scenario: &Scenario{}, n: 60_000 * streamLine}
	l := &logJob{job: j, bucket: store, logs: storage.NewLogs(store, nil), id: "x"}
	if err := saturated(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	if l.Samples != 60_000 || l.convs != 1 {
		t.Errorf("%d samples in %d conversations", l.Samples, l.convs)
	}
	lines, err := deltas(streamLines, streamLine)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for b, err := range l.logs.Batches(t.Context(), conversation.Address{Agent: "parley-bench", ID: "x-1"}.Key(), storage.Start()) {
		if err != nil {
			t.Fatal(err)
		}
		if len(b.Lines) > streamWaiting+streamLine {
			t.Errorf("a batch has %d bytes", len(b.Lines))
		}
		if b.Seq == 0 { // the claim
			continue
		}
		for line := range bytes.Lines(b.Lines) {
			if !bytes.Equal(line, lines[n%streamLines]) {
				t.Fatalf("record %d is %s", n, line)
			}
			n++
		}
	}
	if n != 60_000 {
		t.Errorf("%d records", n)
	}
}

// failing is a bucket whose creates fail after some successes.
type failing struct {
	storage.Bucket
	left atomic.Int64
}

func (f *failing) Create(ctx context.Context, key string, body storage.Body) error {
	if f.left.Add(-1) < 0 {
		return &storage.Error{Op: "create", Key: key, Kind: storage.ErrRefused, Err: errors.New("enough")}
	}
	return f.Bucket.Create(ctx, key, body)
}

// A refused write fails its rows only. All written objects are removed.
func TestLogFailures(t *testing.T) {
	store := local.NewMemory()
	defer store.Close()
	some := &failing{Bucket: store}
	some.left.Store(100)
	server := httptest.NewServer(s3front.New(some))
	defer server.Close()
	o := Options{Bucket: &config.Bucket{Endpoint: server.Listener.Addr().String(), Name: s3front.Bucket}, Percent: 1}
	ctx, stop := context.WithCancelCause(t.Context())
	r, err := Run(ctx, Log, o)
	if err != nil || r.Failed() == 0 || r.Failed() == len(r.Scenarios) || r.Bucket != o.Bucket.Place() {
		t.Errorf("%d of %d failed: %v", r.Failed(), len(r.Scenarios), err)
	}
	for _, s := range r.Scenarios {
		if s.Error != "" && (s.Samples != 0 || len(s.Metrics) != 0 || !strings.Contains(s.Error, "enough")) {
			t.Errorf("failed row %+v", s)
		}
	}
	if page, err := store.List(t.Context(), storage.ListQuery{}); err != nil || len(page.Keys) != 0 {
		t.Errorf("files left: %v, %v", page.Keys, err)
	}
	gone := errors.New("gone")
	stop(gone)
	if r, err = Run(ctx, Log, o); err != nil || r.Failed() != len(Log.Names()) || r.Scenarios[0].Error != "gone" {
		t.Errorf("after the end: %+v, %v", r, err)
	}
}
