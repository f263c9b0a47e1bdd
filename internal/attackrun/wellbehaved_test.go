package attackrun_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/noderun"
)

const (
	// neighbours is the number of well-behaved clients, each with one conversation at a time.
	neighbours = 8
	// perConversation is the number of messages in a conversation. It is small, so that the last ones
	// cost as much as the first.
	perConversation = 20
	// answerWithin is the timeout of a request before the client tries another node.
	answerWithin = 15 * time.Second
)

// The timed operations.
const (
	timeAdmitted = "admitted" // from a message to its receipt, over all tries
	timeSettled  = "settled"  // from its receipt to its settlement at a reader
	timeRead     = "read"     // a whole conversation
)

type latency struct {
	label string
	began time.Time
	took  time.Duration
}

// refusal is an answer with a status of 500 or more.
type refusal struct {
	began, ended time.Time
	status       int
	honest       bool // a 503 with Retry-After
	body         string
}

// fault is a failure visible to an operator: a crashed node, or a stalled store. It lasts until every
// node is ready again.
type fault struct {
	label       string
	began, over time.Time // over is zero while the fault lasts
}

func (f fault) overlaps(began, ended time.Time) bool {
	return !ended.Before(f.began) && (f.over.IsZero() || !began.After(f.over))
}

// wellBehaved runs the well-behaved clients, and holds their observations.
type wellBehaved struct {
	site   *site
	client *noderun.Client
	think  time.Duration

	mu       sync.Mutex
	samples  []latency
	refusals []refusal
	faults   []fault
	answers  int
	acked    map[string]map[string]conversation.Receipt // by conversation and key
}

func newWellBehaved(s *site) *wellBehaved {
	b := &wellBehaved{site: s, client: noderun.NewClient(answerWithin), think: 300 * time.Millisecond, acked: map[string]map[string]conversation.Receipt{}}
	b.client.HTTP.Transport = &watched{b.client.HTTP.Transport, b}
	return b
}

// watched adds the token to requests and records refusals.
type watched struct {
	next        http.RoundTripper
	wellBehaved *wellBehaved
}

func (w *watched) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	began := time.Now()
	resp, err := w.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	b := w.wellBehaved
	b.mu.Lock()
	b.answers++
	b.mu.Unlock()
	if resp.StatusCode < http.StatusInternalServerError {
		return resp, nil
	}
	body, _ := io.ReadAll(resp.Body) // As much as was received.
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	honest := resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") != ""
	b.mu.Lock()
	b.refusals = append(b.refusals, refusal{began, time.Now(), resp.StatusCode, honest, fmt.Sprintf("%s %s: %.400s", r.Method, r.URL.Path, body)})
	b.mu.Unlock()
	return resp, nil
}

func (w *watched) CloseIdleConnections() {
	if c, ok := w.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (b *wellBehaved) timed(label string, began time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.samples = append(b.samples, latency{label, began, time.Since(began)})
}

// begin records a fault, and returns the function that ends it.
func (b *wellBehaved) begin(label string) (end func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := len(b.faults)
	b.faults = append(b.faults, fault{label: label, began: time.Now()})
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.faults[i].over = time.Now()
	}
}

// run runs all clients until over ends. Messages in flight then are still answered and settled.
func (b *wellBehaved) run(ctx, over context.Context, phase string, seed uint64) {
	var clients sync.WaitGroup
	for i := range neighbours {
		clients.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			_ = noderun.Pause(over, time.Duration(r.Int64N(int64(b.think)))) // Spread the starts.
			for round := 0; over.Err() == nil; round++ {
				b.converse(ctx, over, r, fmt.Sprintf("%s-%d-%d", phase, i, round))
			}
		})
	}
	clients.Wait()
}

func (b *wellBehaved) converse(ctx, over context.Context, r *rand.Rand, id string) {
	settled := make(chan conversation.SubmissionID, perConversation)
	fresh := func(c noderun.Chunk) error {
		if c.Type == conversation.ChunkSettled {
			if c.Outcome != conversation.OutcomeCompleted {
				b.site.Fail("%s: %s is settled as %s: %v", id, c.SubmissionID, c.Outcome, c.Error)
			}
			settled <- c.SubmissionID
		}
		return nil
	}
	reading, endReading := context.WithCancel(ctx)
	var follows sync.WaitGroup
	defer follows.Wait()
	defer endReading()
	for n := range perConversation {
		receipt, ok := b.post(ctx, r, id, n)
		if !ok {
			return
		}
		admitted := time.Now()
		if n == 0 {
			reader := noderun.NewReader(b.client, conversation.Start, fresh)
			dice := rand.New(rand.NewPCG(r.Uint64(), 0))
			follows.Go(func() { b.follow(reading, dice, reader, id) })
		}
		select {
		case sub := <-settled:
			if sub != receipt.SubmissionID {
				b.site.Fail("%s: %s is settled, want %s", id, sub, receipt.SubmissionID)
			}
			b.timed(timeSettled, admitted)
		case <-time.After(liveness):
			b.site.Fail("%s: %s is not settled after %v", id, receipt.SubmissionID, liveness)
			return
		case <-ctx.Done():
			return
		}
		if n%3 == 2 {
			b.poll(ctx, r, id)
		}
		if noderun.Pause(over, b.think/2+time.Duration(r.Int64N(int64(b.think)))) != nil {
			return
		}
	}
}

// url returns the URL of a conversation at any of the nodes.
func (b *wellBehaved) url(r *rand.Rand, id string) string {
	return "http://" + b.site.nodes[r.IntN(len(b.site.nodes))].HTTP + "/worker/" + id
}

// post sends a message to one node after the other, under its key, until it is answered.
func (b *wellBehaved) post(ctx context.Context, r *rand.Rand, id string, n int) (receipt conversation.Receipt, ok bool) {
	key := fmt.Sprintf("%s.%d", id, n)
	began := time.Now()
	answer, header, err := b.ask(ctx, r, http.MethodPost, id, noderun.Message(key, "pace=2ms tokens=12 note="+key))
	if err == nil {
		b.timed(timeAdmitted, began)
		receipt, err = noderun.ReadReceipt(answer, header)
	}
	if err != nil {
		if ctx.Err() == nil || noderun.Broken(err) {
			b.site.Fail("message %s: %v", key, err)
		}
		return receipt, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.acked[id] == nil {
		b.acked[id] = map[string]conversation.Receipt{}
	}
	b.acked[id][key] = receipt
	return receipt, true
}

// ask sends a request about a conversation to one node after the other.
func (b *wellBehaved) ask(ctx context.Context, r *rand.Rand, method, id string, body []byte) ([]byte, http.Header, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, liveness, fmt.Errorf("not within %v", liveness))
	defer cancel()
	return b.client.Insist(ctx, r, method, func() string { return b.url(r, id) }, body)
}

// poll reads a whole conversation.
func (b *wellBehaved) poll(ctx context.Context, r *rand.Rand, id string) {
	began := time.Now()
	answer, header, err := b.ask(ctx, r, http.MethodGet, id, nil)
	if err == nil {
		b.timed(timeRead, began)
		_, err = noderun.ReadSnapshot(answer, header)
	}
	if noderun.Broken(err) {
		b.site.Fail("read %s: %v", id, err)
	}
}

// follow reads over all nodes until ctx ends.
func (b *wellBehaved) follow(ctx context.Context, r *rand.Rand, reader *noderun.Reader, id string) {
	if err := reader.Follow(ctx, r, func() string { return b.url(r, id) }); err != nil {
		b.site.Fail("reader of %s: %v", id, err)
	}
}

// takeSamples begins another phase: it returns and clears the samples.
func (b *wellBehaved) takeSamples() (samples []latency) {
	b.mu.Lock()
	defer b.mu.Unlock()
	samples, b.samples = b.samples, nil
	return samples
}

// during returns the fault that overlaps a period.
func (b *wellBehaved) during(began, ended time.Time) (fault, bool) {
	i := slices.IndexFunc(b.faults, func(f fault) bool { return f.overlaps(began, ended) })
	if i < 0 {
		return fault{}, false
	}
	return b.faults[i], true
}

// verdict splits the refusals into violations and, by text, the counts of those allowed during faults.
func (b *wellBehaved) verdict() (flaws []string, out map[string]int) {
	out = map[string]int{}
	for _, x := range b.refusals {
		f, broken := b.during(x.began, x.ended)
		if x.honest && !strings.Contains(x.body, "memory") && (broken || !*longFlag) {
			_, body, _ := strings.Cut(x.body, `"details":"`)
			out[fmt.Sprintf("%.90s", body)]++
			continue
		}
		flaws = append(flaws, fmt.Sprintf("status %d at %s (fault %q): %s", x.status, x.ended.Format("15:04:05.000"), f.label, x.body))
	}
	return flaws, out
}

// quiet returns the samples that no fault overlaps.
func (b *wellBehaved) quiet(samples []latency) (out []latency) {
	for _, s := range samples {
		if _, broken := b.during(s.began, s.began.Add(s.took)); !broken {
			out = append(out, s)
		}
	}
	return out
}

// percentile returns the percentile of one timed operation, 0 without samples.
func percentile(samples []latency, label string, p float64) time.Duration {
	var all []time.Duration
	for _, s := range samples {
		if s.label == label {
			all = append(all, s.took)
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(len(all)-1, int(p*float64(len(all))))]
}

func count(samples []latency, label string) (n int) {
	for _, s := range samples {
		if s.label == label {
			n++
		}
	}
	return n
}
