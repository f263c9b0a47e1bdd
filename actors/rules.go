//go:build !mutants

package actors

import "context"

// The rules of writers at rest and of answers from memory hold unconditionally. A build
// with the tag mutants can switch one off, to show that the simulation notices.

func checksResting() bool { return true }
func looksAtLog() bool    { return true }

// withPending has no effect: a retried append sends what the first attempt sent.
func withPending(ctx context.Context, _ []byte) context.Context { return ctx }
