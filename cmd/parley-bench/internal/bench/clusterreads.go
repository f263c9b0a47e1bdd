package bench

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// Places of a cluster in which one node owns everything: the others have no weight.
const ownerPlace, otherPlace, strictPlace = 0, 1, 2

func oneOwner() []nodeSpec { return []nodeSpec{{weight: 1}, {weight: 0}, {weight: 0, strict: true}} }

// admission times POSTs through the owner and through another node in turn.
func (c *clusterRun) admission(ctx context.Context, out *Scenario) error {
	return c.within(ctx, out.Name, oneOwner(), 2, func(ctx context.Context, n *nodes) error {
		id := func(i int) string { return fmt.Sprintf("warm-%06d", i%singleWarm) }
		once := func(ctx context.Context, i, place int) (time.Duration, error) {
			r, took, err := n.at(place).post(ctx, id(i), oneToken)
			if err == nil {
				_, err = n.at(ownerPlace).settle(ctx, id(i), r)
			}
			return took, err
		}
		// A conversation at rest: it is there, and both nodes have had to do with it.
		for i := range max(singleWarm, c.c.Warmup) {
			for _, place := range []int{ownerPlace, otherPlace} {
				if _, err := once(ctx, i, place); err != nil {
					return err
				}
			}
		}
		var samples [2][]time.Duration
		_, err := c.loop(ctx, 1, c.n.Admissions, func(ctx context.Context, i int) (time.Duration, error) {
			for _, place := range inTurn(i) {
				took, err := once(ctx, i, place)
				if err != nil {
					return 0, err
				}
				samples[place] = append(samples[place], took)
			}
			return 0, nil
		})
		if err != nil {
			return err
		}
		owner := NewLatency(samples[ownerPlace])
		out.take(samples[otherPlace])
		out.figure("p50 through the owner", owner.P50, "ms")
		out.figure("p99", owner.P99, "ms")
		if owner.P50 > 0 {
			out.figure("ratio", out.Latency.P50/owner.P50, "×")
		}
		return nil
	})
}

// readers compares event streams at the owner and at another node.
func (c *clusterRun) readers(ctx context.Context, out *Scenario) error {
	return c.within(ctx, out.Name, oneOwner(), 2, func(ctx context.Context, n *nodes) error {
		const id = "read"
		_, head, err := n.at(ownerPlace).turn(ctx, id, oneToken)
		if err != nil {
			return err
		}
		var samples []time.Duration
		batches := 0
		for range c.n.Replies {
			sides, next, err := n.hear(ctx, id, head)
			if err != nil {
				return err
			}
			late := behind(sides[ownerPlace], sides[otherPlace])
			samples = append(samples, late...)
			batches += len(late) / c.n.Readers
			head = next
		}
		out.take(samples)
		out.figure("readers at each node", float64(c.n.Readers), "")
		out.figure("batches", float64(batches), "")
		return nil
	})
}

// hear posts a reply, of a batch about every quarter of a second, with readers at both
// nodes, and returns what arrived at each of them and the offset after it.
func (n *nodes) hear(ctx context.Context, id, head string) (sides [2][][]arrival, next string, err error) {
	readers := n.c.n.Readers
	sides = [2][][]arrival{make([][]arrival, readers), make([][]arrival, readers)}
	g, reading := errgroup.WithContext(ctx)
	for i := range 2 * readers {
		s, err := n.at(i%2).stream(ctx, id, head)
		if err != nil {
			return sides, "", err
		}
		defer s.close()
		g.Go(func() (err error) {
			stop := context.AfterFunc(reading, s.close)
			defer stop()
			sides[i%2][i/2], err = s.arrivals()
			return err
		})
	}
	r, _, err := n.at(ownerPlace).post(ctx, id, fmt.Sprintf("pace=50ms tokens=%d", n.c.n.Words))
	if err != nil {
		return sides, "", err
	}
	if next, err = n.at(ownerPlace).settle(ctx, id, r); err != nil {
		return sides, "", err
	}
	return sides, next, g.Wait()
}

// arrivals reads until a reply is settled.
func (s *stream) arrivals() ([]arrival, error) {
	var all []arrival
	for {
		frame, err := s.data()
		if err != nil {
			return nil, err
		}
		if batch, ok := lastBatch(frame); ok {
			all = append(all, arrival{batch, time.Now()})
		}
		if bytes.Contains(frame, []byte(`"submission-settled"`)) {
			return all, nil
		}
	}
}

// behind returns, for every batch and every other reader, how long after the median of
// the owner's readers it had that batch; less than nothing is before. A frame may hold
// several batches: then the last of them counts.
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

// heads times snapshots at every kind of node.
func (c *clusterRun) heads(ctx context.Context, out *Scenario) error {
	return c.within(ctx, out.Name, oneOwner(), 3, func(ctx context.Context, n *nodes) error {
		const idle, active = "idle", "active"
		for range 10 {
			if _, _, err := n.at(ownerPlace).turn(ctx, idle, shortReply); err != nil {
				return err
			}
		}
		// It goes on until the cluster ends: longer than the reads may take.
		r, _, err := n.at(ownerPlace).post(ctx, active, "pace=50ms tokens=100000")
		if err != nil {
			return err
		}
		if err := n.at(ownerPlace).said(ctx, active, r); err != nil {
			return err
		}
		ids, places := []string{idle, active}, []string{"at the owner", "at another node", "at another node, strict"}
		var samples [2][3][]time.Duration
		_, err = c.loop(ctx, 1, c.c.Warmup+c.n.Reads, func(ctx context.Context, i int) (time.Duration, error) {
			for k, id := range ids {
				for place := range places {
					start := time.Now()
					if _, _, err := n.at(place).call(ctx, http.MethodGet, id, "", "", http.StatusOK); err != nil {
						return 0, err
					}
					if i >= c.c.Warmup {
						samples[k][place] = append(samples[k][place], time.Since(start))
					}
				}
			}
			return 0, nil
		})
		if err != nil {
			return err
		}
		for k, id := range ids {
			for place, name := range places {
				out.figure(id+" "+name, NewLatency(samples[k][place]).P50, "ms")
			}
		}
		out.figure("reads of each", float64(len(samples[0][0])), "")
		return nil
	})
}

// idle weighs a member that owns everything, at its start and after many conversations.
func (c *clusterRun) idle(ctx context.Context, out *Scenario) error {
	specs := oneOwner()
	specs[ownerPlace].profiled = true
	return c.within(ctx, out.Name, specs, 2, func(ctx context.Context, n *nodes) error {
		l := n.lives[ownerPlace].Load()
		before, err := atRest(ctx, l.child, l.at, 0)
		if err != nil {
			return err
		}
		visited, err := c.visit(ctx, l.at, "idle", c.n.Idle)
		if err != nil {
			return err
		}
		after, err := atRest(ctx, l.child, l.at, c.c.Rest)
		if err != nil {
			return err
		}
		out.Memory = &after
		out.figure("conversations", float64(visited), "")
		out.figure("at start", float64(before.RSS)/1e6, "MB")
		out.figure("above it", float64(after.RSS-before.RSS)/1e6, "MB")
		out.figure("anonymous above it", float64(after.Anonymous-before.Anonymous)/1e6, "MB")
		return nil
	})
}
