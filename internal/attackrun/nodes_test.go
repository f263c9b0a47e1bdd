package attackrun_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/internal/proc"
	"github.com/parleyrun/parley/internal/s3server"
)

const (
	// memoryBytes is the memory limit of a node.
	memoryBytes = 512 << 20
	// token is the bearer token of clients.
	token = "token-of-the-attack"
)

// site holds the nodes and their dependencies.
type site struct {
	*noderun.Fleet
	program string
	dir     string
	env     []string
	nodes   []*node
	models  string           // host:port of the endless models
	store   *s3server.Server // nil for a folder
	place   noderun.Place
}

// node is one member over all its processes.
type node struct {
	*noderun.Node
	peak atomic.Int64 // highest memory of its processes, in bytes
}

// newSite makes one node over a folder, or several over an endpoint, and starts them.
func newSite(t *testing.T, nodes int) *site {
	t.Helper()
	s := &site{Fleet: noderun.NewFleet(t, noderun.NewClient(time.Second), liveness), program: program(t), dir: t.TempDir(), env: []string{"ATTACK_TOKEN=" + token, "GOGC="}}
	if *keepFlag != "" {
		s.dir = *keepFlag
	}
	vendor := newVendor(t)
	s.place = noderun.Place{Dir: filepath.Join(t.TempDir(), "data")}
	var flags []string
	if nodes > 1 {
		s.store = s3server.Versitygw(t)
		s.place = noderun.NewBucket(t, s.store)
		flags = []string{"--insecure-cluster"}
	}
	s.env = append(s.env, s.place.Env()...)
	ports, err := proc.FreeAddresses(proc.Host(), 3*nodes+1) // The ports stay reserved before their use and while a node is down.
	if err != nil {
		t.Fatal(err)
	}
	s.models = ports[3*nodes]
	for i := range nodes {
		http, admin, config := ports[3*i], ports[3*i+1], filepath.Join(s.dir, fmt.Sprintf("node-%d.yaml", i+1))
		conf := fmt.Sprintf("listen: %s\n%sauth: {bearerEnv: ATTACK_TOKEN}\nadmin: {listen: %q}\nlimits: {memoryBytes: %d}\n", http, s.place.Config(), admin, memoryBytes)
		if nodes > 1 {
			conf += fmt.Sprintf("cluster: {listen: %q}\ndrain: {delay: 0s}\n", ports[3*i+2])
		}
		if err := os.WriteFile(config, []byte(conf+agents(vendor.URL, "http://"+s.models)), 0o600); err != nil {
			t.Fatal(err)
		}
		n := &node{}
		n.Node = s.Add(noderun.NodeOptions{
			Number: i, HTTP: http, Admin: admin, Program: s.program, Flags: flags, Config: config, Env: s.env, Dir: s.dir,
			Secret: token, Stays: nodes == 1, Watch: n.weigh,
		})
		n.Want(true)
		s.nodes = append(s.nodes, n)
	}
	return s
}

// agents returns the agents of every node: one for clients, and those of the attack.
func agents(vendor, endless string) string {
	return fmt.Sprintf(`providers:
  fake: {api: openai-completions, baseUrl: %[1]q}
  text: {api: openai-completions, baseUrl: %[2]q}
  arguments: {api: openai-completions, baseUrl: %[3]q}
agents:
  worker: {mounts: [/worker], model: fake/model, instructions: Do what the message says.}
  fat: {mounts: [/fat], model: fake/model, instructions: Wait.}
  armed: {mounts: [/armed], model: fake/model, instructions: Use the tools.}
  text: {mounts: [/text], model: text/endless, instructions: Speak.}
  arguments: {mounts: [/arguments], model: arguments/endless, instructions: Call.}
  branches:
    mounts: [/branches]
    model: fake/model
    initialData: {anyOf: [{type: array, items: {$ref: "#"}}, {type: array, items: {$ref: "#"}, minItems: 1}]}
  items: {mounts: [/items], model: fake/model, initialData: {items: {type: string}}}
`, vendor+"/v1", endless+"/text", endless+"/arguments")
}

// weigh records the memory of a process until it ends or ctx ends.
func (n *node) weigh(ctx context.Context, p *proc.Process) {
	for {
		if u, err := proc.UsageOf(p.PID()); err == nil {
			n.peak.Store(max(n.peak.Load(), u.Memory.Peak)) // One goroutine per node writes it.
		}
		select {
		case <-p.Ended():
			return
		case <-ctx.Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// meters sums the metrics of all nodes by name, without labels.
func (s *site) meters(ctx context.Context) map[string]float64 {
	sum := map[string]float64{}
	for _, n := range s.nodes {
		text, err := n.Get(ctx, "/metrics")
		if err != nil {
			continue // The node is down.
		}
		for line := range strings.Lines(string(text)) {
			name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
			if v, err := strconv.ParseFloat(value, 64); ok && err == nil && strings.HasPrefix(name, "parley_") {
				sum[name] += v
			}
		}
	}
	return sum
}
