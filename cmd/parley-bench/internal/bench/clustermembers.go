package bench

import (
	"context"
	"time"
)

// leave joins a node to two and lets the oldest leave.
func (c *clusterRun) leave(ctx context.Context, out *Scenario) error {
	return c.within(ctx, out.Name, equal(3), 2, func(ctx context.Context, n *nodes) error {
		return c.loaded(ctx, n, out, func(steady func() error) error {
			start := time.Now()
			if err := n.start(ctx, 2); err != nil {
				return err
			}
			out.figure("join", time.Since(start).Seconds(), "s")
			if err := steady(); err != nil {
				return err
			}
			took, err := n.leave(0)
			out.figure("leave", took.Seconds(), "s")
			return err
		})
	})
}

// rolling restarts three nodes in turn.
func (c *clusterRun) rolling(ctx context.Context, out *Scenario) error {
	return c.within(ctx, out.Name, equal(3), 3, func(ctx context.Context, n *nodes) error {
		return c.loaded(ctx, n, out, func(steady func() error) error {
			var longest time.Duration
			for place := range n.lives {
				if place > 0 {
					if err := steady(); err != nil {
						return err
					}
				}
				took, err := n.leave(place)
				if err != nil {
					return err
				}
				longest = max(longest, took)
				if err := n.start(ctx, place); err != nil {
					return err
				}
			}
			out.figure("longest leave", longest.Seconds(), "s")
			return nil
		})
	})
}

// loaded puts the load on while the members change, and for a while before and after.
func (c *clusterRun) loaded(ctx context.Context, n *nodes, out *Scenario, change func(steady func() error) error) error {
	l, err := n.newLoad(ctx, c.n.Rate, c.n.Conversations)
	if err != nil {
		return err
	}
	steady := func() error {
		select {
		case <-time.After(c.n.Steady):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	before := ownUsage()
	end := l.begin(ctx)
	defer end()
	if err := steady(); err != nil {
		return err
	}
	if err := change(steady); err != nil {
		return err
	}
	if err := steady(); err != nil {
		return err
	}
	end()
	addCPU(&out.GeneratorCPU, before, ownUsage())
	out.Seconds = l.lasted.Seconds()
	out.rated(l.took)
	l.figures(out)
	return l.verdict(ctx, out)
}
