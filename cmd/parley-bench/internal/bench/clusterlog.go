package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// written is a batch and who wrote it.
type written struct {
	seq   int64
	nonce storage.Nonce
}

// task is a submission as the log has it.
type task struct {
	attempts int // Begun and not released.
	settled  int
}

// story is what the log of a conversation says so far. It belongs to one goroutine.
type story struct {
	key     conversation.Key
	after   storage.Position
	tasks   map[string]*task
	batches []written
}

func newStory(id string) *story {
	return &story{
		key: conversation.Address{Agent: agentName, ID: id}.Key(), after: storage.Start(), tasks: map[string]*task{},
	}
}

// read goes on to the end of the log.
func (s *story) read(ctx context.Context, logs *storage.Logs) error {
	for b, err := range logs.Batches(ctx, s.key, s.after) {
		if err != nil {
			return fmt.Errorf("read log of %s: %w", s.key, err)
		}
		records, err := conversation.DecodeRecords(b.Lines)
		if err != nil {
			return fmt.Errorf("read batch %d of %s: %w", b.Seq, s.key, err)
		}
		s.add(written{b.Seq, b.Nonce}, records)
		s.after = b.Position()
	}
	return nil
}

func (s *story) add(b written, records []conversation.Record) {
	s.batches = append(s.batches, b)
	for _, r := range records {
		switch r := r.(type) {
		case *conversation.AttemptStarted:
			s.task(string(r.Submission)).attempts++
		case *conversation.AttemptReleased:
			s.task(string(r.Submission)).attempts--
		case *conversation.SubmissionSettled:
			s.task(string(r.Submission)).settled++
		}
	}
}

func (s *story) task(id string) *task {
	if s.tasks[id] == nil {
		s.tasks[id] = &task{}
	}
	return s.tasks[id]
}

// resumed returns the first batch of another writer than the one that wrote batch
// seen: the turn was interrupted after it. Batches in between are of the old writer,
// and were under way. It is false if nobody else wrote.
func (s *story) resumed(seen int64) (int64, bool) {
	at := slices.IndexFunc(s.batches, func(b written) bool { return b.seq == seen })
	if at < 0 {
		return 0, false
	}
	for _, b := range s.batches[at:] {
		if b.nonce != s.batches[at].nonce {
			return b.seq, true
		}
	}
	return 0, false
}

// Bounds of an audit.
const (
	auditAtOnce  = 8
	auditTimeout = 30 * time.Second
)

// audit is what became of acknowledged messages.
type audit struct {
	// lost have no settlement within auditTimeout, twice more than one. consumed are
	// attempts beyond the first of each.
	lost, twice, consumed int
}

// judge adds up what a log says about submissions.
func (a *audit) judge(s *story, submissions []string) {
	for _, id := range submissions {
		t := s.task(id)
		switch {
		case t.settled == 0:
			a.lost++
		case t.settled > 1:
			a.twice++
		}
		a.consumed += max(0, t.attempts-1)
	}
}

// odd names the submissions that an audit counts.
func (s *story) odd(submissions []string) string {
	var all []string
	for _, id := range submissions {
		if t := s.task(id); t.settled != 1 || t.attempts > 1 {
			all = append(all, fmt.Sprintf("submission %s was settled %d times after %d attempts", id, t.settled, t.attempts))
		}
	}
	return strings.Join(all, ", ")
}

// owes reports whether a submission is not settled yet.
func (s *story) owes(submissions []string) bool {
	return slices.ContainsFunc(submissions, func(id string) bool { return s.task(id).settled == 0 })
}

// audit reads the logs of conversations until everything acknowledged in them is
// settled, or for as long as it may take.
func (n *nodes) audit(ctx context.Context, acknowledged map[string][]string) (audit, error) {
	var sum audit
	var mu sync.Mutex
	end := time.Now().Add(auditTimeout)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(auditAtOnce)
	for id, submissions := range acknowledged {
		g.Go(func() error {
			s := newStory(id)
			for {
				if err := s.read(ctx, n.logs); err != nil {
					return err
				}
				if !s.owes(submissions) || time.Now().After(end) {
					break
				}
				select {
				case <-time.After(100 * time.Millisecond):
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			before := sum
			if sum.judge(s, submissions); sum != before && !n.killing {
				n.c.note("%s: conversation %s (%s): %s", n.name, id, s.key, s.odd(submissions))
			}
			return nil
		})
	}
	err := g.Wait()
	return sum, err
}
