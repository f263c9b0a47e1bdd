package bench

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/parleyrun/parley/internal/proc"
)

const (
	// startTimeout bounds how long a process may take to begin, endTimeout to end in
	// order.
	startTimeout, endTimeout = 30 * time.Second, time.Minute
	// maxTail bounds what is told of a process's log, in bytes.
	maxTail = 4 << 10
	// agentName is the agent of the run's own servers.
	agentName = "bench"
)

// Commands of the program that a run belongs to, which are its children.
const (
	// ModelCommand serves the model of a run until SIGTERM. It prints its URL first.
	ModelCommand = "model"
	// BucketCommand serves the folder behind --dir as a bucket until SIGTERM. It prints
	// its URL, which ends in the bucket's name, first.
	BucketCommand = "bucket"
)

// child is a process of a run, and what it serves. Its owner ends it and waits. Nil is a
// process that is not known.
type child struct {
	*proc.Process
	*target
	admin string // host:port of its admin listener, "" if it has none.
}

// start starts a process and waits until it prints its URL. What a name stands for is
// told when that fails, and names the file of its log unless the command does.
func (r *runner) start(ctx context.Context, name string, c proc.Command) (*child, error) {
	if c.Log == "" {
		c.Log = filepath.Join(r.dir, name+"-"+rand.Text()+".log")
	}
	p, err := r.reaper.Start(c)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errors.New("the process says nothing"))
	defer cancel()
	at := &target{}
	url, err := p.Await(ctx)
	if err == nil {
		at, err = newTarget(url, "")
	}
	if err != nil {
		p.Kill()
		return nil, fmt.Errorf("start %s: %w: %s", name, err, tail(p))
	}
	return &child{Process: p, target: at}, nil
}

// command starts a command of this program, unless it runs already.
func (r *runner) command(ctx context.Context, c **child, args ...string) (err error) {
	if *c == nil {
		*c, err = r.start(ctx, args[0], proc.Command{Args: append([]string{r.o.Self}, args...)})
	}
	return err
}

func (r *runner) modelURL(ctx context.Context) (string, error) {
	if r.o.Against != "" {
		return strings.TrimRight(r.o.Model, "/"), nil
	}
	if err := r.command(ctx, &r.model, ModelCommand, "--listen", "127.0.0.1:0"); err != nil {
		return "", err
	}
	return r.model.at.String(), nil
}

// spec is how a server of the measured program is run.
type spec struct {
	kind, name         string         // What it is, and which one of them.
	observed, profiled bool           // It has an admin listener, which an older program does not know with profiles.
	sections           map[string]any // Of its configuration, beside those of every one.
	command            proc.Command   // Its flags, beside those, and what else it is started with.
}

func (r *runner) node(ctx context.Context, s spec) (*child, error) {
	model, err := r.modelURL(ctx)
	if err != nil {
		return nil, err
	}
	conf := map[string]any{
		"listen": "127.0.0.1:0",
		"providers": map[string]any{"bench": map[string]any{
			"api": "openai-completions", "baseUrl": model + "/v1", "contextWindow": 1_000_000_000, "maxTokens": 1_000_000,
		}},
		"agents": map[string]any{agentName: map[string]any{"mounts": []string{"/agents/" + agentName}, "model": "bench/fake"}},
	}
	maps.Copy(conf, s.sections)
	admin := []string{""}
	if s.observed {
		if admin, err = proc.FreeAddresses("127.0.0.1", 1); err != nil {
			return nil, err
		}
		section := map[string]any{"listen": admin[0]}
		if s.profiled {
			section["pprof"] = true
		}
		conf["admin"] = section
	}
	// JSON is yaml, with every name quoted as it has to be.
	text, err := json.Marshal(conf)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(r.dir, s.name+".yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	s.command.Args = append([]string{r.o.Program, "serve", "--quiet", "--config", file}, s.command.Args...)
	c, err := r.start(ctx, s.kind, s.command)
	if err == nil {
		c.admin = admin[0]
	}
	return c, err
}

// fresh starts a server over a folder below dir. Only where it is asked for its profiles
// it has an admin listener, so that older programs can be measured in all else.
func (r *runner) fresh(ctx context.Context, folder string, profiled bool) (*child, error) {
	s := spec{kind: "server", name: folder, observed: profiled, profiled: profiled}
	s.sections = map[string]any{"bucket": map[string]any{"dir": filepath.Join(r.dir, folder)}}
	if r.o.ClickHouse != "" {
		s.sections["events"] = map[string]any{"clickhouse": map[string]any{"addresses": []string{r.o.ClickHouse}, "database": "parley_bench"}}
	}
	return r.node(ctx, s)
}

// serve makes sure that there is a server to measure.
func (r *runner) serve(ctx context.Context) error {
	if r.o.Against != "" || r.server != nil {
		return nil
	}
	c, err := r.fresh(ctx, "main", r.o.Profiles != "")
	if err == nil {
		r.server, r.at = c, c.target
	}
	return err
}

// apart runs a scenario on a server of its own, over a folder of its own, which is
// stopped when the scenario ends.
func (r *runner) apart(ctx context.Context, folder string, profiled bool, run func(c *child) error) error {
	c, err := r.fresh(ctx, folder, profiled)
	if err != nil {
		return err
	}
	return errors.Join(run(c), c.end())
}

func tail(p *proc.Process) string { return strings.TrimSpace(proc.Tail(p.Log, maxTail)) }

// end ends the child in order. One that does not end is killed.
func (c *child) end() error {
	if c == nil {
		return nil
	}
	defer c.close()
	if err := c.Stop(endTimeout); err != nil {
		return fmt.Errorf("the process: %w: %s", err, tail(c.Process))
	}
	return nil
}

// pid is the child's process, 0 if it is not known.
func (c *child) pid() int {
	if c == nil {
		return 0
	}
	return c.PID()
}

// memory is what the child has; nil if that cannot be told.
func (c *child) memory() *proc.Memory {
	u, err := proc.UsageOf(c.pid())
	if err != nil {
		return nil
	}
	return &u.Memory
}

func (c *child) page(ctx context.Context, path string) ([]byte, error) {
	return fetch(ctx, c.client, http.MethodGet, "http://"+c.admin+path, nil, http.StatusOK)
}

// VersionOf returns what a parley program says it is.
func VersionOf(ctx context.Context, program string) (string, error) {
	out, err := exec.CommandContext(ctx, program, "version").Output()
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", program, err)
	}
	version := strings.TrimSpace(string(out))
	if !strings.HasPrefix(version, "parley ") {
		return "", fmt.Errorf("%s is no parley program: asked for its version, it says %.100q", program, version)
	}
	return version, nil
}
