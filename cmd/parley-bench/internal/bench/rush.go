package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"time"
)

// rush creates many conversations within a minute, each with a short turn that is read to
// its end, and weighs the server then, as it is: what it has not collected yet counts.
func rush(ctx context.Context, r *runner, out *Scenario) error {
	return r.apart(ctx, "rush", r.o.Profiles != "", func(c *child, at *target) error {
		start := time.Now()
		done, err := r.bounded(ctx, r.c.Long, rushInFlight, r.c.Rush, func(ctx context.Context, i int) (time.Duration, error) {
			select {
			case <-time.After(time.Until(start.Add(r.c.RushTime * time.Duration(i) / time.Duration(r.c.Rush)))):
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
			took, _, err := at.turn(ctx, fmt.Sprintf("rush-%06d", i), oneToken)
			return took, err
		})
		if err != nil {
			return err
		}
		out.Seconds = time.Since(start).Seconds()
		out.rated(done)
		u, err := c.usage()
		if err != nil {
			return err
		}
		cpu := u.cpu.Seconds()
		out.ServerCPU, out.Memory = &cpu, &u.memory
		out.figure("conversations", float64(len(done)), "")
		out.figure("anonymous", float64(u.memory.Anonymous)/1e6, "MB")
		if r.o.Profiles == "" {
			return nil
		}
		return c.savePage(ctx, "heap", filepath.Join(r.o.Profiles, out.Name+".heap.pprof"))
	})
}

// rushInFlight is how many turns of a rush are under way at most.
const rushInFlight = 32
