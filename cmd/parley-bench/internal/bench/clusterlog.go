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

type written struct {
	seq   int64
	nonce storage.Nonce
}

// logView is the log of a conversation as read so far. It belongs to one goroutine.
type logView struct {
	key     conversation.Key
	after   storage.Position
	batches []written

	// by submission: attempts begun and not released, and settlements
	attempts, settled map[string]int
}

func newLogView(id string) *logView {
	return &logView{
		key: conversation.Address{Agent: agentName, ID: id}.Key(), after: storage.Start(), attempts: map[string]int{}, settled: map[string]int{},
	}
}

func (s *logView) read(ctx context.Context, logs *storage.Logs) error {
	for b, err := range logs.Batches(ctx, s.key, s.after) {
		if err != nil {
			return fmt.Errorf("read log of %s: %w", s.key, err)
		}
		records, err := conversation.DecodeRecords(b.Lines)
		if err != nil {
			return fmt.Errorf("read batch %d of %s: %w", b.Seq, s.key, err)
		}
		s.add(written{b.Seq, b.Nonce}, records...)
		s.after = b.Position()
	}
	return nil
}

func (s *logView) add(b written, records ...conversation.Record) {
	s.batches = append(s.batches, b)
	for _, r := range records {
		switch r := r.(type) {
		case *conversation.AttemptStarted:
			s.attempts[string(r.Submission)]++
		case *conversation.AttemptReleased:
			s.attempts[string(r.Submission)]--
		case *conversation.SubmissionSettled:
			s.settled[string(r.Submission)]++
		}
	}
}

// resumed returns the first batch of another writer than that of batch seen: the turn was interrupted
// after it. Batches in between come from the old writer and were in flight. It returns false if there
// is no other writer.
func (s *logView) resumed(seen int64) (int64, bool) {
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

const (
	auditAtOnce  = 8
	auditTimeout = 30 * time.Second
)

// audit counts the outcomes of acknowledged messages.
type audit struct {
	// lost counts messages without a settlement within auditTimeout, twice those with several.
	// consumed counts the attempts beyond the first.
	lost, twice, consumed int
}

// count counts the submissions of a log, and returns those counted as lost, twice or consumed.
func (a *audit) count(s *logView, submissions ...string) string {
	var odd []string
	for _, id := range submissions {
		settled, attempts := s.settled[id], s.attempts[id]
		switch {
		case settled == 0:
			a.lost++
		case settled > 1:
			a.twice++
		}
		a.consumed += max(0, attempts-1)
		if settled != 1 || attempts > 1 {
			odd = append(odd, fmt.Sprintf("submission %s was settled %d times after %d attempts", id, settled, attempts))
		}
	}
	return strings.Join(odd, ", ")
}

// audit reads the logs of conversations until every acknowledged message is settled, or until
// auditTimeout.
func (c *cluster) audit(ctx context.Context, acknowledged map[string][]string) (audit, error) {
	var sum audit
	var mu sync.Mutex
	end := time.Now().Add(auditTimeout)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(auditAtOnce)
	for id, submissions := range acknowledged {
		g.Go(func() error {
			s := newLogView(id)
			for {
				if err := s.read(ctx, c.logs); err != nil {
					return err
				}
				receipts := slices.ContainsFunc(submissions, func(id string) bool { return s.settled[id] == 0 })
				if !receipts || time.Now().After(end) {
					break
				}
				if err := pause(ctx, 100*time.Millisecond); err != nil {
					return err
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if odd := sum.count(s, submissions...); odd != "" && !c.killing {
				fmt.Fprintf(c.o.Progress, "%s: conversation %s (%s): %s\n", c.Name, id, s.key, odd)
			}
			return nil
		})
	}
	err := g.Wait()
	return sum, err
}
