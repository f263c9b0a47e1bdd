package bench

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/parleyrun/parley/internal/config"
)

// Options configure a run. Some suites ignore some of them.
type Options struct {
	// Program is the parley program that is measured, as "parley serve"; "" where Against names a
	// server, and for the log. Self is this program, which has ModelCommand and BucketCommand.
	Program, Self string
	// Dir is the folder for all durable data, in a temporary folder below it; "" is the system's
	// temporary folder.
	Dir string
	// Quick uses small counts.
	Quick bool
	// Percent scales the counts of the load, 1 to 100; 0 is 100.
	Percent int
	// Only names the scenarios to run, in any order; empty runs all of them. The raw PUTs of one
	// writer always run, for the ratios.
	Only []string
	// Against is the URL of an agent on a running server; "" starts a server. Token, if set, is sent
	// with every request to it.
	Against, Token string
	// Model is the URL of the Model that the agent at Against uses. With "" the scenarios that need
	// the Model are omitted.
	Model string
	// ClickHouse is host:port (native protocol, database parley_bench) of the server to which the
	// measured server sends its events; "" sends none.
	ClickHouse string
	// Profiles is an existing folder for profiles of the run's server in each scenario whose costs are
	// measured; with several rounds, of the last one. "" takes none. Profiling costs some time.
	Profiles string
	// Bucket, at an endpoint, is shared by the nodes, or holds the measured log; nil is a folder. The
	// run writes below a prefix, and deletes its objects at the end. Nodes get its keys in their
	// environment.
	Bucket *config.Bucket
	// Logs is an existing folder for the logs of cluster nodes; "" keeps none.
	Logs string
	// Version is copied into the report: [VersionOf] the Program.
	Version string
	// Progress receives the name of each scenario as it starts, and failed requests of a load; nil
	// discards them.
	Progress io.Writer
}

// valid checks all options before anything starts.
func (o *Options) valid(of *Suite) error {
	if o.Percent < 0 || o.Percent > 100 {
		return fmt.Errorf("invalid percent %d: want 1 to 100", o.Percent)
	}
	if strings.ContainsAny(o.Token, "\r\n") {
		return errors.New("invalid token: contains a line break")
	}
	if o.ClickHouse != "" && o.Against != "" {
		return fmt.Errorf("cannot set the ClickHouse server of the foreign server %s", o.Against)
	}
	if o.Profiles != "" && o.Against != "" {
		return fmt.Errorf("cannot profile the foreign server %s", o.Against)
	}
	if o.Model != "" && o.Against == "" {
		return fmt.Errorf("model %s without a server: set Against, too", o.Model)
	}
	for description, dir := range map[string]string{"profiles": o.Profiles, "logs": o.Logs} {
		if dir == "" {
			continue
		}
		if f, err := os.Stat(dir); err != nil {
			return fmt.Errorf("find the folder for %s: %w", description, err)
		} else if !f.IsDir() {
			return fmt.Errorf("%s, for %s, is not a folder", dir, description)
		}
	}
	names := of.Names()
	for _, name := range o.Only {
		if !slices.Contains(names, name) {
			return fmt.Errorf("unknown scenario%s %q: want one of %s", of.of, name, strings.Join(names, ", "))
		}
	}
	for _, at := range []string{o.Against, o.Model} {
		if at == "" {
			continue
		}
		if u, err := url.Parse(at); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("%q is not a URL with http or https and a host", at)
		}
	}
	return nil
}

// amount is a quantity in a full run, and in a quick one.
type amount[T int | time.Duration] struct{ full, quick T }

// of returns the quantity for a run, at least 1.
func (a amount[T]) of(o *Options) T {
	n := a.full
	if o.Quick {
		n = a.quick
	}
	if o.Percent > 0 {
		n = n * T(o.Percent) / 100
	}
	return max(1, n)
}

// bounds are the time limits of a loop, of a long loop that builds or fills something, of a scenario,
// and of the run.
type bounds struct{ loop, long, scenario, run time.Duration }

// few reports whether a quick run has only a share of its counts. These few operations have no tight
// time limit.
func (o *Options) few() bool { return o.Quick && o.Percent > 0 && o.Percent < 100 }

func (s *Suite) boundsOf(o *Options) bounds {
	if o.Quick && !o.few() {
		return s.quick
	}
	return s.full
}
