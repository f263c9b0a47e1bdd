package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/cmd/parley-bench/internal/bench"
)

func compareCommand() *cobra.Command {
	m, rounds := &measurement{suite: bench.Server}, 0
	cmd := &cobra.Command{
		Use:   "compare OLD NEW [-- flags of the load]",
		Short: "Measure two parley programs in turn, and report the differences",
		Long: "compare measures a server of each of two programs, one after the other, for some rounds. A\n" +
			"disturbance affects both. The program that runs first alternates.\n" +
			"For each figure of each scenario it prints the median and the spread of both, the ratio of\n" +
			"the medians, and whether the new program was apart: lower or higher in every run than the\n" +
			"old one in any. Of two programs that do not differ, five rounds set about 1 figure of 126\n" +
			"apart, three rounds 1 of 10. Figures that were equal in all runs are omitted.\n\n" +
			"Flags of parley-bench follow after --: --quick, --only, --dir and --clickhouse.\n\n" +
			"Exit code: 0 if everything asked for was measured, 1 otherwise.",
		Example: "  parley-bench compare ./parley-1.2 ./parley -- --quick\n" +
			"  parley-bench compare ./parley-1.2 ./parley --rounds 9 --json compared.json -- --only turns,readers",
		Args: func(cmd *cobra.Command, args []string) error {
			if before := cmd.ArgsLenAtDash(); before == 2 || before < 0 && len(args) == 2 {
				return nil
			}
			return errors.New("compare takes two parley programs, and flags of the load after --: parley-bench compare ./parley-1.2 ./parley -- --quick")
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := m.readLoad(args[2:]); err != nil {
				return err
			}
			m.options.Progress = cmd.ErrOrStderr()
			return m.compare(cmd.Context(), args[:2], rounds, cmd.OutOrStdout())
		},
	}
	cmd.Flags().IntVar(&rounds, "rounds", 5, "runs of each program")
	cmd.Flags().StringVar(&m.jsonFile, "json", "", "file to write all reports to as JSON, in addition to the table")
	return cmd
}

func (m *measurement) readLoad(args []string) error {
	load := &cobra.Command{}
	m.load(load)
	err := load.ParseFlags(args)
	if rest := load.Flags().Args(); err == nil && len(rest) > 0 {
		err = fmt.Errorf("unknown argument %q: only flags are allowed", rest[0])
	}
	if err != nil {
		return fmt.Errorf("flags after --: %w; allowed are --quick, --only, --dir and --clickhouse", err)
	}
	return nil
}

func (m *measurement) compare(ctx context.Context, programs []string, rounds int, out io.Writer) error {
	o := m.options
	if err := answers(ctx, o.ClickHouse); err != nil {
		return err
	}
	var sides [2]bench.Side
	for i, name := range programs {
		if err := find(ctx, name, &o); err != nil {
			return err
		}
		sides[i] = bench.Side{Program: o.Program, Version: o.Version}
	}
	c, err := bench.Compare(ctx, o, sides[0], sides[1], rounds)
	if err != nil {
		return err
	}
	err = written(c, m.jsonFile, out)
	if n := len(c.Errors); n > 0 {
		err = errors.Join(err, fmt.Errorf("%d measurements failed", n))
	}
	return err
}
