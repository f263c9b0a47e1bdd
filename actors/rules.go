//go:build !mutants

package actors

import "context"

// These rules of idle writers and of answers from memory are always on. A build with the tag
// mutants can disable one, to verify that the simulation detects it.

func checksIdleWriter() bool { return true }
func readsLog() bool         { return true }

// withPending has no effect: a retried append sends the same bytes as the first attempt.
func withPending(ctx context.Context, _ []byte) context.Context { return ctx }
