package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/proc"
)

// snapshotRestart restarts the server gracefully before each read.
func snapshotRestart(ctx context.Context, j *job) error {
	return j.reads("", func(op operation) error {
		return j.timed(ctx, j.limits.scenario, 1, func(ctx context.Context, i int) (time.Duration, error) {
			before := j.server
			j.server = nil
			if err := errors.Join(before.end(), j.serve(ctx)); err != nil {
				return 0, err
			}
			return op(ctx, i)
		})
	})
}

var killedTurns = amount[int]{50, 10}

// killed kills the server while replies are blocked in the middle, restarts it and waits for all of
// them. The model does not block them a second time.
func killed(ctx context.Context, j *job) error {
	j.metric("replies under way", float64(killedTurns.of(&j.o)), "")
	return j.timed(ctx, j.limits.scenario, 1, func(ctx context.Context, round int) (_ time.Duration, err error) {
		gate := fmt.Sprintf("%skill-%d", j.prefix, round)
		defer func() { err = errors.Join(err, j.free(ctx, gate)) }()
		all := latestReceipts{}
		for i := range killedTurns.of(&j.o) {
			id := numbered(gate)(i)
			if all[id], _, err = j.at.post(ctx, id, "tokens=10 hold="+gate+" tokens=10"); err != nil {
				return 0, err
			}
		}
		for id, r := range all {
			if err := j.at.firstText(ctx, id, r); err != nil {
				return 0, err
			}
		}
		return clocked(func() error {
			j.server.Kill()
			j.server.close()
			j.server = nil
			if err := errors.Join(j.free(ctx, gate), j.serve(ctx)); err != nil {
				return err
			}
			return all.settle(ctx, j.at)
		})
	})
}

// starts times the starts of n servers, each over a new folder.
func starts(ctx context.Context, j *job) error {
	if _, err := j.modelURL(ctx); err != nil { // The start of the model is not timed.
		return err
	}
	err := j.timed(ctx, j.limits.scenario, 1, func(ctx context.Context, i int) (took time.Duration, err error) {
		start := time.Now()
		err = j.apart(ctx, fmt.Sprintf("start-%d", i), false, func(c *child) error {
			_, _, err := c.call(ctx, http.MethodHead, "nobody", "", "", http.StatusNotFound)
			took, j.Memory = time.Since(start), c.memory()
			return err
		})
		return took, err
	})
	if j.Memory != nil {
		j.metric("anonymous", float64(j.Memory.Anonymous)/1e6, "MB")
	}
	return err
}

// restTime is the wait before the memory of idle conversations is measured.
var restTime = amount[time.Duration]{30 * time.Second, 2 * time.Second}

// idle compares the memory of a server after a few conversations with its memory after many more. All
// are idle, and freed memory is returned to the system.
func idle(ctx context.Context, j *job) error {
	return j.apart(ctx, "idle", true, func(c *child) error {
		if _, err := j.visit(ctx, c, "first", singleWarm); err != nil {
			return err
		}
		grown, n, err := j.weigh(ctx, c, restTime)
		if err != nil {
			return err
		}
		j.metric("each", float64(grown.RSS)/1e3/float64(n), "kB")
		j.metric("anonymous each", float64(grown.Anonymous)/1e3/float64(n), "kB")
		return nil
	})
}

// visit runs a short turn in each of n new conversations, or in as many as its time allows.
func (r *runner) visit(ctx context.Context, c *child, name string, n int) (int, error) {
	done, err := loop(ctx, r.limits.long, 16, n, c.turns(numbered(name), shortReply))
	return len(done), err
}

// weigh returns the growth of a server's memory after n more conversations, or as many as its time
// allows, have become idle.
func (j *job) weigh(ctx context.Context, c *child, rest amount[time.Duration]) (grown proc.Memory, n int, err error) {
	c.close()
	before, err := c.freed(ctx)
	if err != nil {
		return grown, 0, err
	}
	if n, err = j.visit(ctx, c, "idle", j.n); err != nil {
		return grown, n, err
	}
	c.close()
	if err := pause(ctx, rest.of(&j.o)); err != nil {
		return grown, n, err
	}
	after, err := c.freed(ctx)
	j.Memory = &after
	j.metric("conversations", float64(n), "")
	return proc.Memory{RSS: after.RSS - before.RSS, Anonymous: after.Anonymous - before.Anonymous}, n, err
}

// rushInFlight limits the concurrent turns of a rush.
const rushInFlight = 32

var rushTime = amount[time.Duration]{time.Minute, 5 * time.Second}

// rush creates many conversations within a minute, each with a short turn that is read to its end.
// Then it measures the server's memory, including garbage.
func rush(ctx context.Context, j *job) error {
	return j.apart(ctx, "rush", j.o.Profiles != "", func(c *child) error {
		start, turn := time.Now(), c.turns(numbered("rush"), oneToken)
		err := j.timed(ctx, j.limits.long, rushInFlight, func(ctx context.Context, i int) (time.Duration, error) {
			due := start.Add(rushTime.of(&j.o) * time.Duration(i) / time.Duration(j.n))
			if err := pause(ctx, time.Until(due)); err != nil {
				return 0, err
			}
			return turn(ctx, i)
		})
		if err != nil {
			return err
		}
		j.Seconds = time.Since(start).Seconds()
		u, err := proc.UsageOf(c.pid())
		if err != nil {
			return err
		}
		j.ServerCPU, j.Memory = new(u.CPU.Seconds()), &u.Memory
		j.metric("conversations", float64(j.Samples), "")
		j.metric("anonymous", float64(j.Memory.Anonymous)/1e6, "MB")
		if j.o.Profiles == "" {
			return nil
		}
		return c.savePage(ctx, "heap", filepath.Join(j.o.Profiles, j.Name+".heap.pprof"))
	})
}

// storedScript is a reply of 1,000 tokens within two seconds.
const storedScript = "pace=2ms tokens=1000"

func stored(ctx context.Context, j *job) error {
	const folder = "stored"
	textBytes := 0
	err := j.apart(ctx, folder, false, func(c *child) error {
		id := numbered(folder)
		took, err := loop(ctx, j.limits.loop, j.n, j.n, c.turns(id, storedScript))
		for i := range took {
			b, _, err := c.get(ctx, id(i), "")
			if err != nil {
				return err
			}
			var s conversation.Snapshot
			if err := json.Unmarshal(b, &s); err != nil {
				return fmt.Errorf("decode snapshot: %w", err)
			}
			for _, m := range s.Messages {
				if m.Role == conversation.RoleAssistant {
					textBytes += len(m.Text())
				}
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	size, err := folderBytes(filepath.Join(j.dir, folder))
	if err != nil {
		return fmt.Errorf("measure folder size: %w", err)
	}
	j.metric("replies", float64(textBytes)/1e3, "kB")
	j.metric("folder", float64(size)/1e3, "kB")
	j.metric("stored per byte", float64(size)/float64(max(textBytes, 1)), "")
	return nil
}

func folderBytes(dir string) (size int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	return size, err
}
