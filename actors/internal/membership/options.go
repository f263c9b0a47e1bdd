package membership

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// The defaults of [Options].
const (
	DefaultHeartbeat = 500 * time.Millisecond
	DefaultSuspect   = 2 * time.Second
	DefaultFence     = 1500 * time.Millisecond
)

// checksPerHeartbeat is the number of checks of a heartbeat, and of polls of the own row, per
// Heartbeat.
const checksPerHeartbeat = 2

// Self describes a node.
type Self struct {
	ID      string                    // incarnation: 1 to 128 letters, digits, '-' or '_', new at every start
	Address string                    // public address, up to 256 bytes
	Node    string                    // node address, host:port; "" if it serves the bucket alone
	Version string                    // software version, up to 256 bytes
	Weight  int                       // share of the conversations, relative to other weights, 0 to 1000
	Records []conversation.RecordType // readable record types; nil is all types of this version
}

// View is the complete membership of one epoch.
type View struct {
	Epoch   int64
	Members []storage.Member // owned by the receiver
}

// Options are the optional parts of a [Membership]. Zero fields select the defaults. The three times
// are the same on all nodes of a bucket.
type Options struct {
	// Logger receives operator logs. Nil discards them.
	Logger *slog.Logger
	// Heartbeat is the interval of heartbeats. Zero is DefaultHeartbeat.
	Heartbeat time.Duration
	// Suspect is the time that a heartbeat must stay unchanged before its node is considered crashed,
	// at least 3 times Heartbeat. Zero is DefaultSuspect.
	Suspect time.Duration
	// Fence is the time without a confirmation of its row after which a node is passive. It is at
	// least twice Heartbeat, and at most Suspect minus half a Heartbeat. Zero is DefaultFence.
	Fence time.Duration
	// Load returns the number of conversations in memory and of those with unsettled work, for the
	// heartbeat. It must not block. Nil reports none.
	Load func() (active, busy int64)
	// Reached returns the other members that have answered this node recently, which proves both
	// directions. Until most members with a weight have, this node owns nothing; see the package
	// comment. It must not block. Nil treats all members as reached.
	Reached func() []string
	// Publish receives every newer epoch with the own row, complete and by rising number, from one
	// goroutine at a time, the first from Join. It must not block. Nil is allowed.
	Publish func(View)
}

func (o *Options) filled() Options {
	var f Options
	if o != nil {
		f = *o
	}
	if f.Logger == nil {
		f.Logger = slog.New(slog.DiscardHandler)
	}
	if f.Heartbeat == 0 {
		f.Heartbeat = DefaultHeartbeat
	}
	if f.Suspect == 0 {
		f.Suspect = DefaultSuspect
	}
	if f.Fence == 0 {
		f.Fence = DefaultFence
	}
	if f.Load == nil {
		f.Load = func() (active, busy int64) { return 0, 0 }
	}
	if f.Publish == nil {
		f.Publish = func(View) {}
	}
	return f
}

// validate rejects times under which a healthy node could be considered crashed, or a node be expelled
// before it is passive. The package comment derives them.
func (o Options) validate() error {
	h, s, f := o.Heartbeat, o.Suspect, o.Fence
	switch {
	case h < time.Millisecond:
		return fmt.Errorf("heartbeat is %v; raise it to %v or more", h, time.Millisecond)
	case s < 3*h:
		return fmt.Errorf("suspect is %v with heartbeat %v; raise suspect to %v or more, or lower heartbeat to %v", s, h, 3*h, s/3)
	case f < 2*h:
		return fmt.Errorf("fence is %v with heartbeat %v; raise fence to %v or more, or lower heartbeat to %v", f, h, 2*h, f/2)
	case f > s-h/2:
		return fmt.Errorf("fence is %v with suspect %v and heartbeat %v; lower fence to %v, or raise suspect to %v or more, "+
			"so that a node stops before others replace it", f, s, h, s-h/2, f+h/2)
	}
	return nil
}

func (o Options) checkEvery() time.Duration { return o.Heartbeat / checksPerHeartbeat }

// checks returns the number of unchanged checks, after the first, that span Suspect.
func (o Options) checks() int { return int((o.Suspect + o.checkEvery() - 1) / o.checkEvery()) }

// requestTimeout bounds a heartbeat and a poll, so that after a timeout another fits into Fence.
func (o Options) requestTimeout() time.Duration { return (o.Fence - o.Heartbeat) * 3 / 4 }

// row returns the row of a node that starts now.
func (s Self) row() (storage.Member, error) {
	if s.Records == nil {
		s.Records = conversation.Types()
	}
	m := storage.Member{
		ID: s.ID, Address: s.Address, Node: s.Node, Version: s.Version, Weight: s.Weight,
		StartedAt: conversation.TimeOf(time.Now()), Records: s.Records,
	}
	return m, m.Validate()
}

var errNoBucket = errors.New("bucket is nil")
