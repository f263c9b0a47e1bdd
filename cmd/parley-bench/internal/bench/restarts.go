package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"time"
)

// halt ends the server in order; the next one starts when it is needed.
func (r *runner) halt() error {
	c := r.server
	r.server = nil
	r.at.close()
	return c.end()
}

func snapshotRestart(ctx context.Context, r *runner, out *Scenario) error {
	l, err := r.theLong(ctx)
	if err != nil {
		return err
	}
	var samples []time.Duration
	size := 0
	for range r.c.Reopened {
		if err := r.halt(); err != nil {
			return err
		}
		if err := r.serve(ctx); err != nil {
			return err
		}
		start := time.Now()
		b, _, err := r.at.call(ctx, http.MethodGet, l.id, "", "", http.StatusOK)
		if err != nil {
			return err
		}
		samples, size = append(samples, time.Since(start)), len(b)
	}
	out.take(samples)
	out.figure("turns", float64(l.turns), "")
	out.figure("answer", float64(size)/1e3, "kB")
	return nil
}

// killed kills the server while replies stand still in the middle, starts the next
// one and waits for all of them. The model does not stand still a second time.
func killed(ctx context.Context, r *runner, out *Scenario) error {
	if err := r.serve(ctx); err != nil {
		return err
	}
	var samples []time.Duration
	for round := range r.c.Kills {
		took, err := r.killOnce(ctx, round)
		if err != nil {
			return err
		}
		samples = append(samples, took)
	}
	out.take(samples)
	out.figure("replies under way", float64(r.c.Killed), "")
	return nil
}

func (r *runner) killOnce(ctx context.Context, round int) (_ time.Duration, err error) {
	gate := fmt.Sprintf("%skill-%d", r.prefix, round)
	defer func() {
		free, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		err = errors.Join(err, r.release(free, gate))
	}()
	receipts := map[string]receipt{}
	for i := range r.c.Killed {
		id := fmt.Sprintf("%skill-%d-%06d", r.prefix, round, i)
		rcpt, _, err := r.at.post(ctx, id, "tokens=10 hold="+gate+" tokens=10")
		if err != nil {
			return 0, err
		}
		receipts[id] = rcpt
	}
	for id, rcpt := range receipts {
		if err := r.at.said(ctx, id, rcpt); err != nil {
			return 0, err
		}
	}
	start := time.Now()
	r.server.Kill()
	r.server = nil
	r.at.close()
	if err := r.release(ctx, gate); err != nil {
		return 0, err
	}
	if err := r.serve(ctx); err != nil {
		return 0, err
	}
	for id, rcpt := range receipts {
		if _, err := r.at.settle(ctx, id, rcpt); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

// said long-polls until the agent has begun to speak.
func (t *target) said(ctx context.Context, id string, r receipt) error {
	next := r.Offset
	for {
		b, h, err := t.call(ctx, http.MethodGet, id, "view=updates&live=long-poll&offset="+next, "", http.StatusOK)
		if err != nil {
			return err
		}
		if bytes.Contains(b, []byte(`"message-delta"`)) {
			return nil
		}
		next = h.Get("Stream-Next-Offset")
	}
}

// apart runs a scenario on a server of its own, over a folder of its own, which is
// stopped when the scenario ends.
func (r *runner) apart(ctx context.Context, folder string, profiled bool, run func(c *child, at *target) error) (err error) {
	c, err := r.fresh(ctx, folder, profiled)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.end()) }()
	at, err := newTarget(c.url, "")
	if err != nil {
		return err
	}
	defer at.close()
	return run(c, at)
}

func starts(ctx context.Context, r *runner, out *Scenario) error {
	if _, err := r.modelURL(ctx); err != nil { // It must not count as a part of the start.
		return err
	}
	var samples []time.Duration
	for i := range r.c.Restarts {
		start := time.Now()
		err := r.apart(ctx, fmt.Sprintf("start-%d", i), false, func(c *child, at *target) error {
			if _, _, err := at.call(ctx, http.MethodHead, "nobody", "", "", http.StatusNotFound); err != nil {
				return err
			}
			samples = append(samples, time.Since(start))
			if u, err := c.usage(); err == nil {
				out.Memory = &u.memory
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	out.take(samples)
	if out.Memory != nil {
		out.figure("anonymous", float64(out.Memory.Anonymous)/1e6, "MB")
	}
	return nil
}

// idle compares the memory of a server that has served a few conversations with
// that of the same server after many more, both at rest and with freed memory
// returned.
func idle(ctx context.Context, r *runner, out *Scenario) error {
	return r.apart(ctx, "idle", true, func(c *child, at *target) error {
		if _, err := r.visit(ctx, at, "first", singleWarm); err != nil {
			return err
		}
		before, err := atRest(ctx, c, at, 0)
		if err != nil {
			return err
		}
		n, err := r.visit(ctx, at, "idle", r.c.Idle)
		if err != nil {
			return err
		}
		after, err := atRest(ctx, c, at, r.c.Rest)
		if err != nil {
			return err
		}
		each := func(a, b int64) float64 { return float64(a-b) / 1e3 / float64(n) }
		out.Memory = &after
		out.figure("conversations", float64(n), "")
		out.figure("each", each(after.RSS, before.RSS), "kB")
		out.figure("anonymous each", each(after.Anonymous, before.Anonymous), "kB")
		return nil
	})
}

// visit has a short turn with each of n new conversations, or of as many as there is
// time for.
func (r *runner) visit(ctx context.Context, at *target, name string, n int) (int, error) {
	done, err := r.bounded(ctx, r.c.Long, 16, n, func(ctx context.Context, i int) (time.Duration, error) {
		took, _, err := at.turn(ctx, fmt.Sprintf("%s-%06d", name, i), shortReply)
		return took, err
	})
	return len(done), err
}

// atRest weighs a server after a wait.
func atRest(ctx context.Context, c *child, at *target, wait time.Duration) (Memory, error) {
	at.close()
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return Memory{}, context.Cause(ctx)
	}
	return c.freed(ctx)
}

// storedScript is a reply of 1,000 tokens within two seconds.
const storedScript = "pace=2ms tokens=1000"

func stored(ctx context.Context, r *runner, out *Scenario) error {
	const folder = "stored"
	said := 0
	err := r.apart(ctx, folder, false, func(c *child, at *target) error {
		id := func(i int) string { return fmt.Sprintf("stored-%06d", i) }
		took, err := r.loop(ctx, r.c.Stored, r.c.Stored, func(ctx context.Context, i int) (time.Duration, error) {
			took, _, err := at.turn(ctx, id(i), storedScript)
			return took, err
		})
		for i := range took {
			n, err := at.spoken(ctx, id(i))
			if err != nil {
				return err
			}
			said += n
		}
		return err
	})
	if err != nil {
		return err
	}
	size, err := folderBytes(filepath.Join(r.dir, folder))
	if err != nil {
		return fmt.Errorf("weigh the folder: %w", err)
	}
	out.figure("replies", float64(said)/1e3, "kB")
	out.figure("folder", float64(size)/1e3, "kB")
	out.figure("stored per byte", float64(size)/float64(max(said, 1)), "")
	return nil
}

// spoken counts the bytes an agent has said.
func (t *target) spoken(ctx context.Context, id string) (int, error) {
	b, _, err := t.call(ctx, http.MethodGet, id, "", "", http.StatusOK)
	if err != nil {
		return 0, err
	}
	var s struct {
		Messages []struct {
			Role  string `json:"role"`
			Parts []struct {
				Type string `json:"type"`
				Text string `json:"text"`
			} `json:"parts"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return 0, fmt.Errorf("decode snapshot: %w", err)
	}
	n := 0
	for _, m := range s.Messages {
		for _, p := range m.Parts {
			if m.Role == "assistant" && p.Type == "text" {
				n += len(p.Text)
			}
		}
	}
	return n, nil
}

// folderBytes adds up the sizes of all files below a folder.
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
