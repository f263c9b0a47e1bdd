package actors_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage"
)

// slowLog is a bucket with slow reads of batches. It counts the reads of each.
type slowLog struct {
	storage.Bucket
	takes time.Duration

	mu   sync.Mutex
	read map[string]int
}

func (s *slowLog) Get(ctx context.Context, key string) ([]byte, error) {
	if strings.Contains(key, "/log/") {
		s.mu.Lock()
		if s.read == nil {
			s.read = map[string]int{}
		}
		s.read[key]++
		s.mu.Unlock()
		select {
		case <-time.After(s.takes):
		case <-ctx.Done():
			return nil, &storage.Error{Op: "get", Key: key, Kind: storage.ErrUnavailable, Err: ctx.Err()}
		}
	}
	return s.Bucket.Get(ctx, key)
}

// readOnce fails the test unless n batches of a conversation were read, once each.
func (s *slowLog) readOnce(t *testing.T, at conversation.Address, n int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	found := 0
	for key, times := range s.read {
		if strings.HasPrefix(key, storage.FolderOf(at.Key())) {
			if found++; times != 1 {
				t.Errorf("got reads of %s: %d", key, times)
			}
		}
	}
	if found != n {
		t.Errorf("got %d batches read, want %d", found, n)
	}
}

// TestLongLogIsOpened: a log is opened once if each batch arrives in time, however long the
// whole takes. A caller that times out and retries finds the same opening.
func TestLongLogIsOpened(t *testing.T) {
	const turns = 200 // 8 at a time
	at := chat("c")
	opts := agents(chatAgent())
	opts.CheckpointBatches, opts.SegmentBatches = 10*turns, 10*turns // otherwise segments would read them
	slow := func(s *slowLog) func(storage.Bucket) storage.Bucket {
		return func(b storage.Bucket) storage.Bucket {
			s.Bucket, s.takes = b, 9*time.Second
			return s
		}
	}
	t.Run("for callers", func(t *testing.T) {
		inLoop(t, func(t *testing.T, l *loop) {
			l.settledTurns(at, turns, "and so on")
			var log slowLog
			n := l.run(part{opts: opts, vendor: onlyModel(replies("ok")), over: slow(&log)})
			began, refused := time.Now(), 0
			for ; time.Since(began) < time.Hour; refused++ {
				_, err := n.rt.Admit(t.Context(), message(at, "next", "hello"))
				if err == nil {
					break
				}
				time.Sleep(codeIs(t, err, conversation.CodeAdmissionUnknown).RetryAfter)
			}
			if took := time.Since(began); refused == 0 || took < 3*time.Minute || took > 5*time.Minute {
				t.Errorf("got admission after %v and %d rejections", took, refused)
			}
			log.readOnce(t, at, turns)
			l.completes(at, turns+1)
		})
	})
	t.Run("for a probe", func(t *testing.T) {
		inLoop(t, func(t *testing.T, l *loop) {
			l.settledTurns(at, turns, "and so on")
			var log slowLog
			n := l.run(part{opts: opts, vendor: onlyModel(replies("ok")), over: slow(&log)})
			refused := make(chan error)
			go func() {
				_, err := n.rt.Admit(t.Context(), message(at, "next", "hello"))
				refused <- err
			}()
			time.Sleep(5 * time.Second)
			began := time.Now()
			if err := n.stop(); err != nil || time.Since(began) > time.Second {
				t.Errorf("shutdown during an opening: got %v, %v", time.Since(began), err)
			}
			codeIs(t, <-refused, conversation.CodeUnavailable)
		})
	})
	t.Run("for a sweep", func(t *testing.T) {
		inLoop(t, func(t *testing.T, l *loop) {
			l.settledTurns(at, turns, "and so on")
			asked := make(chan struct{}, 1)
			n := l.run(part{opts: opts, vendor: onlyModel(func(ctx context.Context, _ providers.Request, _ *providers.Assembler) error {
				asked <- struct{}{}
				<-ctx.Done()
				return ctx.Err()
			})})
			n.admit(at, "next", "hello")
			<-asked
			n.crash()
			left, began := len(l.batches(at)), time.Now()
			var log slowLog
			l.run(part{opts: opts, vendor: onlyModel(replies("ok")), over: slow(&log)})
			l.until("the next attempt", func() bool { return len(l.batches(at)) > left })
			if took := time.Since(began); took < 3*time.Minute || took > 5*time.Minute {
				t.Errorf("got takeover after %v", took)
			}
			log.readOnce(t, at, left)
			l.completes(at, turns+1)
		})
	})
}
