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

// module is the path under which build information knows this software.
const module = "github.com/parleyrun/parley"

// MemberError says that this node cannot be a member of the bucket: Run did not
// start, because a node lives that does not share it, or it has ended because the
// members lack this node. Nothing acknowledged is lost.
type MemberError struct {
	Member   string // Incarnation of the other node, "" if there is none any more.
	Address  string // What it advertises, "" as well.
	Replaced bool   // This node was running. Starting it again may succeed.
	// Deleted says that somebody deleted the members from the bucket: this node was one, or
	// Member is alive and none of them.
	Deleted bool
	// Cluster says that the nodes share the bucket: the others took this one for dead,
	// or a new start at its address took its place.
	Cluster bool
	Err     error
}

// Error implements error. It says what to do.
func (e *MemberError) Error() string {
	switch {
	case e.Deleted && e.Replaced:
		return "the objects under members/ of this bucket were deleted while this node ran, so that another cluster may begin beside it: " +
			"start all nodes of the bucket again, and never delete members/ while one runs; nothing acknowledged is lost"
	case e.Deleted:
		return fmt.Sprintf("node %s is alive, and the objects under members/ of this bucket, which should name it, were deleted: "+
			"stop all nodes of the bucket, then start them again", e.Member)
	case !e.Replaced && e.Cluster:
		return fmt.Sprintf("node %s at %q serves this bucket alone: stop it, or start it as a member of the cluster too; "+
			"a node that died is replaced after %v without a heartbeat", e.Member, e.Address, membership.DefaultSuspect)
	case !e.Replaced:
		return fmt.Sprintf("node %s at %q serves this bucket: stop it, or give this node another bucket or prefix; "+
			"a node that died is replaced after %v without a heartbeat", e.Member, e.Address, membership.DefaultSuspect)
	case e.Cluster && e.Member != "":
		return fmt.Sprintf("node %s, started later at the same address %q, took this node's place: "+
			"give each node an address of its own if both are meant to run", e.Member, e.Address)
	case e.Cluster:
		return "the other nodes took this one for dead, because its heartbeat was missing for too long: start it again"
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

// checkMembership validates what concerns the membership of a bucket that others can reach,
// or cannot, and fills it in.
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

// members is this node's part in the membership of its bucket: it keeps the row, gives
// the views to the cluster, and says whether the node may act. The bucket it uses is
// not the gated one. Without a table, which is over an exclusive bucket and before Join,
// the node is alone and may always act.
type members struct {
	bucket storage.Bucket
	opts   *Options
	load   func() (active, busy int64)
	// reached returns the other nodes that answer, by incarnation.
	reached func() []string
	// lost is called once, from a goroutine, when the members lack this node.
	lost func(error)

	table   atomic.Pointer[membership.Membership]
	view    atomic.Pointer[memberView]
	self    grain.Member
	stop    context.CancelFunc // ends the table's Run; nil before Join
	running sync.WaitGroup
}

// memberView is a view, and the types of records that not all of its members read.
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

// grainView is a view in the cluster's terms. A node that serves its bucket alone has
// an address there that its row does not tell.
func (m *members) grainView(v membership.View) []grain.Member {
	var out []grain.Member
	for _, row := range v.Members {
		member := grain.Member{ID: row.ID, Host: m.self.Host, Port: m.self.Port, Weight: row.Weight, Draining: row.Draining}
		if row.ID != m.self.ID {
			host, port, err := net.SplitHostPort(row.Node)
			if err != nil {
				continue // It serves alone and is about to be gone.
			}
			member.Host = host
			member.Port, _ = strconv.Atoi(port) // The row was checked.
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
	// What came before may have used up the time of ctx, and a row that stays costs the
	// others the time of suspicion.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	return m.table.Load().Leave(ctx)
}

// address is where other nodes dial this one, or where people find a node that serves its bucket alone. It is the address
// under which the others log that they expel the node.
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

// fresh reports whether this node's row was confirmed within a heartbeat, so that what
// it says of its conversations may be believed.
func (m *members) fresh() bool {
	t := m.table.Load()
	return t == nil || t.Fresh()
}

// passive reports whether the node has not seen its row for so long that it must hold
// still.
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

// unread returns the types of records that not all rows of the newest known view list. The
// slice is not to be changed.
func (m *members) unread() []conversation.RecordType {
	v := m.view.Load()
	if v == nil {
		return nil
	}
	return v.unread
}

// unreadIn returns the types of records that not all rows list.
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

// standing is what the newest known view says about this node and who answers it.
type standing struct {
	epoch                        int64
	members, draining, unreached int // rows, and those that drain or wait for their share
	self                         storage.Member
	owners, answering            int // members with a share, this node not counted, and those that answer
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

// gate holds up what a passive node would write: each write waits until the node's row
// is confirmed, or ends with its context. Reads pass.
type gate struct {
	storage.Bucket
	members *members
}

// Unwrap returns the bucket behind the gate.
func (g gate) Unwrap() storage.Bucket { return g.Bucket }

// Create implements storage.Bucket.
func (g gate) Create(ctx context.Context, key string, body storage.Body) error {
	if err := g.members.awaitActive(ctx); err != nil {
		return heldUp("create", key, err)
	}
	return g.Bucket.Create(ctx, key, body)
}

// Put implements storage.Bucket.
func (g gate) Put(ctx context.Context, key string, body storage.Body) error {
	if err := g.members.awaitActive(ctx); err != nil {
		return heldUp("put", key, err)
	}
	return g.Bucket.Put(ctx, key, body)
}

// heldUp calls the outcome unknown, as of any request that was given up: earlier
// attempts of the same write may have been sent.
func heldUp(op, key string, err error) error {
	return &storage.Error{Op: op, Key: key, Kind: storage.ErrUncertain, Err: fmt.Errorf("node is passive: %w", err)}
}
