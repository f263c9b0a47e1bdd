package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/storage"
)

func bucketCommand(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bucket",
		Short: "Check a bucket",
	}
	cmd.AddCommand(bucketCheckCommand(p))
	return cmd
}

func bucketCheckCommand(p *cli.Program) *cobra.Command {
	var place *cli.Place
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check that a bucket meets the requirements of Parley, and its latency",
		Long: "check verifies, with some 600 requests, that the bucket of a configuration file has the guarantees\n" +
			"that the log requires: conditional creates of which exactly one succeeds, and reads and listings\n" +
			"that include every earlier write. It prints the results and the latencies of the requests.\n\n" +
			"A server runs the same check before it serves a bucket at an endpoint, and reuses a good result\n" +
			"for a day; this command always runs it. The embedded bucket of a folder is never checked at a\n" +
			"start; with --data, or a file that names a folder, the latencies are those of its disk.\n" +
			"A folder cannot be checked while a server uses it; a bucket at an endpoint can.\n\n" +
			"The objects of the check are removed. An empty bucket stays empty.\n\n" +
			"Exit code: 0 if every check passed, 75 a server uses the folder, 1 any other error.",
		Example: "  parley bucket check\n  parley bucket check --config /etc/parley.yaml\n  parley bucket check --data ./data",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return checkBucket(cmd.Context(), place, asJSON, cmd.OutOrStdout())
		},
	}
	place = cli.NewPlace(p, cmd, "the bucket", true)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// checkBucket probes a bucket and prints the result.
func checkBucket(ctx context.Context, place *cli.Place, asJSON bool, out io.Writer) (err error) {
	conf, _, err := place.Find("bucket")
	if err != nil {
		return err
	}
	at := conf.Bucket
	bucket, closeBucket, err := cli.OpenBucket(at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeBucket()) }()
	reach, cancel := storage.WithFirstAnswer(ctx)
	defer cancel()
	stamped, err := storage.CheckFormat(reach, bucket)
	if err != nil {
		return at.Explain(err)
	}
	var report *storage.ProbeReport
	if keep := stamped && at.Endpoint != ""; keep {
		report, err = storage.EnsureProbed(ctx, bucket, at.Endpoint, time.Now(), &storage.ProbeOptions{Fresh: true})
	} else {
		report, err = storage.Probe(ctx, bucket, nil)
	}
	show := printProbe
	if asJSON {
		show = encodeProbe
	}
	if report == nil {
		return at.Explain(err)
	}
	if printErr := show(out, at, report); printErr != nil {
		return printErr
	}
	if err != nil {
		return at.Explain(err)
	}
	if at.Endpoint == "" && !asJSON {
		_, err = fmt.Fprintln(out, "\nA start does not probe the embedded bucket: the result is for information.")
	}
	return err
}

// probeReport is the JSON form of a report. Times are in milliseconds.
type probeReport struct {
	Bucket     string         `json:"bucket"`
	OK         bool           `json:"ok"`
	Checks     []probeCheck   `json:"checks"`
	Operations []probeLatency `json:"operations"`
	Requests   int            `json:"requests"`
	DurationMs float64        `json:"durationMs"`
}

type probeCheck struct {
	Name  string `json:"name"`
	OK    bool   `json:"ok"`
	Found string `json:"found"`
}

type probeLatency struct {
	Operation string  `json:"operation"`
	Count     int     `json:"count"`
	P50Ms     float64 `json:"p50Ms"`
	P99Ms     float64 `json:"p99Ms"`
	MaxMs     float64 `json:"maxMs"`
}

func encodeProbe(out io.Writer, at config.Bucket, r *storage.ProbeReport) error {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	p := probeReport{Bucket: at.Place(), OK: true, Checks: []probeCheck{}, Operations: []probeLatency{}, Requests: r.Requests, DurationMs: ms(r.Took)}
	for _, c := range r.Checks {
		p.OK = p.OK && c.OK
		p.Checks = append(p.Checks, probeCheck{c.Name, c.OK, c.Found})
	}
	for _, l := range r.Latencies {
		p.Operations = append(p.Operations, probeLatency{l.Op, l.Count, ms(l.P50), ms(l.P99), ms(l.Max)})
	}
	if err := json.NewEncoder(out).Encode(p); err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	return nil
}

func printProbe(out io.Writer, at config.Bucket, r *storage.ProbeReport) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "parley bucket check: %s\n\nCHECK\tRESULT\tFOUND\n", at.Place())
	for _, c := range r.Checks {
		result := "ok"
		if !c.OK {
			result = "FAILED"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", c.Name, result, c.Found)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	fmt.Fprint(w, "\nREQUEST\tCOUNT\tP50\tP99\tMAX\n")
	for _, l := range r.Latencies {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", l.Op, l.Count, millis(l.P50), millis(l.P99), millis(l.Max))
	}
	fmt.Fprintf(w, "\n%d requests in %s\n", r.Requests, r.Took.Round(time.Millisecond))
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	return nil
}

func millis(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d)/1e6) }
