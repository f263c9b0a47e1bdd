package actors

import (
	"context"
	"time"

	"github.com/parleyrun/parley/storage"
)

// clockWarning is the clock difference to the bucket above which a warning is logged.
const clockWarning = time.Minute

// BucketError reports that the bucket is unusable: it does not answer, rejects the credentials, has an
// incompatible format ([*storage.FormatError]), or its store lacks the semantics that the log needs
// ([*storage.ProbeError]). No request was served.
type BucketError struct{ Err error }

// Error implements error.
func (e *BucketError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *BucketError) Unwrap() error { return e.Err }

// reach verifies the format of the bucket and, unless it is exclusive, that its store answers and has
// the semantics that the log needs.
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
		r.opts.Logger.Warn("clock differs from the bucket's", "ahead", ahead.Round(time.Second), "consequence", "the bucket rejects requests from 15 minutes on")
	}
	if err == nil && report != nil {
		r.opts.Logger.Info("bucket passed the probe", "requests", report.Requests, "took", report.Took.Round(time.Millisecond))
	}
	return err
}
