//go:build !nextversion

package conversation

// nextRecords are the types that a version after this one adds. A build with the tag
// nextversion has one, so that two versions can be run side by side.
func nextRecords() []recordKind { return nil }
