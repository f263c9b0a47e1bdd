//go:build !nextversion

package conversation

// nextRecords returns the types added by the next version. Builds with the tag nextversion have one,
// so that two versions can run side by side.
func nextRecords() []recordKind { return nil }
