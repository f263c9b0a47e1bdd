//go:build !mutants

package storage_test

import "context"

// pendingOf returns nothing: a retry sends what the first attempt sent.
func pendingOf() func(context.Context, func() []byte) context.Context { return nil }
