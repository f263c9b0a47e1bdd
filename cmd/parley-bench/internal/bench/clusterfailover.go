package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/parleyrun/parley/conversation"
)

const (
	// streamedReply takes six seconds, so that it is under way when a node is killed.
	streamedReply = "pace=200ms tokens=30"
	// A node is killed so long after all replies have begun, at random.
	killAfter, killBefore = 200 * time.Millisecond, 2200 * time.Millisecond
	// settleTimeout bounds how long the turns of a round may go on after the kill.
	settleTimeout = time.Minute
)

// arrival is when a reader had a batch, and all before it.
type arrival struct {
	batch int64
	at    time.Time
}

// batchMark stands before the number of a batch in every chunk.
const batchMark = `"position":{"batch":`

// lastBatch returns the batch of the last chunk of a frame. It decodes nothing else:
// with many readers, decoding would be what is measured.
func lastBatch(frame []byte) (int64, bool) {
	i := bytes.LastIndex(frame, []byte(batchMark))
	if i < 0 {
		return 0, false
	}
	digits := frame[i+len(batchMark):]
	end := bytes.IndexByte(digits, ',')
	if end < 0 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(digits[:end]), 10, 64)
	return n, err == nil
}

// reached returns the first arrival that has a batch.
func reached(all []arrival, batch int64) (arrival, bool) {
	i := slices.IndexFunc(all, func(a arrival) bool { return a.batch >= batch })
	if i < 0 {
		return arrival{}, false
	}
	return all[i], true
}

// seenBefore returns the last batch a reader had at a time.
func seenBefore(all []arrival, t time.Time) (seen int64, ok bool) {
	for _, a := range all {
		if a.at.Before(t) {
			seen, ok = a.batch, true
		}
	}
	return seen, ok
}

// follower is a live reader of one turn that goes on at another node when its stream
// ends. It belongs to one goroutine until that has ended.
type follower struct {
	id    string
	turn  receipt
	spoke chan struct{} // Closed at the first word.
	seen  []arrival
	ends  int // Streams that ended before the turn did.
}

// follow reads at nodes that are not in a place until the turn is settled.
func (f *follower) follow(ctx context.Context, n *nodes, but int) error {
	next := f.turn.Offset
	begun := false
	for ; ; f.ends++ {
		if f.ends > 0 {
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
				return fmt.Errorf("follow %s: %w", f.id, context.Cause(ctx))
			}
		}
		l := n.pick(n.lives[but].Load())
		if l == nil {
			continue
		}
		s, err := l.at.open(ctx, f.id, next)
		if err != nil {
			continue
		}
		for err == nil {
			var frame []byte
			if frame, err = s.data(); err != nil {
				break
			}
			if batch, ok := lastBatch(frame); ok {
				f.seen = append(f.seen, arrival{batch, time.Now()})
				next = conversation.Offset(batch).String()
			}
			if !begun && bytes.Contains(frame, []byte(`"message-delta"`)) {
				begun = true
				close(f.spoke)
			}
			if done, err := settled(frame, f.turn.SubmissionID); done || err != nil {
				s.close()
				return err
			}
		}
		s.close()
	}
}

// failures is what the rounds of failover add up.
type failures struct {
	took                []time.Duration
	interrupted, others audit // Attempts beyond the first.
	undisturbed, ends   int
}

// failover kills nodes in turn, while turns stream and requests go on.
func (c *clusterRun) failover(ctx context.Context, out *Scenario) error {
	return c.within(ctx, out.Name, equal(3), 3, func(ctx context.Context, n *nodes) error {
		n.killing = true
		l, err := n.newLoad(ctx, c.n.Beside, min(c.n.Conversations, 60))
		if err != nil {
			return err
		}
		end := l.begin(ctx)
		defer end()
		var sum failures
		dice := rand.New(rand.NewPCG(7, 1)) // Every run kills at the same moments.
		for round := range c.n.Rounds {
			moment := killAfter + time.Duration(dice.Int64N(int64(killBefore-killAfter)))
			if err := c.killRound(ctx, n, round, moment, &sum); err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
			if err := n.start(ctx, round%len(n.lives)); err != nil {
				return err
			}
			if err := n.acquainted(ctx); err != nil {
				return err
			}
		}
		end()
		if len(sum.took) > 0 {
			out.take(sum.took)
		}
		out.figure("kills", float64(c.n.Rounds), "")
		out.figure("turns interrupted", float64(len(sum.took)), "")
		if len(sum.took) > 0 {
			out.figure("attempts of each", 1+float64(sum.interrupted.consumed)/float64(len(sum.took)), "")
		}
		out.figure("others", float64(sum.undisturbed), "")
		out.figure("attempts consumed by them", float64(sum.others.consumed), "")
		out.figure("turns lost", float64(sum.interrupted.lost+sum.others.lost), "")
		out.figure("streams ended", float64(sum.ends), "")
		l.figures(out)
		// The kills interrupt turns of the load, too: what that consumes is no news.
		return l.verdict(ctx, out)
	})
}

// killRound lets turns stream, kills the node of a place, and waits for their end.
func (c *clusterRun) killRound(ctx context.Context, n *nodes, round int, moment time.Duration, sum *failures) error {
	victim := round % len(n.lives)
	followers := make([]*follower, c.n.Turns)
	posting := &errgroup.Group{}
	posting.SetLimit(8)
	for i := range followers {
		posting.Go(func() error {
			f := &follower{id: fmt.Sprintf("kill-%d-%06d", round, i), spoke: make(chan struct{})}
			followers[i] = f
			var err error
			f.turn, _, err = n.pick(nil).at.post(ctx, f.id, streamedReply)
			return err
		})
	}
	if err := posting.Wait(); err != nil {
		return err
	}
	reading, cancel := context.WithTimeoutCause(ctx, settleTimeout, errors.New("turns are not settled in time"))
	defer cancel()
	g, reading := errgroup.WithContext(reading)
	for _, f := range followers {
		g.Go(func() error { return f.follow(reading, n, victim) })
	}
	killed, err := n.killWhen(reading, followers, victim, moment)
	if err = errors.Join(err, g.Wait()); err != nil {
		return err
	}
	for _, f := range followers {
		s := newStory(f.id)
		if err := s.read(ctx, n.logs); err != nil {
			return err
		}
		sum.add(f, s, killed)
	}
	return nil
}

// killWhen kills a node a while after all replies have begun.
func (n *nodes) killWhen(ctx context.Context, followers []*follower, victim int, moment time.Duration) (time.Time, error) {
	for _, f := range followers {
		select {
		case <-f.spoke:
		case <-ctx.Done():
			return time.Time{}, context.Cause(ctx)
		}
	}
	select {
	case <-time.After(moment):
	case <-ctx.Done():
		return time.Time{}, context.Cause(ctx)
	}
	return n.kill(victim), nil
}

// add judges a turn by its log and by what its reader saw.
func (sum *failures) add(f *follower, s *story, killed time.Time) {
	sum.ends += f.ends
	seen, ok := seenBefore(f.seen, killed)
	seq, interrupted := int64(0), false
	if ok {
		seq, interrupted = s.resumed(seen)
	}
	if !interrupted {
		sum.undisturbed++
		sum.others.judge(s, []string{f.turn.SubmissionID})
		return
	}
	sum.interrupted.judge(s, []string{f.turn.SubmissionID})
	if a, ok := reached(f.seen, seq); ok {
		sum.took = append(sum.took, a.at.Sub(killed))
	}
}
