package membership

import (
	"fmt"

	"github.com/parleyrun/parley/storage"
)

// AliveError says that another node serves the bucket, and that it or this one
// serves alone: its heartbeat was seen to change.
type AliveError struct {
	Member storage.Member
	Epoch  int64 // Number of the epoch that names it.
}

// Error implements error.
func (e *AliveError) Error() string {
	return fmt.Sprintf("member %s at %q of epoch %d is alive", e.Member.ID, e.Member.Address, e.Epoch)
}

// ReplacedError says that the newest epoch lacks this node.
type ReplacedError struct {
	Epoch   int64
	Members []storage.Member // Who stands in it.
}

// Error implements error.
func (e *ReplacedError) Error() string {
	s := fmt.Sprintf("epoch %d lacks this node", e.Epoch)
	for _, m := range e.Members {
		s += fmt.Sprintf(", has %s at %q", m.ID, m.Address)
	}
	return s
}

// GoneError says that the newest epoch that this node knew was deleted, and that there is
// none above it: no node does that. Others may have begun anew, as members among
// themselves.
type GoneError struct {
	Epoch int64 // Number of the epoch that it knew.
}

// Error implements error.
func (e *GoneError) Error() string {
	return fmt.Sprintf("epoch %d is deleted from members/, and none is above it", e.Epoch)
}

// StrayError says that a node lives, but there is no epoch that could name it: the epochs
// were deleted while it ran.
type StrayError struct {
	Member string
}

// Error implements error.
func (e *StrayError) Error() string {
	return fmt.Sprintf("node %s is alive, and members/ has no epoch", e.Member)
}

// AbsentError says that the newest epoch has no member of this ID.
type AbsentError struct {
	Member string
	Epoch  int64 // 0 if there is none.
}

// Error implements error.
func (e *AbsentError) Error() string {
	return fmt.Sprintf("epoch %d has no member %q", e.Epoch, e.Member)
}
