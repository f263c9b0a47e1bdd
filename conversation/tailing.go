package conversation

import "context"

type tailingKey struct{}

// Tailing marks the reads of a live response after its first: a [Reader] may answer
// them from what was pushed to it, without making sure once more where the log ends.
// Any other read is answered as of a moment after it began.
func Tailing(ctx context.Context) context.Context {
	return context.WithValue(ctx, tailingKey{}, true)
}

// IsTailing reports whether ctx comes from [Tailing].
func IsTailing(ctx context.Context) bool { return ctx.Value(tailingKey{}) != nil }
