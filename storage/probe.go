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
	// probeVersion changes when the probe becomes stricter.
	probeVersion = 1
	// probeValid is how long a success is reused at later starts.
	probeValid = 24 * time.Hour
	// cleanupTimeout bounds the deletion of the probe's objects.
	cleanupTimeout = 10 * time.Second
)

// ProbeOptions configure a probe. The zero value works.
type ProbeOptions struct {
	// Timeout bounds the probe without its cleanup. 0 is 2 min.
	Timeout time.Duration
	// Retry configures retries of requests without an answer. Reads bounds the attempts of writes too;
	// 0 is 6.
	Retry Retry
	// Fresh makes [EnsureProbed] ignore a stored success.
	Fresh bool
}

// ProbeReport is the result of a probe.
type ProbeReport struct {
	Checks    []ProbeCheck   // In execution order. A probe without answers ends early.
	Latencies []ProbeLatency // By operation, in alphabetical order.
	Requests  int
	Took      time.Duration
}

// ProbeCheck is the result of one check.
type ProbeCheck struct {
	Name  string
	OK    bool
	Found string // Observed behavior of the store.
}

// ProbeLatency summarizes the durations of the requests of one operation, each from its start to its
// answer or timeout.
type ProbeLatency struct {
	Op            string // create, delete, get, list or put.
	Count         int
	P50, P99, Max time.Duration
}

// ProbeError reports a store that answers but lacks a required guarantee. Data stored there would not
// be safe.
type ProbeError struct {
	Check string // Name of the first check that failed.
	Found string // Observed behavior of the store.
	Need  string // Required behavior.
}

// Error implements error.
func (e *ProbeError) Error() string {
	return fmt.Sprintf("the store failed the check %q: %s; Parley needs %s;  "+
		"use a store of docs/buckets.md; a proxy or gateway in front of it may drop If-None-Match or answer from "+
		"a cache: bypass it; all endpoints of a bucket must serve the same data at once",
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

// EnsureProbed runs the probe unless the bucket holds a success of this probe version and endpoint
// that is less than a day old; then the report is nil. It stores the result. A stored failure is never
// reused. now is the wall-clock time. Errors are those of [Probe], and ErrUnavailable or ErrRefused if
// the stored result cannot be read.
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
	if storeErr := keepProbe(ctx, b, r, result); err == nil && storeErr != nil {
		err = fmt.Errorf("store probe result: %w", storeErr)
	}
	return report, err
}

// probedBefore reports whether the bucket holds a valid success. An unreadable result is not valid.
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

// Probe tests with about 600 requests whether a bucket has the guarantees that the log needs. Exactly
// one of several concurrent creates of a key wins, and reads and listings return every write
// acknowledged before them. A pass is evidence, not proof. Probe returns a [*ProbeError] if the store
// fails a check, ErrUnavailable if it does not answer in time, and ErrRefused if it rejects the
// caller. Probe tolerates occasional lost answers.
//
// Probe stores its objects below probe/ under a unique name and deletes them at the end, as far as
// possible. Any number of probes may run at once, and concurrently with other users of the bucket. The
// report is never nil.
func Probe(ctx context.Context, b Bucket, opts *ProbeOptions) (*ProbeReport, error) {
	o := probeOptions(opts)
	p := newProber(b, newRetry(o.Retry), probePrefix+rand.Text()+"/")
	start := time.Now()
	report := &ProbeReport{}
	bound, cancel := context.WithTimeoutCause(ctx, o.Timeout, fmt.Errorf("probe timed out after %v", o.Timeout))
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

// run executes every check, even after a failure, and returns the error of the first that failed.
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

// cleanUp deletes the objects of the probe. It does not retry against an unavailable store.
func (p *prober) cleanUp(ctx context.Context, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	var refused *ProbeError
	if err != nil && !errors.As(err, &refused) {
		once := *p.retry
		once.Reads = 1
		p.retry = &once
	}
	// Remaining objects are harmless.
	_ = p.each(slices.Sorted(maps.Keys(p.keys)), func(key string) error {
		_ = p.remove(ctx, key)
		return nil
	})
}

// latencies summarizes the measured durations.
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
