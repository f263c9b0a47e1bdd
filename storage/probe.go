package storage

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	probePrefix = "probe/"
	// probeVersion changes whenever a store that passed before might not pass now.
	probeVersion = 1
	// probeValid is how long a success spares the next start a probe.
	probeValid = 24 * time.Hour
	// cleanupTimeout bounds the removal of what a probe stored.
	cleanupTimeout = 10 * time.Second
)

// ProbeOptions tune a probe. The zero value works.
type ProbeOptions struct {
	// Timeout bounds the probe, without its cleaning up. 0 is 2 min.
	Timeout time.Duration
	// Retry says how a request without an answer is repeated. Reads bounds the
	// attempts of writes too; 0 is 6.
	Retry Retry
	// Fresh makes [EnsureProbed] run the probe whatever was found before.
	Fresh bool
}

// ProbeReport is what a probe found.
type ProbeReport struct {
	Checks    []ProbeCheck   // In the order they ran. A probe without answers ends early.
	Latencies []ProbeLatency // By operation, in alphabetical order.
	Requests  int
	Took      time.Duration
}

// ProbeCheck is the verdict of one check.
type ProbeCheck struct {
	Name  string
	OK    bool
	Found string // What the store did.
}

// ProbeLatency is how long the requests of one operation took, each from its start
// to its answer, or to the end of the wait for one.
type ProbeLatency struct {
	Op            string // create, delete, get, list or put.
	Count         int
	P50, P99, Max time.Duration
}

// ProbeError says that a store answers, and not as Parley needs it. Nothing that
// is stored there would be safe.
type ProbeError struct {
	Check string // Name of the first check that failed.
	Found string // What the store did.
	Need  string // What Parley needs in its place.
}

// Error implements error.
func (e *ProbeError) Error() string {
	return fmt.Sprintf("the store fails the check %q: %s; Parley needs %s; "+
		"use another store, docs/buckets.md names some; a proxy or gateway before this one may drop If-None-Match or answer from "+
		"a cache: go past it; endpoints of one bucket must all serve the same data at once",
		e.Check, e.Found, e.Need)
}

// probeResult is the content of probe/result/<hash of the endpoint>.
type probeResult struct {
	Version  int       `json:"v"`
	Endpoint string    `json:"endpoint"`
	At       time.Time `json:"at"`
	OK       bool      `json:"ok"`
	Requests int       `json:"requests"`
}

// EnsureProbed runs the probe unless the bucket holds a success of this version of
// it, for this endpoint and less than a day old. Then the report is nil. What is
// found is stored for the next one; a failure is never taken for the next one's
// answer. now is the time of day. Errors are those of [Probe], and ErrUnavailable
// or ErrRefused if the result cannot be asked for.
func EnsureProbed(ctx context.Context, b Bucket, endpoint string, now time.Time, opts *ProbeOptions) (*ProbeReport, error) {
	o := probeOptions(opts)
	r := newRetry(o.Retry)
	if !o.Fresh {
		known, err := probedBefore(ctx, b, r, endpoint, now)
		if err != nil {
			return nil, fmt.Errorf("probe bucket: %w", err)
		}
		if known {
			return nil, nil
		}
	}
	report, err := Probe(ctx, b, opts)
	var refused *ProbeError
	if err != nil && !errors.As(err, &refused) {
		return report, err
	}
	result := probeResult{Version: probeVersion, Endpoint: endpoint, At: now.UTC(), OK: err == nil, Requests: report.Requests}
	if keepErr := keepProbe(ctx, b, r, result); err == nil && keepErr != nil {
		err = fmt.Errorf("keep result of the probe: %w", keepErr)
	}
	return report, err
}

// probedBefore reports whether the bucket holds a success that still counts. One
// that cannot be read does not.
func probedBefore(ctx context.Context, b Bucket, r *retry, endpoint string, now time.Time) (bool, error) {
	data, err := readRetried(ctx, r, func(ctx context.Context) ([]byte, error) { return b.Get(ctx, probeKey(endpoint)) })
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var known probeResult
	if json.Unmarshal(data, &known) != nil {
		return false, nil
	}
	age := now.Sub(known.At)
	return known.OK && known.Version == probeVersion && known.Endpoint == endpoint && 0 <= age && age < probeValid, nil
}

func keepProbe(ctx context.Context, b Bucket, r *retry, result probeResult) error {
	data, err := json.Marshal(result)
	if err != nil {
		return err
	}
	return newProber(b, r, "").put(ctx, probeKey(result.Endpoint), append(data, '\n'))
}

func probeKey(endpoint string) string {
	sum := sha256.Sum256([]byte(endpoint))
	return probePrefix + "result/" + hex.EncodeToString(sum[:16])
}

// Probe finds out by some 600 requests whether a bucket does what the log rests on:
// of concurrent creates of a key exactly one wins, and reads and listings show every
// write that was answered before them. That is evidence, no proof. It ends with a
// [*ProbeError] if the store does not pass, with ErrUnavailable if it does not
// answer in time, and with ErrRefused if it does not let the caller in. An answer
// that is lost now and then does no harm.
//
// What it stores is below probe/ under a name of its own and is removed at the end,
// as far as that is possible. So any number of probes may run at once, beside
// whatever else uses the bucket. The report is never nil.
func Probe(ctx context.Context, b Bucket, opts *ProbeOptions) (*ProbeReport, error) {
	o := probeOptions(opts)
	p := newProber(b, newRetry(o.Retry), probePrefix+rand.Text()+"/")
	start := time.Now()
	report := &ProbeReport{}
	bound, cancel := context.WithTimeoutCause(ctx, o.Timeout, fmt.Errorf("the probe was not done within %v", o.Timeout))
	err := p.run(bound, report)
	cancel()
	p.cleanUp(ctx, err)
	report.Latencies, report.Requests, report.Took = p.latencies(), p.requests, time.Since(start)
	return report, err
}

func probeOptions(opts *ProbeOptions) ProbeOptions {
	var o ProbeOptions
	if opts != nil {
		o = *opts
	}
	o.Timeout = orDefault(o.Timeout, 2*time.Minute)
	o.Retry.Reads = orDefault(o.Retry.Reads, 6)
	return o
}

// run makes every check, also after one that failed, and returns the error of the
// first that did.
func (p *prober) run(ctx context.Context, report *ProbeReport) error {
	var first error
	for _, c := range probeChecks() {
		found, err := c.run(p, ctx)
		var flaw *probeFlaw
		switch {
		case errors.As(err, &flaw):
			found = flaw.found
			if first == nil {
				first = &ProbeError{Check: c.name, Found: flaw.found, Need: c.need}
			}
		case err != nil:
			err = fmt.Errorf("probe bucket: check %q: %w", c.name, err)
			if first == nil {
				first = err
			}
			return first
		}
		report.Checks = append(report.Checks, ProbeCheck{Name: c.name, OK: err == nil, Found: found})
	}
	return first
}

// cleanUp removes what the probe stored. Where nobody answers it does not insist.
func (p *prober) cleanUp(ctx context.Context, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	var refused *ProbeError
	if err != nil && !errors.As(err, &refused) {
		once := *p.retry
		once.Reads = 1
		p.retry = &once
	}
	// What is left is left: nothing depends on it.
	_ = p.each(slices.Sorted(maps.Keys(p.keys)), func(key string) error {
		_ = p.remove(ctx, key)
		return nil
	})
}

// latencies sums up what was measured.
func (p *prober) latencies() []ProbeLatency {
	var all []ProbeLatency
	for op, took := range p.took {
		slices.Sort(took)
		n := len(took)
		all = append(all, ProbeLatency{Op: op, Count: n, P50: took[(n-1)/2], P99: took[(n*99+99)/100-1], Max: took[n-1]})
	}
	slices.SortFunc(all, func(x, y ProbeLatency) int { return strings.Compare(x.Op, y.Op) })
	return all
}
