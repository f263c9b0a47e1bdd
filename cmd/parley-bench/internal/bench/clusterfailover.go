package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/parleyrun/parley/conversation"
)

const (
	// streamedReply takes six seconds, so that it is streaming when a node is killed.
	streamedReply = "pace=200ms tokens=30"
	// Bounds of the random delay of a kill after all replies have begun.
	killAfter, killBefore = 200 * time.Millisecond, 2200 * time.Millisecond
	// settleTimeout bounds the time from a kill to the settlement of the turns.
	settleTimeout = time.Minute
)

// Amounts of a failover: the streaming turns at each kill, the requests per second of the load, and
// its conversations.
var (
	streamedTurns = amount[int]{60, 30}
	failoverRate  = amount[int]{20, 10}
	failoverPool  = amount[int]{60, 50}
)

// follower is a live reader of one turn that reconnects to another node when its stream ends. One
// goroutine owns it until that returns.
type follower struct {
	id         string
	turn       receipt
	firstToken chan struct{} // closed at the first token
	seen       []arrival
	ends       int // streams that ended before the turn did
}

// follow reads at nodes outside of a place until the turn is settled.
func (f *follower) follow(ctx context.Context, c *cluster, but int) error {
	next, begun := f.turn.Offset, false
	for ; ; f.ends++ {
		if f.ends > 0 {
			if err := pause(ctx, 50*time.Millisecond); err != nil {
				return fmt.Errorf("follow %s: %w", f.id, err)
			}
		}
		l := c.pick(c.place(but))
		if l == nil {
			continue
		}
		s, err := l.follow(ctx, f.id, next)
		if err != nil {
			continue
		}
		var outcome error
		err = s.until(func(chunks []byte) bool {
			if batch, ok := lastBatch(chunks); ok {
				f.seen = append(f.seen, arrival{batch, time.Now()})
				next = conversation.Offset(batch).String()
			}
			if !begun && bytes.Contains(chunks, []byte(spoken)) {
				begun = true
				close(f.firstToken)
			}
			var done bool
			done, outcome = settled(chunks, f.turn.SubmissionID)
			return done || outcome != nil
		})
		s.close()
		if err == nil {
			return outcome
		}
	}
}

type failures struct {
	took                []time.Duration
	interrupted, others audit // attempts beyond the first
	undisturbed, ends   int
}

func failover(ctx context.Context, c *cluster) error {
	c.killing = true
	l, err := c.newLoad(ctx, failoverRate.of(&c.o), failoverPool.of(&c.o))
	if err != nil {
		return err
	}
	end := l.begin(ctx)
	defer end()
	var sum failures
	dice := rand.New(rand.NewPCG(7, 1)) // Every run kills at the same times.
	for round := range c.n {
		moment := killAfter + time.Duration(dice.Int64N(int64(killBefore-killAfter)))
		if err := c.killRound(ctx, round, moment, &sum); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		if err := c.begin(ctx, round%len(c.nodes)); err != nil {
			return err
		}
		if err := c.acquainted(ctx); err != nil {
			return err
		}
	}
	end()
	c.metric("kills", float64(c.n), "")
	c.metric("turns interrupted", float64(len(sum.took)), "")
	if len(sum.took) > 0 {
		c.take(sum.took)
		c.metric("attempts of each", 1+float64(sum.interrupted.consumed)/float64(len(sum.took)), "")
	}
	c.metric("others", float64(sum.undisturbed), "")
	c.metric("attempts consumed by them", float64(sum.others.consumed), "")
	c.metric("turns lost", float64(sum.interrupted.lost+sum.others.lost), "")
	c.metric("streams ended", float64(sum.ends), "")
	// The kills also interrupt turns of the load, so their attempts are expected.
	return l.verdict(ctx)
}

// killRound starts streaming turns, kills the node of a place, and waits for the turns to settle.
func (c *cluster) killRound(ctx context.Context, round int, moment time.Duration, sum *failures) error {
	victim := round % len(c.nodes)
	followers := make([]*follower, streamedTurns.of(&c.o))
	posting := &errgroup.Group{}
	posting.SetLimit(8)
	for i := range followers {
		f := &follower{id: fmt.Sprintf("kill-%d-%06d", round, i), firstToken: make(chan struct{})}
		followers[i] = f
		posting.Go(func() error {
			l, err := c.next(ctx)
			if err == nil {
				f.turn, _, err = l.post(ctx, f.id, streamedReply)
			}
			return err
		})
	}
	if err := posting.Wait(); err != nil {
		return err
	}
	reading, cancel := context.WithTimeoutCause(ctx, settleTimeout, errors.New("turns did not settle in time"))
	defer cancel()
	g, reading := errgroup.WithContext(reading)
	for _, f := range followers {
		g.Go(func() error { return f.follow(reading, c, victim) })
	}
	killed, err := c.killWhen(reading, followers, victim, moment)
	if err = errors.Join(err, g.Wait()); err != nil {
		return err
	}
	for _, f := range followers {
		s := newLogView(f.id)
		if err := s.read(ctx, c.logs); err != nil {
			return err
		}
		sum.add(f, s, killed)
	}
	return nil
}

// killWhen kills a node some time after all replies have begun.
func (c *cluster) killWhen(ctx context.Context, followers []*follower, victim int, moment time.Duration) (time.Time, error) {
	for _, f := range followers {
		select {
		case <-f.firstToken:
		case <-ctx.Done():
			return time.Time{}, context.Cause(ctx)
		}
	}
	if err := pause(ctx, moment); err != nil {
		return time.Time{}, err
	}
	return c.kill(victim), nil
}

// add counts a turn by its log and by the batches that its reader received.
func (sum *failures) add(f *follower, s *logView, killed time.Time) {
	sum.ends += f.ends
	seen, ok := seenBefore(f.seen, killed)
	seq, interrupted := int64(0), false
	if ok {
		seq, interrupted = s.resumed(seen)
	}
	if !interrupted {
		sum.undisturbed++
		sum.others.count(s, f.turn.SubmissionID)
		return
	}
	sum.interrupted.count(s, f.turn.SubmissionID)
	if a, ok := reached(f.seen, seq); ok {
		sum.took = append(sum.took, a.at.Sub(killed))
	}
}
