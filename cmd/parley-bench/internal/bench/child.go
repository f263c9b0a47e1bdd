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
	// startTimeout bounds the start of a process, endTimeout its graceful shutdown.
	startTimeout, endTimeout = 30 * time.Second, time.Minute
	// maxTail limits the part of a process's log in an error, in bytes.
	maxTail = 4 << 10
	// agentName is the agent of the run's own servers.
	agentName = "bench"
)

// Commands of this program that a run starts as its children.
const (
	// ModelCommand serves the model of a run until SIGTERM. It prints its URL first.
	ModelCommand = "model"
	// BucketCommand serves the folder behind --dir as a bucket until SIGTERM. It prints
	// its URL, which ends in the bucket's name, first.
	BucketCommand = "bucket"
)

// child is a process of a run, and its address. The owner ends it and waits. A nil child is an unknown
// process.
type child struct {
	*proc.Process
	*target
	admin string // host:port of its admin listener, "" if it has none.
}

// start starts a process and waits until it prints its URL. The name appears in errors and names the
// log file, unless the command names one.
func (r *runner) start(ctx context.Context, name string, c proc.Command) (*child, error) {
	if c.Log == "" {
		c.Log = filepath.Join(r.dir, name+"-"+rand.Text()+".log")
	}
	p, err := r.reaper.Start(c)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errors.New("no output from the process"))
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

// command starts a command of this program unless it is running.
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

// spec describes how to run a server of the measured program.
type spec struct {
	kind, name         string         // kind of server, and its name
	observed, profiled bool           // It has an admin listener; older programs have none with profiles.
	sections           map[string]any // added to the common configuration
	command            proc.Command   // flags added to the common ones, and process options
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
	// JSON is valid YAML, with every string quoted.
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

// fresh starts a server over a folder below dir. It has an admin listener only if it is profiled, so
// that older programs can run all other scenarios.
func (r *runner) fresh(ctx context.Context, folder string, profiled bool) (*child, error) {
	s := spec{kind: "server", name: folder, observed: profiled, profiled: profiled}
	s.sections = map[string]any{"bucket": map[string]any{"dir": filepath.Join(r.dir, folder)}}
	if r.o.ClickHouse != "" {
		s.sections["events"] = map[string]any{"clickhouse": map[string]any{"addresses": []string{r.o.ClickHouse}, "database": "parley_bench"}}
	}
	return r.node(ctx, s)
}

// serve starts the server to measure unless it is running.
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

// apart runs a scenario on a separate server with a separate folder, and stops it when the scenario
// ends.
func (r *runner) apart(ctx context.Context, folder string, profiled bool, run func(c *child) error) error {
	c, err := r.fresh(ctx, folder, profiled)
	if err != nil {
		return err
	}
	return errors.Join(run(c), c.end())
}

func tail(p *proc.Process) string { return strings.TrimSpace(proc.Tail(p.Log, maxTail)) }

// end shuts the child down gracefully, and kills it after endTimeout.
func (c *child) end() error {
	if c == nil {
		return nil
	}
	defer c.close()
	if err := c.Stop(endTimeout); err != nil {
		return fmt.Errorf("end process: %w: %s", err, tail(c.Process))
	}
	return nil
}

func (c *child) pid() int {
	if c == nil {
		return 0
	}
	return c.PID()
}

// memory returns the memory of the child, nil if it is unknown.
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

// VersionOf returns the version that a parley program prints.
func VersionOf(ctx context.Context, program string) (string, error) {
	out, err := exec.CommandContext(ctx, program, "version").Output()
	if err != nil {
		return "", fmt.Errorf("get version of %s: %w", program, err)
	}
	version := strings.TrimSpace(string(out))
	if !strings.HasPrefix(version, "parley ") {
		return "", fmt.Errorf("%s is not a parley program: its version is %.100q", program, version)
	}
	return version, nil
}
