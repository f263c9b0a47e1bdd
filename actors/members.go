package actors

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"

	"github.com/parleyrun/parley/actors/internal/membership"
	"github.com/parleyrun/parley/storage"
)

// Membership says how a node keeps others from serving its bucket.
type Membership int

const (
	// MembershipSingle is for a bucket that this process alone can reach, such as a
	// data folder with a lock. It sends no request.
	MembershipSingle Membership = iota
	// MembershipBucket is for a bucket that other processes can reach. The node keeps
	// a row among the members in the bucket and a heartbeat, and does not start while
	// another node lives.
	MembershipBucket
)

// module is the path under which build information knows this software.
const module = "github.com/parleyrun/parley"

// MemberError says that another node serves the bucket: Run did not start, or it
// has ended because that node took this one's place. Nothing acknowledged is lost.
type MemberError struct {
	Member   string // Incarnation of the other node, "" if it has left already.
	Address  string // What it advertises, "" if it has left already.
	Replaced bool   // This node was running. Starting it again may succeed.
	Err      error
}

// Error implements error. It says what to do.
func (e *MemberError) Error() string {
	switch {
	case !e.Replaced:
		return fmt.Sprintf("node %s at %q serves this bucket: stop it, or give this node another bucket or prefix; "+
			"a node that died is replaced after %v without a heartbeat", e.Member, e.Address, membership.DefaultSuspect)
	case e.Member == "":
		return fmt.Sprintf("this node was replaced by one that has left since, because it had no heartbeat for %v: start it again",
			membership.DefaultSuspect)
	default:
		return fmt.Sprintf("node %s at %q replaced this node, which had no heartbeat for %v: "+
			"start this node again when that one has stopped, or give it another bucket or prefix", e.Member, e.Address, membership.DefaultSuspect)
	}
}

// Unwrap returns the cause.
func (e *MemberError) Unwrap() error { return e.Err }

// memberError translates the errors of package membership.
func memberError(err error) error {
	var alive *membership.AliveError
	var replaced *membership.ReplacedError
	switch {
	case errors.As(err, &alive):
		return &MemberError{Member: alive.Member.ID, Address: alive.Member.Address, Err: err}
	case errors.As(err, &replaced):
		e := &MemberError{Replaced: true, Err: err}
		if len(replaced.Members) > 0 {
			e.Member, e.Address = replaced.Members[0].ID, replaced.Members[0].Address
		}
		return e
	default:
		return err
	}
}

// checkMembership validates what concerns the membership and fills it in.
func (o *Options) checkMembership() error {
	if o.Membership != MembershipSingle && o.Membership != MembershipBucket {
		return fmt.Errorf("option Membership is %d, which is none", int(o.Membership))
	}
	if o.Advertise == "" && o.Membership == MembershipBucket {
		name, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("option Advertise is empty and the host has no name: %w", err)
		}
		o.Advertise = name
	}
	if err := (storage.Member{ID: "check", Address: o.Advertise}).Validate(); err != nil {
		return fmt.Errorf("option Advertise: %w", err)
	}
	return nil
}

// asMember runs serve while this node is the member of the bucket. Others have to
// wait until it has returned: heartbeats outlive ctx and the drain. When another
// node takes this one's place all the same, serve ends as it does with ctx, and
// what it could not release is fenced.
func (r *Runtime) asMember(ctx context.Context, serve func(context.Context) error) error {
	if r.opts.Membership == MembershipSingle {
		return serve(ctx)
	}
	self := membership.Self{ID: r.host.MemberID(), Address: r.opts.Advertise, Version: softwareVersion()}
	m, err := membership.New(r.bucket, self, &membership.Options{Logger: r.log})
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	if err := m.Join(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // Told to stop before it served anything.
		}
		return fmt.Errorf("run: %w", memberError(err))
	}
	beating, stopBeating := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBeating()
	serving, stopServing := context.WithCancel(ctx)
	defer stopServing()
	var wg sync.WaitGroup
	var lost error
	wg.Go(func() {
		lost = memberError(m.Run(beating))
		stopServing()
	})
	err = serve(serving)
	stopBeating()
	wg.Wait()
	if lost != nil {
		lost = fmt.Errorf("run: %w", lost)
	}
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.opts.DrainTimeout)
	defer cancel()
	if err := m.Leave(leaving); err != nil {
		r.log.Warn("leave members; the next start has to wait", "member", self.ID, "err", err)
	}
	return errors.Join(lost, err)
}

// softwareVersion is what the build says about this module, also as a dependency.
func softwareVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == module && m.Version != "" && m.Version != "(devel)" {
			return m.Version
		}
	}
	return "devel"
}
