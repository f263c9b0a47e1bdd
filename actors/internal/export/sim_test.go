package export_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/actors/internal/export"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/storagetest"
)

// simulation is several nodes over one bucket, with the part of package actors that matters here: the
// pending-work journal, from which conversations are reopened after a crash, and checkpoints.
type simulation struct {
	*testing.T
	rand   *rand.Rand
	bucket storage.Bucket // without faults
	faulty *storagetest.FaultBucket
	sinks  []*sink
	watch  *watcher
	books  []*simBook
	nodes  []*node
	names  int
	fenced []func() // close activations that are fenced without knowing
	healed bool
}

type simBook struct {
	*logbook
	owner *node  // where it is open, or nil
	busy  bool   // listed in a pending-work journal
	idle  bool   // wants to leave the journal
	gap   bool   // its last batch was not offered, so its owner is not done
	saved *int64 // cursor in its checkpoint
}

type node struct {
	*export.Exporter
	name       string
	connection *connection
	stop       func()
}

// connection is a node's connection to bucket and sinks, which a crash cuts. While the node is paused,
// its requests wait.
type connection struct {
	storage.Bucket
	mu      sync.Mutex
	crashed bool
	until   time.Time // end of the newest pause
}

func (m *connection) pause(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.until = time.Now().Add(d)
}

func (m *connection) paused() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Until(m.until)
}

func (m *connection) gone() error {
	for d := m.paused(); d > 0; d = m.paused() {
		time.Sleep(d)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.crashed {
		return &storage.Error{Op: "use", Kind: storage.ErrRefused, Err: errors.New("node crashed")}
	}
	return nil
}

func (m *connection) Create(ctx context.Context, key string, body storage.Body) error {
	if err := m.gone(); err != nil {
		return err
	}
	return m.Bucket.Create(ctx, key, body)
}

func (m *connection) Get(ctx context.Context, key string) ([]byte, error) {
	if err := m.gone(); err != nil {
		return nil, err
	}
	return m.Bucket.Get(ctx, key)
}

func (m *connection) List(ctx context.Context, q storage.ListQuery) (storage.ListPage, error) {
	if err := m.gone(); err != nil {
		return storage.ListPage{}, err
	}
	return m.Bucket.List(ctx, q)
}

func (m *connection) Delete(ctx context.Context, key string) error {
	if err := m.gone(); err != nil {
		return err
	}
	return m.Bucket.Delete(ctx, key)
}

// watcher checks requests: one journal write per shard at a time, and the same bytes for each write of
// a key.
type watcher struct {
	storage.Bucket
	t        *testing.T
	mu       sync.Mutex
	inFlight map[string]string // key by shard
	bytes    map[string][32]byte
	newest   map[string]string
	starts   map[string]time.Time
	every    time.Duration
	late     map[string]bool // paused members, whose requests may be late
}

func (w *watcher) Create(ctx context.Context, key string, body storage.Body) error {
	shard := key[:strings.LastIndexByte(key, '/')]
	data, err := io.ReadAll(body.Reader)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	w.mu.Lock()
	if other, ok := w.inFlight[shard]; ok {
		w.t.Errorf("%s sent while %s is in flight", key, other)
	}
	if was, ok := w.bytes[key]; ok && was != sum {
		w.t.Errorf("%s sent with different bytes", key)
	}
	if key < w.newest[shard] {
		w.t.Errorf("%s sent after %s", key, w.newest[shard])
	}
	if _, again := w.bytes[key]; !again {
		member := strings.Split(key, "/")[1]
		if since := time.Since(w.starts[shard]); since < w.every && !w.late[member] {
			w.t.Errorf("%s sent %v after the previous one", key, since)
		}
		w.starts[shard] = time.Now()
	}
	w.inFlight[shard], w.bytes[key], w.newest[shard] = key, sum, key
	w.mu.Unlock()
	err = w.Bucket.Create(ctx, key, body)
	w.mu.Lock()
	delete(w.inFlight, shard)
	w.mu.Unlock()
	return err
}

func newWatcher(t *testing.T, b storage.Bucket, every time.Duration) *watcher {
	return &watcher{
		Bucket: b, t: t, inFlight: map[string]string{}, bytes: map[string][32]byte{},
		newest: map[string]string{}, starts: map[string]time.Time{}, every: every,
		late: map[string]bool{},
	}
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	store := memory(t)
	s := &simulation{T: t, rand: rand.New(rand.NewPCG(seed, 7)), bucket: store}
	s.faulty = storagetest.Faulty(store, storagetest.Plan{
		Seed: seed, Latency: 200 * time.Millisecond,
		Rates: map[storagetest.Kind]float64{
			storagetest.LostAck: 0.05, storagetest.Delayed: 0.05, storagetest.ErrorBefore: 0.05, storagetest.ErrorAfter: 0.05, storagetest.Timeout: 0.05,
		},
	})
	s.watch = newWatcher(t, s.faulty, 5*time.Second)
	for _, name := range []string{"a", "b"} {
		sink := newSink(t, name)
		r := rand.New(rand.NewPCG(seed, uint64(len(s.sinks))))
		down := false
		sink.outcome = func() (error, bool) {
			if r.IntN(8) == 0 {
				down = !down
			}
			switch p := r.IntN(24); {
			case down || p < 4:
				return errAway, r.IntN(2) == 0
			case p == 4:
				return errHangs, r.IntN(2) == 0
			case p == 5:
				panic("broken")
			}
			return nil, false
		}
		s.sinks = append(s.sinks, sink)
	}
	for range 3 {
		s.start()
	}
	for i := range 10 {
		s.books = append(s.books, &simBook{logbook: newLogbook(t, storage.NewLogs(s.bucket, nil), fmt.Sprint("c", i))})
	}
	return s
}

type nodeSink struct {
	*sink
	m *connection
}

func (s nodeSink) Write(ctx context.Context, events []observability.Event) error {
	if err := s.m.gone(); err != nil {
		return err
	}
	err := s.store(events)
	if errors.Is(err, errHangs) {
		<-ctx.Done()
	}
	return err
}

var errHangs = errors.New("hangs")

func (s *sink) store(events []observability.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outcome != nil {
		err, half := s.outcome()
		if half {
			s.take(events[:len(events)/2])
		}
		if err != nil {
			return err
		}
	}
	s.take(events)
	return nil
}

func (s *simulation) start() {
	s.names++
	n := &node{name: fmt.Sprint("node-", s.names), connection: &connection{Bucket: s.watch}}
	opts := &export.Options{
		Member: n.name, Project: project, FlushRows: 1 + s.rand.IntN(20), RetryPause: 200 * time.Millisecond,
		// Both may be smaller than one batch.
		FlushBytes: 1 + s.rand.IntN(8<<10), MemoryBytes: 1 + s.rand.IntN(8<<10), Readers: 1 + s.rand.IntN(2),
		WriteTimeout: time.Duration(1+s.rand.IntN(10)) * time.Second,
		Live:         func() ([]string, bool) { return s.viewOf(n) },
	}
	for _, sink := range s.sinks {
		opts.Sinks = append(opts.Sinks, nodeSink{sink, n.connection})
	}
	x, err := export.New(storage.NewLogs(n.connection, nil), n.connection, opts)
	if err != nil {
		s.Fatal(err)
	}
	n.Exporter = x
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := x.Run(ctx); err != nil {
			s.Error(err)
		}
	}()
	n.stop = func() { cancel(); <-done }
	s.watch.mu.Lock()
	s.nodes = append(s.nodes, n)
	s.watch.mu.Unlock()
}

// viewOf returns a node's view: the true one, sometimes only itself, so that two take over the same
// journals, and sometimes none.
func (s *simulation) viewOf(n *node) ([]string, bool) {
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	at := time.Now().UnixMilli() / 7
	if !s.healed && at%5 == 0 {
		return []string{n.name}, true
	}
	if !s.healed && at%5 == 1 {
		return nil, false
	}
	var names []string
	for _, other := range s.nodes {
		if other == n || other.connection.paused() <= 0 {
			names = append(names, other.name)
		}
	}
	return names, true
}

func (s *simulation) end(crash bool) {
	i := s.rand.IntN(len(s.nodes))
	n := s.nodes[i]
	if crash {
		n.connection.mu.Lock()
		n.connection.crashed = true
		n.connection.mu.Unlock()
	} else {
		for _, b := range s.books {
			if b.owner == n {
				b.idle = b.busy && !b.gap
			}
		}
	}
	s.watch.mu.Lock()
	s.watch.starts = map[string]time.Time{} // the last journal writes need not wait
	s.watch.every = 0
	s.watch.mu.Unlock()
	n.stop()
	s.watch.mu.Lock()
	s.watch.every = 5 * time.Second
	s.nodes = append(s.nodes[:i:i], s.nodes[i+1:]...)
	s.watch.mu.Unlock()
	for _, b := range s.books {
		if b.owner != n {
			continue
		}
		if !crash && b.idle && n.MayLeave(b.key) {
			b.busy = false
		}
		b.owner, b.idle = nil, false
	}
	s.start()
	for _, b := range s.books { // sweep of the pending-work journal
		if b.busy && b.owner == nil {
			s.open(b)
		}
	}
}

func (s *simulation) open(b *simBook) {
	for ok := false; !ok; ok = b.owner.connection.paused() <= 0 || s.rand.IntN(10) == 0 {
		b.owner = s.nodes[s.rand.IntN(len(s.nodes))]
	}
	b.takeOver()
	b.gap = false
	exported := int64(-1)
	if b.saved != nil {
		exported = *b.saved
	}
	src := b.src
	if s.rand.IntN(3) == 0 {
		src = observability.Source{}
	}
	b.owner.Open(b.key, src, exported, b.tail.Seq)
}

// stall pauses a node. The others consider it gone and take over its conversations. The node notices
// late.
func (s *simulation) stall() {
	n := s.nodes[s.rand.IntN(len(s.nodes))]
	n.connection.pause(time.Duration(s.rand.IntN(120)) * time.Second)
	s.watch.mu.Lock()
	s.watch.late[n.name] = true
	s.watch.mu.Unlock()
	for _, b := range s.books {
		if b.owner != n {
			continue
		}
		b.owner = nil
		if b.busy {
			b.idle = false
			s.open(b)
		}
		s.fenced = append(s.fenced, func() {
			if b.owner != n {
				n.Closed(b.key)
			}
		})
	}
}

// step does one random action on a conversation or a node.
func (s *simulation) step() {
	b := s.books[s.rand.IntN(len(s.books))]
	switch p := s.rand.IntN(100); {
	case p < 25:
		if b.owner == nil {
			s.open(b)
		}
		b.busy, b.idle = true, false
		src, batch := b.append()
		if b.gap = s.rand.IntN(20) == 0; !b.gap {
			b.owner.Offer(b.key, src, batch, nil)
		}
	case p < 55:
		b.idle = b.busy && !b.gap
	case p < 62:
		if b.owner != nil {
			if seq, ok := b.owner.Cursor(b.key); ok {
				b.saved = &seq
			}
		}
	case p < 67:
		// Passivated after it has left, or moved to another node while it is busy: the other node
		// lists it in its pending-work journal before this one releases it. A node may notice late
		// that it is fenced.
		if b.owner != nil {
			late := b.owner
			if s.rand.IntN(2) == 0 {
				late.Closed(b.key)
				late = nil
			}
			b.owner = nil
			if b.busy {
				b.idle = false
				s.open(b)
			}
			if late != nil && late != b.owner {
				s.fenced = append(s.fenced, func() { late.Closed(b.key) })
			}
		}
	case p < 70 && len(s.fenced) > 0:
		s.fenced[0]()
		s.fenced = s.fenced[1:]
	case p < 71:
		s.stall()
	case p < 74:
		s.end(s.rand.IntN(3) > 0)
	default:
		time.Sleep(time.Duration(s.rand.IntN(4000)) * time.Millisecond)
	}
	for _, b := range s.books {
		if b.idle && b.owner != nil && b.owner.connection.paused() <= 0 && b.owner.MayLeave(b.key) {
			b.busy, b.idle = false, false
		}
	}
}

// heal ends all faults. Every busy conversation is then open and offers its last batch.
func (s *simulation) heal() {
	s.faulty.Heal()
	s.faulty.Release()
	for _, sink := range s.sinks {
		sink.set(func() { sink.outcome = nil })
	}
	s.watch.mu.Lock()
	s.healed = true
	s.watch.mu.Unlock()
	for _, b := range s.books {
		if b.busy {
			if b.owner == nil {
				s.open(b)
			}
			src, batch := b.append()
			b.owner.Offer(b.key, src, batch, nil)
		}
	}
	time.Sleep(10 * time.Minute)
}

func (s *simulation) check() {
	var books []*logbook
	for _, b := range s.books {
		books = append(books, b.logbook)
	}
	want := merge(books...)
	for _, sink := range s.sinks {
		got, _, _ := sink.got()
		for id, line := range want {
			if got[id] != line {
				s.Errorf("sink %s lacks %s", sink.name, id)
			}
		}
		for id := range got {
			if want[id] == "" {
				s.Errorf("sink %s has %s, which is in no log", sink.name, id)
			}
		}
	}
	alive := map[string]bool{}
	for _, n := range s.nodes {
		alive[n.name] = true
		if st := n.Status(); st.Waiting != 0 || st.Bytes != 0 || st.Behind != 0 || st.Listed != 0 || st.Lag != 0 || st.Lost != 0 {
			s.Errorf("status of %s: %+v", n.name, st)
		}
	}
	for member, listed := range journals(s, s.bucket) {
		if !alive[member] || len(listed) > 0 {
			s.Errorf("journal of %s lists %v", member, listed)
		}
	}
	for _, b := range s.books {
		if b.owner != nil && !b.owner.MayLeave(b.key) {
			s.Errorf("%s may not leave at the end", b.at.ID)
		}
	}
}

// TestNothingIsLost: over random schedules of batches, failing sinks and buckets, and nodes that
// crash, pause, end and take over from each other, the sinks finally have the projection of all logs.
// A conversation that may leave depends on the exporters alone: it is not reopened after a crash.
func TestNothingIsLost(t *testing.T) {
	for seed := range sample.Of(40, 5) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulation(t, uint64(seed))
				for range 400 {
					s.step()
				}
				s.heal()
				s.check()
				for _, n := range s.nodes {
					n.stop()
				}
				if left := journals(t, s.bucket); len(left) > 0 {
					t.Errorf("journals after an orderly end: %v", left)
				}
			})
		})
	}
}
