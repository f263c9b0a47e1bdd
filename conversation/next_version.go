//go:build nextversion

package conversation

// TypeNextNoted is a type of the next version, in builds with the tag nextversion only.
const TypeNextNoted RecordType = "next_noted"

// NextNoted is a fact that nodes of this version must not skip. It changes nothing.
type NextNoted struct {
	Must       bool         `json:"must"`
	Submission SubmissionID `json:"submission"`
}

// Type implements Record.
func (*NextNoted) Type() RecordType { return TypeNextNoted }

func nextRecords() []recordKind {
	return []recordKind{{TypeNextNoted, true, func() Record { return new(NextNoted) }}}
}
