//go:build !mutants

package storage_test

import "context"

// pendingOf returns nil: retries send the bytes of the first attempt.
func pendingOf() func(context.Context, func() []byte) context.Context { return nil }
