package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

type result int

const (
	answered    result = iota
	unavailable        // 503
	refused            // no connection
	cut                // connection closed before an answer
	failed             // another status, or a timeout
)

// resultOf classifies the result of a request whose expected status is want.
func resultOf(status, want int, err error) result {
	var op *net.OpError
	switch {
	case err == nil && status == want:
		return answered
	case err == nil && status == http.StatusServiceUnavailable:
		return unavailable
	case err == nil:
		return failed
	case errors.As(err, &op) && op.Timeout():
		return failed
	case op != nil && op.Op == "dial":
		return refused
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return cut
	}
	return failed
}

const (
	// requestTimeout bounds a request. It is longer than a node searches for an owner.
	requestTimeout = 15 * time.Second
	// loadReply is the script of a message of a load. Its turn takes a while.
	loadReply = "pace=20ms tokens=10"
	// maxNotes limits the failures of a load that are reported.
	maxNotes = 5
)

var loadPool = amount[int]{200, 50}

// load sends requests to a cluster at a fixed rate, independent of earlier requests: messages and
// snapshots in turn, each to the next ready node. A request that a node does not take is retried once
// at another one, under the same key.
type load struct {
	c    *cluster
	ids  []string
	rate int // requests per second

	mu           sync.Mutex
	took         []time.Duration // latencies of answered requests, from their due time
	results      [failed + 1]int // number of first tries by result
	failed       int             // after the second try
	acknowledged map[string][]string
	began        time.Time
	lasted       time.Duration
}

func (c *cluster) newLoad(ctx context.Context, rate, conversations int) (*load, error) {
	l := &load{c: c, rate: rate, acknowledged: map[string][]string{}}
	for i := range conversations {
		l.ids = append(l.ids, numbered("load")(i))
	}
	_, err := loop(ctx, c.limits.long, min(8, conversations), conversations, func(ctx context.Context, i int) (time.Duration, error) {
		at, err := c.next(ctx)
		if err != nil {
			return 0, err
		}
		took, _, err := at.turn(ctx, l.ids[i], oneToken)
		return took, err
	})
	if err != nil {
		return nil, fmt.Errorf("warm conversations: %w", err)
	}
	return l, nil
}

// begin starts the load. The returned function stops it and waits for requests in flight.
func (l *load) begin(ctx context.Context) (end func()) {
	due, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	l.began = time.Now()
	wg.Go(func() {
		for i := 0; ; i++ {
			at := l.began.Add(time.Duration(i) * time.Second / time.Duration(l.rate))
			if pause(due, time.Until(at)) != nil {
				return
			}
			wg.Go(func() { l.request(ctx, i, at) })
		}
	})
	return sync.OnceFunc(func() {
		stop()
		l.lasted = time.Since(l.began)
		wg.Wait()
	})
}

// request sends the i-th request and counts its result.
func (l *load) request(ctx context.Context, i int, due time.Time) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	id := l.ids[i/2%len(l.ids)]
	method, want, body := http.MethodGet, http.StatusOK, ""
	if i%2 == 0 {
		method, want, body = http.MethodPost, http.StatusAccepted, message(loadReply, fmt.Sprintf("%s-%d", l.c.Name, i))
	}
	var at *incarnation
	first := answered
	for try := 1; ; try++ {
		if at = l.c.pick(at); at == nil {
			l.count(first, due, fmt.Errorf("%s %s: no other node is ready", method, id))
			return
		}
		status := 0
		resp, b, err := at.ask(ctx, method, at.path(id, ""), body)
		if err == nil {
			status = resp.StatusCode
		}
		f := resultOf(status, want, err)
		if try == 1 {
			first = f
		}
		if f == answered {
			if method == http.MethodPost {
				err = l.acknowledge(id, b)
			}
			l.count(first, due, err)
			return
		}
		if err == nil {
			err = fmt.Errorf("answered %d: %.200s", status, b)
		}
		if try == 2 || f == failed {
			l.count(first, due, fmt.Errorf("%s %s, try %d after %v at node %d: %w", method, id, try, time.Since(due).Round(time.Millisecond), at.place, err))
			return
		}
	}
}

func (l *load) acknowledge(id string, body []byte) error {
	r, err := readReceipt(body)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acknowledged[id] = append(l.acknowledged[id], r.SubmissionID)
	return nil
}

func (l *load) count(first result, due time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.results[first]++
	if err == nil {
		l.took = append(l.took, time.Since(due))
		return
	}
	if l.failed++; l.failed <= maxNotes {
		why, _, _ := strings.Cut(err.Error(), "\n")
		fmt.Fprintf(l.c.o.Progress, "%s: request failed %.1f s after the start: %s\n", l.c.Name, time.Since(l.began).Seconds(), why)
	}
}

// verdict adds the counts of a finished load, and the audit of its acknowledged messages.
func (l *load) verdict(ctx context.Context) error {
	sent, acknowledged := 0, 0
	for _, n := range l.results {
		sent += n
	}
	for _, all := range l.acknowledged {
		acknowledged += len(all)
	}
	a, err := l.c.audit(ctx, l.acknowledged)
	for _, f := range []struct {
		name string
		n    int
	}{
		{"requests", sent}, {"failed", l.failed}, {"retried: 503", l.results[unavailable]}, {"refused", l.results[refused]}, {"cut", l.results[cut]},
		{"acknowledged", acknowledged}, {"lost", a.lost}, {"twice", a.twice}, {"attempts consumed", a.consumed},
	} {
		l.c.metric(f.name, float64(f.n), "")
	}
	return err
}

// loaded runs a load while the members change, and for a while before and after.
func (c *cluster) loaded(ctx context.Context, change func(steady func() error) error) error {
	steady := func() error { return pause(ctx, steadyTime.of(&c.o)) }
	l, err := c.newLoad(ctx, c.n, loadPool.of(&c.o))
	if err != nil {
		return err
	}
	end := l.begin(ctx)
	defer end()
	_, err = c.metered(map[**float64]int{&c.GeneratorCPU: os.Getpid()}, func() error {
		for _, step := range []func() error{steady, func() error { return change(steady) }, steady} {
			if err := step(); err != nil {
				return err
			}
		}
		end()
		return nil
	})
	if err != nil {
		return err
	}
	c.Seconds = l.lasted.Seconds()
	c.take(l.took)
	return l.verdict(ctx)
}
