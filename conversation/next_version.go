//go:build nextversion

package conversation

// TypeNextNoted is a type of the version after this one, of builds with the tag
// nextversion alone.
const TypeNextNoted RecordType = "next_noted"

// NextNoted stands for a fact that nodes of this version must not pass over. It changes
// nothing.
type NextNoted struct {
	Must       bool         `json:"must"`
	Submission SubmissionID `json:"submission"`
}

// Type implements Record.
func (*NextNoted) Type() RecordType { return TypeNextNoted }

func nextRecords() []recordKind {
	return []recordKind{{TypeNextNoted, true, func() Record { return new(NextNoted) }}}
}
