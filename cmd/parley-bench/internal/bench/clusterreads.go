package bench

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
)

func acrossNodes(ctx context.Context, c *cluster) error {
	id := func(i int) string { return numbered("warm")(i % singleWarm) }
	// The conversation is idle, and both nodes have served it before.
	samples, err := c.inTurn(ctx, max(singleWarm, warmUps.of(&c.o)), func(ctx context.Context, i, place int) (time.Duration, error) {
		r, took, err := c.place(place).post(ctx, id(i), oneToken)
		if err == nil {
			_, err = c.place(ownerPlace).settle(ctx, id(i), r)
		}
		return took, err
	})
	if err != nil {
		return err
	}
	owner := NewLatency(samples[ownerPlace])
	c.take(samples[otherPlace])
	c.metric("p50 through the owner", owner.P50, "ms")
	c.metric("p99", owner.P99, "ms")
	if owner.P50 > 0 {
		c.metric("ratio", c.Latency.P50/owner.P50, "×")
	}
	return nil
}

// Amounts of readersOfTwo: its replies, and the tokens of each.
var (
	readReplies = amount[int]{2, 1}
	readWords   = amount[int]{240, 240}
)

func readersOfTwo(ctx context.Context, c *cluster) error {
	const id = "read"
	_, head, err := c.place(ownerPlace).turn(ctx, id, oneToken)
	if err != nil {
		return err
	}
	var samples []time.Duration
	batches := 0
	for range readReplies.of(&c.o) {
		sides, next, err := c.streamBoth(ctx, id, head)
		if err != nil {
			return err
		}
		late := behind(sides[ownerPlace], sides[otherPlace])
		samples = append(samples, late...)
		batches += len(late) / c.n
		head = next
	}
	c.take(samples)
	c.metric("readers at each node", float64(c.n), "")
	c.metric("batches", float64(batches), "")
	return nil
}

// streamBoth posts a reply with a batch about every 250 ms, with readers at both nodes. It returns the
// arrivals at each of them and the offset after the reply.
func (c *cluster) streamBoth(ctx context.Context, id, head string) (sides [2][][]arrival, next string, err error) {
	sides = [2][][]arrival{make([][]arrival, c.n), make([][]arrival, c.n)}
	g, reading := errgroup.WithContext(ctx)
	for i := range 2 * c.n {
		s, err := c.place(i%2).stream(reading, id, head)
		if err != nil {
			return sides, "", err
		}
		defer s.close()
		g.Go(func() error {
			return s.until(func(chunks []byte) bool {
				if batch, ok := lastBatch(chunks); ok {
					sides[i%2][i/2] = append(sides[i%2][i/2], arrival{batch, time.Now()})
				}
				return over(chunks)
			})
		})
	}
	owner := c.place(ownerPlace)
	if _, next, err = owner.turn(ctx, id, fmt.Sprintf("pace=50ms tokens=%d", readWords.of(&c.o))); err != nil {
		return sides, "", err
	}
	return sides, next, g.Wait()
}

// arrival is the time at which a reader had a batch and all earlier ones.
type arrival struct {
	batch int64
	at    time.Time
}

// batchMark precedes the number of a batch in every chunk.
const batchMark = `"position":{"batch":`

// lastBatch returns the batch of the last chunk of a frame. It does not decode JSON: with many
// readers, decoding would dominate the measurement.
func lastBatch(frame []byte) (int64, bool) {
	i := bytes.LastIndex(frame, []byte(batchMark))
	if i < 0 {
		return 0, false
	}
	digits, _, found := bytes.Cut(frame[i+len(batchMark):], []byte(","))
	n, err := strconv.ParseInt(string(digits), 10, 64)
	return n, found && err == nil
}

func reached(all []arrival, batch int64) (arrival, bool) {
	i := slices.IndexFunc(all, func(a arrival) bool { return a.batch >= batch })
	if i < 0 {
		return arrival{}, false
	}
	return all[i], true
}

// seenBefore returns the last batch that a reader had at a time.
func seenBefore(all []arrival, t time.Time) (seen int64, ok bool) {
	for _, a := range all {
		if a.at.Before(t) {
			seen, ok = a.batch, true
		}
	}
	return seen, ok
}

// behind returns, for every batch and every other reader, its delay after the median of the owner's
// readers; it is negative if the batch came earlier. A frame with several batches counts as the last
// of them.
func behind(owners, others [][]arrival) []time.Duration {
	ends := map[int64]bool{}
	for _, reader := range owners {
		for _, a := range reader {
			ends[a.batch] = true
		}
	}
	var all []time.Duration
	for batch := range ends {
		var at []time.Time
		for _, reader := range owners {
			if a, ok := reached(reader, batch); ok {
				at = append(at, a.at)
			}
		}
		slices.SortFunc(at, time.Time.Compare)
		for _, reader := range others {
			if a, ok := reached(reader, batch); ok {
				all = append(all, a.at.Sub(at[(len(at)-1)/2]))
			}
		}
	}
	return all
}

func heads(ctx context.Context, c *cluster) error {
	const idle, active = "idle", "active"
	owner := c.place(ownerPlace)
	for range 10 {
		if _, _, err := owner.turn(ctx, idle, shortReply); err != nil {
			return err
		}
	}
	// The reply outlasts the reads; it ends with the cluster.
	r, _, err := owner.post(ctx, active, "pace=50ms tokens=100000")
	if err != nil {
		return err
	}
	if err := owner.firstText(ctx, active, r); err != nil {
		return err
	}
	places := []string{ownerPlace: "at the owner", otherPlace: "at another node", strictPlace: "at another node, strict"}
	ids := []string{idle, active}
	took := make([][]time.Duration, len(ids)*len(places)) // all places for the first id, then for the second
	warm := warmUps.of(&c.o)
	_, err = loop(ctx, c.limits.loop, 1, warm+c.n, func(ctx context.Context, i int) (time.Duration, error) {
		for v := range took {
			_, t, err := c.place(v%len(places)).get(ctx, ids[v/len(places)], "")
			if err != nil {
				return 0, err
			}
			if i >= warm {
				took[v] = append(took[v], t)
			}
		}
		return 0, nil
	})
	if err != nil {
		return err
	}
	for v, t := range took {
		c.metric(ids[v/len(places)]+" "+places[v%len(places)], NewLatency(t).P50, "ms")
	}
	c.metric("reads of each", float64(len(took[0])), "")
	return nil
}
