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

// looksPerHeartbeat is how often a heartbeat is looked at in the time in which it
// should change once, and how often a node confirms its row in that time.
const looksPerHeartbeat = 2

// Self is what a node says about itself.
type Self struct {
	ID      string                    // Incarnation: 1 to 128 letters, digits, '-' or '_', new at every start.
	Address string                    // Where people find it; up to 256 bytes.
	Node    string                    // Where other nodes find it, host:port; "" if it serves the bucket alone.
	Version string                    // Of the software; up to 256 bytes.
	Weight  int                       // Share of the conversations beside those of the others, 0 to 1000.
	Records []conversation.RecordType // Types it can read. Nil is all that this software knows.
}

// View is who serves the bucket, as one epoch has it. It is complete.
type View struct {
	Epoch   int64
	Members []storage.Member // The receiver owns it.
}

// Options are the optional parts of a [Membership]. Zero fields mean the defaults.
// The three times are the same on all nodes of a bucket.
type Options struct {
	// Logger gets what operators need to know. Nil discards it.
	Logger *slog.Logger
	// Heartbeat is the time between two heartbeats. Zero is DefaultHeartbeat.
	Heartbeat time.Duration
	// Suspect is how long a heartbeat must stay unchanged before its node is taken
	// for dead, at least 3 times Heartbeat. Zero is DefaultSuspect.
	Suspect time.Duration
	// Fence is how long a node goes on without a confirmation of its row before it
	// is passive, at least twice Heartbeat and at most Suspect less half a Heartbeat.
	// Zero is DefaultFence.
	Fence time.Duration
	// Load returns how many conversations are in memory and how many have unsettled
	// work, for the heartbeat. It must not block. Nil is none.
	Load func() (active, busy int64)
	// Reached returns the other members that have answered this node lately, so that
	// messages come through both ways. Until most of those with a share of the
	// conversations have, this node owns nothing; the package comment has the rule. It
	// must not block. Nil takes all for reached.
	Reached func() []string
	// Publish gets every newer epoch that this node sees with its own row, complete
	// and by rising number, from one goroutine at a time, the first from Join. It must
	// not block. Nil is for who does not care.
	Publish func(View)
}

// filled returns the options with every default in place.
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

// check refuses times under which a sound node would be taken for dead, or a node
// be expelled that is not passive. The package comment derives them.
func (o Options) check() error {
	h, s, f := o.Heartbeat, o.Suspect, o.Fence
	switch {
	case h < time.Millisecond:
		return fmt.Errorf("heartbeat is %v: raise it to %v or more", h, time.Millisecond)
	case s < 3*h:
		return fmt.Errorf("suspect is %v with heartbeat %v: raise suspect to %v or more, or lower heartbeat to %v", s, h, 3*h, s/3)
	case f < 2*h:
		return fmt.Errorf("fence is %v with heartbeat %v: raise fence to %v or more, or lower heartbeat to %v", f, h, 2*h, f/2)
	case f > s-h/2:
		return fmt.Errorf("fence is %v with suspect %v and heartbeat %v: lower fence to %v, or raise suspect to %v or more, "+
			"so that a node stops before others take its place", f, s, h, s-h/2, f+h/2)
	}
	return nil
}

// lookEvery is the pause between two looks, and the time from one poll to the next.
func (o Options) lookEvery() time.Duration { return o.Heartbeat / looksPerHeartbeat }

// looks is how many quiet looks after the first span Suspect.
func (o Options) looks() int { return int((o.Suspect + o.lookEvery() - 1) / o.lookEvery()) }

// patience bounds a heartbeat and a poll, so that one without an answer leaves
// time for another within Fence.
func (o Options) patience() time.Duration { return (o.Fence - o.Heartbeat) * 3 / 4 }

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
