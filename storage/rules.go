//go:build !mutants

package storage

import "context"

// The rules of the log always hold. A build with the tag mutants can switch one off, to verify that
// the tests detect it.

func frozenBody() bool  { return true }
func readBack() bool    { return true }
func pinFirst() bool    { return true }
func verifyClaim() bool { return true }
func keepHighest() bool { return true }
func checkChain() bool  { return true }

// putBackSteps are the last steps of [PutBack], in order.
func putBackSteps(list, remove func() error) []func() error { return []func() error{list, remove} }

// rebuild would encode a batch again for a retry; R1 forbids it.
func (w *Writer) rebuild(context.Context, Header, []byte) ([]byte, Hash) {
	panic("storage: a frozen batch was rebuilt")
}
