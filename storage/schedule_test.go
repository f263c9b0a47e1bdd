package storage_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
	"github.com/parleyrun/parley/storage/storagetest"
)

// schedule is one random run of several writers of one conversation over a faulty
// network. It is a function of its seed.
type schedule struct {
	seed  uint64
	store *local.Store

	mu     sync.Mutex
	acked  map[int64][]byte       // Lines that were acknowledged, by sequence number.
	seen   map[int64]storage.Hash // What readers saw, and what was acknowledged.
	nonces int
	broken string // The first violation.
}

const scheduleWriters = 3

// runSchedule returns the violation of a schedule, "" if there is none, the log at
// its end and how many batches were acknowledged.
func runSchedule(t *testing.T, seed uint64) (violation string, log []storage.Batch, acks int) {
	synctest.Test(t, func(t *testing.T) {
		s := &schedule{seed: seed, store: memory(t), acked: make(map[int64][]byte), seen: make(map[int64]storage.Hash)}
		var wg sync.WaitGroup
		networks := make([]*storagetest.FaultTransport, scheduleWriters)
		for i := range networks {
			networks[i] = storagetest.Faulty(s.store, s.plan(uint64(i)))
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			logs := storage.NewLogs(unsigned(t, networks[i]), nil)
			wg.Go(func() { s.write(t.Context(), logs, rng) })
		}
		wg.Wait()
		for _, n := range networks {
			n.Release()
		}
		log = s.check(t.Context(), storage.NewLogs(unsigned(t, s.store), nil))
		violation, acks = s.broken, len(s.acked)
	})
	return violation, log, acks
}

// plan makes every third schedule free of faults, and one in three rough. A
// request may take longer than an attempt lasts.
func (s *schedule) plan(writer uint64) storagetest.Plan {
	share := []float64{0, .02, .06}[s.seed%3]
	p := storagetest.Plan{Seed: s.seed*scheduleWriters + writer, Latency: 1500 * time.Millisecond, Rates: make(map[storagetest.Kind]float64)}
	for _, k := range []storagetest.Kind{storagetest.LostAck, storagetest.Delayed, storagetest.Duplicate, storagetest.ErrorBefore, storagetest.ErrorAfter, storagetest.Timeout} {
		p.Rates[k] = share
	}
	return p
}

// write is one node: it opens the log, appends for a while under a new nonce, is
// fenced or gives up, and opens it again.
func (s *schedule) write(ctx context.Context, logs *storage.Logs, rng *rand.Rand) {
	known := storage.Start()
	for range 3 {
		pause(rng, 8*time.Second)
		at, err := s.read(ctx, logs, known)
		known = at
		if err != nil {
			continue
		}
		w := logs.Writer(keyOf("x"), s.nonce(), at, 1)
		for range 1 + rng.IntN(5) {
			pause(rng, time.Second)
			if err := s.append(ctx, w, rng); err != nil {
				break
			}
		}
	}
}

func pause(rng *rand.Rand, limit time.Duration) { time.Sleep(time.Duration(rng.Int64N(int64(limit)))) }

func (s *schedule) nonce() storage.Nonce {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nonces++
	return storage.Nonce(fmt.Sprintf("n%d", s.nonces))
}

// append sends one batch, under a deadline that is sometimes too short. While it
// is under way more lines gather, which must wait for the next batch.
func (s *schedule) append(ctx context.Context, w *storage.Writer, rng *rand.Rand) error {
	limit := time.Minute
	if rng.IntN(8) == 0 {
		limit = 3 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	lines := fmt.Appendf(nil, "{\"by\":%q,\"id\":%d}\n", w.Nonce(), rng.Uint32())
	ctx = withPending(ctx, func() []byte {
		lines = append(lines, "{\"more\":true}\n"...)
		return lines
	})
	pos, err := w.Append(ctx, lines, 1)
	if err != nil {
		if !errors.Is(err, storage.ErrFenced) && !errors.Is(err, storage.ErrUncertain) {
			s.violate("append ends with %v", err)
		}
		return err
	}
	s.mu.Lock()
	earlier, twice := s.acked[pos.Seq]
	s.acked[pos.Seq] = lines
	s.mu.Unlock()
	if twice {
		s.violate("batch %d acknowledged twice: %q and %q", pos.Seq, earlier, lines)
	}
	s.saw(pos)
	return nil
}

// read follows the log from a position and returns where it ends.
func (s *schedule) read(ctx context.Context, logs *storage.Logs, at storage.Position) (storage.Position, error) {
	for b, err := range logs.Batches(ctx, keyOf("x"), at) {
		if err != nil {
			if !errors.Is(err, storage.ErrUnavailable) {
				s.violate("read after %d: %v", at.Seq, err)
			}
			return at, err
		}
		at = b.Position()
		s.saw(at)
	}
	return at, nil
}

// saw checks that a sequence number never changes what it stands for.
func (s *schedule) saw(pos storage.Position) {
	s.mu.Lock()
	was, known := s.seen[pos.Seq]
	s.seen[pos.Seq] = pos.Hash
	s.mu.Unlock()
	if known && was != pos.Hash {
		s.violate("batch %d was %s and is %s", pos.Seq, was, pos.Hash)
	}
}

// check reads the whole log over a clean network, after every late request has
// landed, and compares it with what was acknowledged.
func (s *schedule) check(ctx context.Context, logs *storage.Logs) []storage.Batch {
	var log []storage.Batch
	for b, err := range logs.Batches(ctx, keyOf("x"), storage.Start()) {
		if err != nil {
			s.violate("final read: %v", err)
			break
		}
		s.saw(b.Position())
		log = append(log, b)
	}
	for seq, lines := range s.acked {
		if seq >= int64(len(log)) {
			s.violate("acknowledged batch %d is gone", seq)
		} else if !bytes.Equal(log[seq].Lines, lines) {
			s.violate("acknowledged batch %d is %q, was %q", seq, log[seq].Lines, lines)
		}
	}
	return log
}

func (s *schedule) violate(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == "" {
		s.broken = fmt.Sprintf(format, args...)
	}
}

// TestSchedules runs random schedules with every rule in force.
func TestSchedules(t *testing.T) {
	const schedules, shares = 1000, 4
	for share := range uint64(shares) {
		t.Run(fmt.Sprintf("share %d", share), func(t *testing.T) {
			t.Parallel()
			total := 0
			for seed := share; seed < schedules; seed += shares {
				violation, _, acks := runSchedule(t, seed)
				if violation != "" {
					t.Fatalf("seed %d: %s", seed, violation)
				}
				total += acks
			}
			t.Logf("%d batches acknowledged", total)
			if total < 8*schedules/shares {
				t.Errorf("%d batches acknowledged in %d schedules: too few to show anything", total, schedules/shares)
			}
		})
	}
}

// TestScheduleIsReproducible checks that a seed stands for one run.
func TestScheduleIsReproducible(t *testing.T) {
	for seed := range uint64(12) {
		_, first, _ := runSchedule(t, seed)
		_, second, _ := runSchedule(t, seed)
		if diff := cmp.Diff(first, second); diff != "" {
			t.Errorf("seed %d (-first +second):\n%s", seed, diff)
		}
	}
}
