//go:build !nextversion

package machine

import "github.com/parleyrun/parley/conversation"

// noteNext records additions of a later version to an admission; there are none. A build with the tag
// nextversion shows how such a record is held back.
func (m *Machine) noteNext(conversation.SubmissionID) {}
