package clusterrun_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/noderun"
)

const (
	// probeEvery and probeFailures decide when the balancer removes a node, like Kubernetes but
	// faster. rollingDelay is much longer than both together.
	probeEvery    = 100 * time.Millisecond
	probeFailures = 2
	rollingDelay  = 3 * time.Second

	rollingWorkers = 4
	rollingThink   = 50 * time.Millisecond
)

// balancer sends requests in turn to the nodes that are ready by /readyz. It retries nothing.
type balancer struct {
	nodes []*node
	up    []atomic.Bool
	turn  atomic.Int64
	http  *http.Client
	sent  atomic.Int64
}

func newBalancer(nodes []*node) *balancer {
	return &balancer{nodes: nodes, up: make([]atomic.Bool, len(nodes)), http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
}

// probe polls one node until ctx ends.
func (b *balancer) probe(ctx context.Context, i int) {
	for failures := 0; ; {
		if b.ready(ctx, i) {
			failures = 0
			b.up[i].Store(true)
		} else if failures++; failures >= probeFailures {
			b.up[i].Store(false)
		}
		if noderun.Pause(ctx, probeEvery) != nil {
			return
		}
	}
}

func (b *balancer) ready(ctx context.Context, i int) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.nodes[i].Admin+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := b.http.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// pick returns the next ready node, nil if there is none.
func (b *balancer) pick() *node {
	for range b.nodes {
		if i := int(b.turn.Add(1)) % len(b.nodes); b.up[i].Load() {
			return b.nodes[i]
		}
	}
	return nil
}

// do sends a request once. The caller closes the body.
func (b *balancer) do(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	n := b.pick()
	if n == nil {
		return nil, fmt.Errorf("%s %s: no node is ready", method, path)
	}
	// A body of an unknown type keeps the transport from retrying the request.
	req, err := http.NewRequestWithContext(ctx, method, n.url(path), struct{ io.Reader }{bytes.NewReader(body)})
	if err != nil {
		return nil, err
	}
	req.ContentLength = int64(len(body))
	if len(body) == 0 {
		req.Body = http.NoBody
	}
	req.Header.Set("Content-Type", "application/json")
	b.sent.Add(1)
	resp, err := b.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", n, err)
	}
	if want := map[string]int{http.MethodPost: http.StatusAccepted, http.MethodGet: http.StatusOK}[method]; resp.StatusCode != want {
		answer, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		return nil, fmt.Errorf("%v: %s %s: status %d, want %d: %.300s", n, method, path, resp.StatusCode, want, answer)
	}
	return resp, nil
}

// whole is do for a finite answer.
func (b *balancer) whole(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, liveness)
	defer cancel()
	resp, err := b.do(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// conv posts to one conversation and reads it until over ends. It returns the number of admitted
// messages.
func (b *balancer) conv(ctx, over context.Context, c *cluster, id string) (posted int) {
	for noderun.Pause(over, rollingThink) == nil {
		message := noderun.Message(fmt.Sprint(id, ".", posted), secret+id+" pace=1ms tokens=2")
		if _, err := b.whole(ctx, http.MethodPost, id, message); err != nil {
			c.Fail("a message is refused: %v", err)
			return posted
		}
		posted++
		for _, query := range []string{"", "?view=updates&offset=-1"} {
			if _, err := b.whole(ctx, http.MethodGet, id+query, nil); err != nil {
				c.Fail("a read is refused: %v", err)
				return posted
			}
		}
	}
	return posted
}

// follow reads one conversation by event streams until over ends. A stream may end at any time, but
// the next one must start.
func (b *balancer) follow(over context.Context, c *cluster, id string) {
	for over.Err() == nil {
		resp, err := b.do(over, http.MethodGet, id+"?view=updates&live=sse&offset=-1", nil)
		if over.Err() != nil {
			break
		}
		if err != nil {
			c.Fail("an event stream is refused: %v", err)
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		_ = noderun.Pause(over, rollingThink)
	}
}

// Three nodes restart one after the other behind a balancer that follows /readyz. Clients without
// retries post, read and follow: no request is refused, and each message is settled.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	file := program(t)
	c := newCluster(t, clusterOptions{nodes: 3, sound: true, drain: rollingDelay, program: func(int) string { return file }})
	c.logf = t.Logf
	b := newBalancer(c.nodes)
	t.Cleanup(b.http.CloseIdleConnections)
	if !c.Start(t.Context()) {
		t.Fatalf("%v\n%s", c.All(), c.Tails())
	}
	probing, stop := context.WithCancel(t.Context())
	var probes, load sync.WaitGroup
	for i := range c.nodes {
		probes.Go(func() { b.probe(probing, i) })
	}
	defer probes.Wait()
	defer stop()
	await(t, c, b)
	over, end := context.WithCancel(t.Context())
	defer end()
	posted := make([]int, rollingWorkers)
	for i := range posted {
		id := fmt.Sprint("rolling-", i)
		if _, err := b.whole(t.Context(), http.MethodPost, id, noderun.Message(id, secret+id+" pace=1ms tokens=2")); err != nil {
			t.Fatal(err)
		}
		load.Go(func() { posted[i] = 1 + b.conv(t.Context(), over, c, id) })
		load.Go(func() { b.follow(over, c, id) })
	}
	for _, n := range c.nodes {
		n.Leave()
		n.Want(true)
		if !n.Await(t.Context()) {
			break
		}
		await(t, c, b)
	}
	end()
	load.Wait()
	for i, want := range posted {
		settled(t, c, b, fmt.Sprint("rolling-", i), want)
	}
	t.Logf("%d requests, messages %v", b.sent.Load(), posted)
	if c.Any() {
		t.Errorf("%v\n%s", c.All(), c.Tails())
	}
}

// await waits until the balancer has every node as ready.
func await(t *testing.T, c *cluster, b *balancer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), liveness)
	defer cancel()
	for !c.Any() && slices.ContainsFunc(c.nodes, func(n *node) bool { return !b.up[n.Number].Load() }) {
		if noderun.Pause(ctx, probeEvery) != nil {
			t.Fatalf("not all nodes are ready\n%s", c.Tails())
		}
	}
}

// settled waits until all messages of a conversation have completed.
func settled(t *testing.T, c *cluster, b *balancer, id string, want int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), liveness)
	defer cancel()
	for {
		answer, err := b.whole(ctx, http.MethodGet, id, nil)
		var s conversation.Snapshot
		if err == nil {
			err = json.Unmarshal(answer, &s)
		}
		completed := 0
		for _, end := range s.Settlements {
			if end.Outcome == conversation.OutcomeCompleted {
				completed++
			}
		}
		if err == nil && completed == want && len(s.Settlements) == want {
			return
		}
		if err != nil || noderun.Pause(ctx, probeEvery) != nil {
			t.Errorf("%s: got %d completed of %d settlements, want %d: %v", id, completed, len(s.Settlements), want, err)
			return
		}
	}
}
