package membership

import (
	"fmt"

	"github.com/parleyrun/parley/storage"
)

// AliveError reports that another node serves the bucket, and that it or this one serves alone: its
// heartbeat changed.
type AliveError struct {
	Member storage.Member
	Epoch  int64 // epoch with its row
}

// Error implements error.
func (e *AliveError) Error() string {
	return fmt.Sprintf("member %s at %q of epoch %d is alive", e.Member.ID, e.Member.Address, e.Epoch)
}

// ReplacedError reports that the newest epoch lacks this node.
type ReplacedError struct {
	Epoch   int64
	Members []storage.Member // rows of that epoch
}

// Error implements error.
func (e *ReplacedError) Error() string {
	s := fmt.Sprintf("epoch %d lacks this node", e.Epoch)
	for _, m := range e.Members {
		s += fmt.Sprintf(", has %s at %q", m.ID, m.Address)
	}
	return s
}

// GoneError reports that the newest epoch known to this node was deleted and that there is none above
// it. Nodes never do that. Other nodes may have started again as members among themselves.
type GoneError struct {
	Epoch int64 // last known epoch
}

// Error implements error.
func (e *GoneError) Error() string {
	return fmt.Sprintf("epoch %d was deleted from members/ and no newer one exists", e.Epoch)
}

// StrayError reports a live node without any epoch: the epochs were deleted while it ran.
type StrayError struct {
	Member string
}

// Error implements error.
func (e *StrayError) Error() string {
	return fmt.Sprintf("node %s is alive but members/ has no epoch", e.Member)
}

// AbsentError reports that the newest epoch has no member with this ID.
type AbsentError struct {
	Member string
	Epoch  int64 // 0 if there is none
}

// Error implements error.
func (e *AbsentError) Error() string {
	return fmt.Sprintf("epoch %d has no member %q", e.Epoch, e.Member)
}
