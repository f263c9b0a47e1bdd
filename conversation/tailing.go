package conversation

import "context"

type tailingKey struct{}

// Tailing marks the reads of a live response after its first. A [Reader] may answer them from pushed
// batches without another check of the log's end. Any other read reflects a moment after its start.
func Tailing(ctx context.Context) context.Context {
	return context.WithValue(ctx, tailingKey{}, true)
}

// IsTailing reports whether ctx comes from [Tailing].
func IsTailing(ctx context.Context) bool { return ctx.Value(tailingKey{}) != nil }
