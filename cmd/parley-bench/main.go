// Command parley-bench measures servers of the conversation protocol (parley itself or any other), the
// log of conversations, and clusters.
//
// It is not part of a deployment. It starts the parley program that it measures, and a model of its
// own. See "parley-bench --help" and docs/performance.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/cmd/parley-bench/internal/bench"
	"github.com/parleyrun/parley/internal/threads"
)

func main() {
	threads.Spread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program without the process. It returns the exit code.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	root := serverCommand()
	root.AddCommand(logCommand(), clusterCommand(), compareCommand(), modelCommand(), bucketCommand())
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; %s --help lists the flags", err, cmd.CommandPath())
	})
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(errOut, "parley-bench: %v\n", err)
		return 1
	}
	return 0
}

// find sets the programs of o: this one, and the one to measure. That is the named one, or the parley
// in the folder of this program, or the one on PATH.
func find(ctx context.Context, named string, o *bench.Options) (err error) {
	if o.Self, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if named != "" {
		if at, err := filepath.Abs(named); err == nil {
			if _, err := os.Stat(at); err == nil {
				named = at // LookPath also resolves a name without a slash.
			}
		}
		if o.Program, err = exec.LookPath(named); err != nil {
			return fmt.Errorf("find the program to measure: %w", err)
		}
	} else if o.Program, err = exec.LookPath(filepath.Join(filepath.Dir(o.Self), "parley")); err != nil {
		if o.Program, err = exec.LookPath("parley"); err != nil {
			return fmt.Errorf("find the program to measure: no parley next to %s or on PATH; run make build, or set --program", o.Self)
		}
	}
	o.Version, err = bench.VersionOf(ctx, o.Program)
	return err
}

// ownVersion returns the version of this program from its build information.
func ownVersion() string {
	version := "devel"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		version = info.Main.Version
	}
	return "parley-bench " + version
}

// finish writes a report, and returns an error if a scenario has failed.
func finish(report *bench.Report, jsonFile string, out io.Writer) error {
	err := written(report, jsonFile, out)
	if n := report.Failed(); n > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %d scenarios failed", n, len(report.Scenarios)))
	}
	return err
}

// written writes a table, and a file unless its name is "".
func written(v interface{ WriteTable(io.Writer) error }, jsonFile string, out io.Writer) error {
	if err := v.WriteTable(out); err != nil || jsonFile == "" {
		return err
	}
	f, err := os.Create(jsonFile)
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return errors.Join(bench.WriteJSON(f, v), f.Close())
}
