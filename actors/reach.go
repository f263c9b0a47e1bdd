package actors

import (
	"context"
	"time"

	"github.com/parleyrun/parley/storage"
)

// clockWarning is how far the clock may be from the bucket's without a word.
const clockWarning = time.Minute

// BucketError says that the bucket cannot be used: it does not answer, does not let this
// node in, must not be touched ([*storage.FormatError]), or is in a store that the log
// cannot rest on ([*storage.ProbeError]). Nothing was served.
type BucketError struct{ Err error }

// Error implements error.
func (e *BucketError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *BucketError) Unwrap() error { return e.Err }

// reach makes sure of the bucket: that it is ours and, if others can reach it, that its
// store answers and does what the log rests on.
func (r *Runtime) reach(ctx context.Context) error {
	b := r.nodes.members.bucket
	if r.nodes.exclusive {
		return storage.EnsureFormat(ctx, b)
	}
	bound, cancel := storage.WithFirstAnswer(ctx)
	defer cancel()
	if err := storage.EnsureFormat(bound, b); err != nil {
		return err
	}
	report, err := storage.EnsureProbed(ctx, b, storage.EndpointOf(b), r.world.wall(), nil)
	if ahead := storage.ClockAhead(b); ahead.Abs() >= clockWarning {
		r.opts.Logger.Warn("the clock of this machine differs from the bucket's, which refuses requests from 15 minutes on", "ahead", ahead.Round(time.Second))
	}
	if err == nil && report != nil {
		r.opts.Logger.Info("bucket passed the probe", "requests", report.Requests, "took", report.Took.Round(time.Millisecond))
	}
	return err
}
