package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/inspect"
)

// truncate truncates the corrupt end of a log, or prints the loss if it is a plan.
func (cfg *logConfig) truncate(ctx context.Context, out io.Writer) error {
	conv, err := cfg.key()
	if err != nil {
		return err
	}
	if conv == "" {
		return cli.Usage(errors.New("--truncate takes one conversation: --agent and --id, or --conversation"))
	}
	return cfg.checking(func(at config.Bucket, b storage.Bucket) error {
		report, err := inspect.Truncate(ctx, b, conv, &inspect.RepairOptions{Write: cfg.write})
		p := &findingPrinter{out: out, json: cfg.json}
		var served *inspect.ServedError
		switch {
		case errors.As(err, &served):
			return &cli.ExitError{Code: cli.ExitRefused, Err: fmt.Errorf("%s: %w", at.Place(), err)}
		case errors.Is(err, inspect.ErrReadable):
			p.write(fmt.Sprintf("parley log repair --truncate: %s: %v\n", at.Place(), inspect.ErrReadable))
			if err := stillQuarantined(ctx, b, conv, p); err != nil {
				return &cli.ExitError{Code: cli.ExitUnknown, Err: cfg.explain(at, err)}
			}
			return p.err
		case report == nil:
		case cfg.json:
			p.value(report)
		default:
			p.cut(report, err)
		}
		switch {
		case err != nil:
			return &cli.ExitError{Code: cli.ExitUnknown, Err: cfg.explain(at, err)}
		case p.err != nil:
			return &cli.ExitError{Code: cli.ExitUnknown, Err: fmt.Errorf("print the report: %w", p.err)}
		case !cfg.write:
			return &cli.ExitError{Code: exitRepairable}
		}
		if err := releaseRepaired(ctx, b, conv, p); err != nil {
			return &cli.ExitError{Code: cli.ExitUnknown, Err: cfg.explain(at, err)}
		}
		return nil
	})
}

// cut prints the loss as text; err is the error of the truncation.
func (p *findingPrinter) cut(r *inspect.TruncateReport, err error) {
	var s strings.Builder
	fmt.Fprintf(&s, "the log is readable up to batch %d\n  %s\n", r.Last, r.Reason)
	for _, b := range r.Batches {
		fmt.Fprintf(&s, "lost batch %d at %s\n", b.Seq, b.Key)
		if b.Error != "" {
			fmt.Fprintf(&s, "  unknown, it is unreadable: %s\n", b.Error)
			continue
		}
		for _, kind := range slices.Sorted(maps.Keys(b.Records)) {
			fmt.Fprintf(&s, "  %d %s\n", b.Records[kind], kind)
		}
	}
	for _, sub := range r.Submissions {
		switch {
		case sub.Admitted:
			fmt.Fprintf(&s, "lost submission %s: it is removed without a trace\n", sub.ID)
		default:
			fmt.Fprintf(&s, "lost settlement of %s (%s): it is processed again\n", sub.ID, sub.Settled)
		}
	}
	switch {
	case r.Quarantine == "":
		fmt.Fprintf(&s, "nothing was changed; --write truncates this part, and the log continues with batch %d\n", r.Next)
	case err != nil:
		fmt.Fprintf(&s, "the truncation did not complete: keep this list, and repeat the command; removed batches are kept under %s\n", r.Quarantine)
	default:
		fmt.Fprintf(&s, "truncated and kept under %s; the log continues with batch %d\n", r.Quarantine, r.Next)
	}
	p.write(s.String())
}
