package actors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleyrun/parley/actors/internal/grain"
	"github.com/parleyrun/parley/actors/internal/membership"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// leaveTimeout bounds the removal of a node's row.
const leaveTimeout = 5 * time.Second

// module is the module path of this software in build information.
const module = "github.com/parleyrun/parley"

// MemberError reports that this node cannot be a member of the bucket. Either Run did not start,
// because a live node does not share the bucket, or Run ended because the members lack this node.
// Acknowledged work is not lost.
type MemberError struct {
	Member   string // incarnation of the other node, "" if it is gone
	Address  string // address that the other node advertises, or ""
	Replaced bool   // this node was running; a restart may succeed
	// Deleted reports that the membership was deleted from the bucket while this node was a member, or
	// while Member is alive and not listed.
	Deleted bool
	// Cluster reports that the nodes share the bucket: the others considered this node crashed, or a
	// new process at its address replaced it.
	Cluster bool
	Err     error
}

// Error implements error. The text includes the remedy.
func (e *MemberError) Error() string {
	switch {
	case e.Deleted && e.Replaced:
		return "the objects under members/ of this bucket were deleted while this node ran, so that a second cluster may form: " +
			"start all nodes of the bucket again, and never delete members/ while one runs; nothing acknowledged is lost"
	case e.Deleted:
		return fmt.Sprintf("node %s is alive, and the objects under members/ of this bucket, which should name it, were deleted: "+
			"stop all nodes of the bucket, then start them again", e.Member)
	case !e.Replaced && e.Cluster:
		return fmt.Sprintf("node %s at %q serves this bucket alone: stop it, or start it as a member of the cluster too; "+
			"a crashed node is replaced after %v without a heartbeat", e.Member, e.Address, membership.DefaultSuspect)
	case !e.Replaced:
		return fmt.Sprintf("node %s at %q serves this bucket: stop it, or give this node another bucket or prefix; "+
			"a crashed node is replaced after %v without a heartbeat", e.Member, e.Address, membership.DefaultSuspect)
	case e.Cluster && e.Member != "":
		return fmt.Sprintf("node %s, started later at the same address %q, took this node's place: "+
			"give each node an address of its own if both are meant to run", e.Member, e.Address)
	case e.Cluster:
		return "the other nodes considered this node crashed, because its heartbeat was missing for too long: start it again"
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

// checkMembership validates the membership options and sets their defaults. An exclusive bucket has no
// members.
func (o *Options) checkMembership(exclusive bool) error {
	if o.Address == "" && !exclusive {
		name, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("option Address is empty and the host has no name: %w", err)
		}
		o.Address = name
	}
	if err := (storage.Member{ID: "check", Address: o.Address}).Validate(); err != nil {
		return fmt.Errorf("option Address: %w", err)
	}
	return o.checkCluster(exclusive)
}

// members maintains this node's membership. It keeps the row, publishes views to the cluster, and
// decides whether the node may act. It uses the bucket without the gate. Without a table (over an
// exclusive bucket, or before Join) the node is alone and may always act.
type members struct {
	bucket storage.Bucket
	opts   *Options
	load   func() (active, busy int64)
	// reached returns the incarnations of the other nodes that answer.
	reached func() []string
	// lost is called once, in a goroutine, when the members lack this node.
	lost func(error)

	table   atomic.Pointer[membership.Membership]
	view    atomic.Pointer[memberView]
	self    grain.Member
	stop    context.CancelFunc // ends Table.Run; nil before Join
	running sync.WaitGroup
}

// memberView is a view with the record types that some of its members cannot read.
type memberView struct {
	membership.View
	unread []conversation.RecordType
}

var _ grain.Membership = (*members)(nil)

// Join implements grain.Membership.
func (m *members) Join(ctx context.Context, self grain.Member, publish func([]grain.Member)) error {
	m.self = self
	row := membership.Self{
		ID: self.ID, Address: m.opts.Address, Version: cmp.Or(m.opts.Version, softwareVersion()), Weight: m.opts.Cluster.weight(), Records: conversation.Types(),
	}
	o := &membership.Options{Logger: m.opts.Logger, Load: m.load, Publish: func(v membership.View) {
		m.view.Store(&memberView{v, unreadIn(v.Members)})
		publish(m.grainView(v))
	}}
	if c := m.opts.Cluster; c != nil {
		row.Node = self.Address()
		o.Heartbeat, o.Suspect, o.Fence, o.Reached = c.Heartbeat, c.Suspect, c.Fence, m.reached
	}
	table, err := membership.New(m.bucket, row, o)
	if err != nil {
		return err
	}
	if err := table.Join(ctx); err != nil {
		return m.explain(err)
	}
	m.table.Store(table)
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	m.stop = stop
	m.running.Go(func() {
		if err := table.Run(running); err != nil {
			m.lost(m.explain(err))
		}
	})
	return nil
}

// grainView converts a view for the cluster. A node that serves its bucket alone has an address there
// that is not in its row.
func (m *members) grainView(v membership.View) []grain.Member {
	var out []grain.Member
	for _, row := range v.Members {
		member := grain.Member{ID: row.ID, Host: m.self.Host, Port: m.self.Port, Weight: row.Weight, Draining: row.Draining}
		if row.ID != m.self.ID {
			host, port, err := net.SplitHostPort(row.Node)
			if err != nil {
				continue // It serves the bucket alone and is about to leave.
			}
			member.Host = host
			member.Port, _ = strconv.Atoi(port) // The row was validated.
		}
		out = append(out, member)
	}
	return out
}

// Leave implements grain.Membership.
func (m *members) Leave(ctx context.Context) error {
	if m.stop == nil {
		return nil
	}
	m.stop()
	m.running.Wait()
	// Earlier steps may have used up ctx, and a remaining row costs the others the suspicion timeout.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	return m.table.Load().Leave(ctx)
}

// address is the dial address of this node for other nodes, or the contact address of a node that
// serves its bucket alone. Other nodes log it when they expel the node.
func (m *members) address() string {
	if m.opts.Cluster != nil {
		return m.self.Address()
	}
	return m.opts.Address
}

// explain translates the errors of package membership.
func (m *members) explain(err error) error {
	var alive *membership.AliveError
	var replaced *membership.ReplacedError
	var gone *membership.GoneError
	var stray *membership.StrayError
	cluster := m.opts.Cluster != nil
	switch {
	case errors.As(err, &gone):
		return &MemberError{Replaced: true, Deleted: true, Cluster: cluster, Err: err}
	case errors.As(err, &stray):
		return &MemberError{Member: stray.Member, Deleted: true, Cluster: cluster, Err: err}
	case errors.As(err, &alive):
		return &MemberError{Member: alive.Member.ID, Address: alive.Member.Address, Cluster: cluster, Err: err}
	case errors.As(err, &replaced):
		e := &MemberError{Replaced: true, Cluster: cluster, Err: err}
		for _, other := range replaced.Members {
			if !cluster || other.Node == m.self.Address() || other.Node == "" {
				e.Member, e.Address, e.Cluster = other.ID, other.Address, cluster && other.Node != ""
				break
			}
		}
		return e
	default:
		return err
	}
}

// fresh reports whether this node's row was confirmed within a heartbeat, so that its answers about
// its conversations are current.
func (m *members) fresh() bool {
	t := m.table.Load()
	return t == nil || t.Fresh()
}

// passive reports whether this node's row has been unconfirmed for longer than Fence.
func (m *members) passive() bool {
	t := m.table.Load()
	return t != nil && t.Passive()
}

// gone reports whether the members were found deleted from the bucket.
func (m *members) gone() bool {
	t := m.table.Load()
	return t != nil && t.Gone()
}

// awaitActive returns once the node is not passive.
func (m *members) awaitActive(ctx context.Context) error {
	if t := m.table.Load(); t != nil {
		return t.AwaitActive(ctx)
	}
	return nil
}

// has reports whether an incarnation is a member of the newest known view.
func (m *members) has(id string) bool {
	v := m.view.Load()
	return v != nil && slices.ContainsFunc(v.Members, func(row storage.Member) bool { return row.ID == id })
}

// unread returns the record types that some members of the newest known view cannot read. Callers must
// not modify the slice.
func (m *members) unread() []conversation.RecordType {
	v := m.view.Load()
	if v == nil {
		return nil
	}
	return v.unread
}

// unreadIn returns the record types that not all rows list.
func unreadIn(rows []storage.Member) (types []conversation.RecordType) {
	for _, t := range conversation.Types() {
		if slices.ContainsFunc(rows, func(row storage.Member) bool { return !slices.Contains(row.Records, t) }) {
			types = append(types, t)
		}
	}
	return types
}

// others counts the other members, and those of them that may own conversations.
func (m *members) others() (all, owners int) {
	v := m.view.Load()
	if v == nil {
		return 0, 0
	}
	for _, row := range v.Members {
		if row.ID == m.self.ID {
			continue
		}
		all++
		if !row.Draining && row.Weight > 0 {
			owners++
		}
	}
	return all, owners
}

// standing is the state of this node in the newest known view.
type standing struct {
	epoch                        int64
	members, draining, unreached int // numbers of rows, of draining ones, and of those that wait for their share
	self                         storage.Member
	owners, answering            int // other members with a share, and those of them that answer
}

func (m *members) standing(answering []string) standing {
	v := m.view.Load()
	if v == nil {
		return standing{}
	}
	s := standing{epoch: v.Epoch, members: len(v.Members)}
	for _, row := range v.Members {
		if row.Draining {
			s.draining++
		}
		if row.Weight == 0 && row.Wants > 0 {
			s.unreached++
		}
		switch {
		case row.ID == m.self.ID:
			s.self = row
		case row.Weight > 0:
			s.owners++
			if slices.Contains(answering, row.ID) {
				s.answering++
			}
		}
	}
	return s
}

// softwareVersion returns the version of this module from the build information, also as a dependency.
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

// gate delays the writes of a passive node: each waits until the node's row is confirmed or its
// context ends. Reads pass.
type gate struct {
	storage.Bucket
	members *members
}

// Unwrap returns the bucket behind the gate.
func (g gate) Unwrap() storage.Bucket { return g.Bucket }

// Create implements storage.Bucket.
func (g gate) Create(ctx context.Context, key string, body storage.Body) error {
	if err := g.members.awaitActive(ctx); err != nil {
		return uncertainWrite("create", key, err)
	}
	return g.Bucket.Create(ctx, key, body)
}

// Put implements storage.Bucket.
func (g gate) Put(ctx context.Context, key string, body storage.Body) error {
	if err := g.members.awaitActive(ctx); err != nil {
		return uncertainWrite("put", key, err)
	}
	return g.Bucket.Put(ctx, key, body)
}

// uncertainWrite returns an error of unknown outcome, as for any canceled request: earlier attempts of the
// same write may have been sent.
func uncertainWrite(op, key string, err error) error {
	return &storage.Error{Op: op, Key: key, Kind: storage.ErrUncertain, Err: fmt.Errorf("node is passive: %w", err)}
}
