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

// Options say what to measure. Not every suite heeds all of them.
type Options struct {
	// Program is the parley program that is measured, as "parley serve"; "" where Against
	// names a server, and for the log. Self is the program that has ModelCommand and
	// BucketCommand.
	Program, Self string
	// Dir is the folder below which everything durable goes, in a folder of its own
	// that is removed; "" is the system's temporary folder.
	Dir string
	// Quick takes small counts.
	Quick bool
	// Percent of the counts are put on as load, 1 to 100; 0 is 100.
	Percent int
	// Only names the scenarios to run, in any order; empty is all of them. The raw
	// PUTs of one writer are measured in any case, for the ratios.
	Only []string
	// Against is the URL an agent is mounted at on a running server; "" measures a
	// server of the run's own. Token, if any, goes with every request to it.
	Against, Token string
	// Model is the URL of the Model that the agent at Against uses; "" if it uses
	// another one, and then scenarios that need its help are left out.
	Model string
	// ClickHouse is host:port of a server that the run's own server sends its events to,
	// native protocol, database parley_bench; "" sends none.
	ClickHouse string
	// Profiles is an existing folder for profiles of the run's own server in each
	// scenario whose costs are measured, of the last round where there are several;
	// "" takes none. They cost some time.
	Profiles string
	// Bucket, at an endpoint, is what nodes share, or a log is measured on; nil is one over a
	// folder. What is written there stands below a prefix of the run's own, and is deleted.
	// Nodes get its keys by their environment.
	Bucket *config.Bucket
	// Logs is an existing folder for what the nodes of a cluster log; "" keeps nothing of it.
	Logs string
	// Version is put into the report: [VersionOf] the Program.
	Version string
	// Progress is told what begins, and what requests of a load have failed; nil is nobody.
	Progress io.Writer
}

// valid checks everything that can be wrong before anything starts.
func (o *Options) valid(of *Suite) error {
	if o.Percent < 0 || o.Percent > 100 {
		return fmt.Errorf("%d percent of the counts are not 1 to 100", o.Percent)
	}
	if strings.ContainsAny(o.Token, "\r\n") {
		return errors.New("the token has a line break")
	}
	if o.ClickHouse != "" && o.Against != "" {
		return fmt.Errorf("the server at %s is not the run's own and sends its events where it likes", o.Against)
	}
	if o.Profiles != "" && o.Against != "" {
		return fmt.Errorf("the server at %s is not the run's own and has no profiles", o.Against)
	}
	if o.Model != "" && o.Against == "" {
		return fmt.Errorf("model %s belongs to no server; name that, too", o.Model)
	}
	for what, dir := range map[string]string{"profiles": o.Profiles, "logs": o.Logs} {
		if dir == "" {
			continue
		}
		if f, err := os.Stat(dir); err != nil {
			return fmt.Errorf("find the folder for %s: %w", what, err)
		} else if !f.IsDir() {
			return fmt.Errorf("%s, for %s, is no folder", dir, what)
		}
	}
	names := of.Names()
	for _, name := range o.Only {
		if !slices.Contains(names, name) {
			return fmt.Errorf("no scenario%s is named %q; there are %s", of.of, name, strings.Join(names, ", "))
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

// amount is how much of something a run has, and how much if it is quick.
type amount[T int | time.Duration] struct{ full, quick T }

// of returns how much that is for a run, at least 1 of it.
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

// bounds are how long a loop may take, one that builds or fills something, a scenario, and all
// of them.
type bounds struct{ loop, long, scenario, run time.Duration }

// few reports whether a quick run has a share of its counts alone: these few operations are to be
// carried out however long they take.
func (o *Options) few() bool { return o.Quick && o.Percent > 0 && o.Percent < 100 }

// boundsOf returns the bounds of a run.
func (s *Suite) boundsOf(o *Options) bounds {
	if o.Quick && !o.few() {
		return s.quick
	}
	return s.full
}
