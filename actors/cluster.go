package actors

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/parleyrun/parley/actors/internal/membership"
	"github.com/parleyrun/parley/storage"
)

// ClusterOptions configures a node that shares its bucket with others. Zero fields use the defaults.
type ClusterOptions struct {
	// Listen is the host:port on which the other nodes reach this one. If the host is an address,
	// outgoing connections to other nodes use it as their source.
	Listen string
	// Advertise is the host:port that other nodes dial. Empty means Listen, which must then name a
	// host.
	Advertise string
	// Weight is this node's share of the conversations relative to the other nodes, 0 to 1000. Nil is
	// 1. A node of weight 0 owns no conversations but still serves requests.
	Weight *int
	// TLS configures mutual TLS between nodes. Nil requires Insecure.
	TLS *ClusterTLS
	// Insecure disables TLS and peer authentication. Listen must be a loopback address.
	Insecure bool
	// Heartbeat is the interval between heartbeats. Suspect is how long a heartbeat may be missing
	// before other nodes consider this node crashed. Fence is how long this node may fail to confirm
	// its own row before it becomes passive. All nodes must use the same values. Zero is 500 ms, 2 s
	// and 1.5 s.
	Heartbeat, Suspect, Fence time.Duration
}

// ClusterTLS names PEM files. They are reloaded when they change.
type ClusterTLS struct {
	// CA holds the trusted authorities; Cert and Key are this node's.
	CA, Cert, Key string
	// Name is the DNS name that every node's certificate must have. Empty is "parley".
	Name string
}

// checkCluster validates the cluster options.
func (o *Options) checkCluster(exclusive bool) error {
	c := o.Cluster
	switch {
	case c == nil:
		return nil
	case exclusive:
		return errors.New("option Cluster needs a bucket that other processes can reach: nodes find each other there")
	case c.Listen == "":
		return errors.New("option Cluster.Listen is empty")
	case c.Weight != nil && (*c.Weight < 0 || *c.Weight > 1000):
		return fmt.Errorf("option Cluster.Weight is %d: want 0 to 1000", *c.Weight)
	}
	if c.Advertise == "" {
		host, _, err := net.SplitHostPort(c.Listen)
		if err != nil {
			return fmt.Errorf("option Cluster.Listen %q: %w", c.Listen, err)
		}
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			return fmt.Errorf("option Cluster.Advertise is empty and Cluster.Listen %q names no host that others can dial", c.Listen)
		}
	}
	return nil
}

// weight returns the weight for the node's row.
func (c *ClusterOptions) weight() int {
	if c == nil || c.Weight == nil {
		return 1
	}
	return *c.Weight
}

// ClusterView is the current membership of a bucket.
type ClusterView struct {
	Epoch   int64 // number of the newest epoch, 0 if there never was a member
	Members []ClusterMember
}

// ClusterMember is a node as its row and its heartbeat describe it.
type ClusterMember struct {
	storage.Member
	Active int64     // conversations in memory
	Busy   int64     // number of them with unsettled work
	Beats  int64     // counter of its newest heartbeat, 0 if there is none; a live node increments it
	Beat   time.Time // time of that heartbeat by the node's clock; zero if there is none
	// Reach lists the other members that the node reaches, nil if it does not report them.
	Reach *storage.Reach
	Share float64 // fraction of all conversations, 0 to 1
}

// ReadCluster reads the membership of a bucket. It needs no running node and writes nothing.
func ReadCluster(ctx context.Context, bucket storage.Bucket) (*ClusterView, error) {
	e, _, err := storage.NewestEpoch(ctx, bucket, 0)
	if err != nil {
		return nil, fmt.Errorf("read cluster: %w", err)
	}
	return viewOf(ctx, bucket, e.N, e.Members)
}

// SetDraining starts or stops draining a member. A draining node hands over its conversations and owns
// no others. The node notices within one heartbeat. SetDraining returns the resulting members, or
// storage.ErrNotFound if the member is not among them.
func SetDraining(ctx context.Context, bucket storage.Bucket, member string, on bool) (*ClusterView, error) {
	v, err := membership.SetDraining(ctx, bucket, member, on)
	var absent *membership.AbsentError
	if errors.As(err, &absent) {
		return nil, fmt.Errorf("drain member %s: not a member of epoch %d: %w", member, absent.Epoch, storage.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("drain member %s: %w", member, err)
	}
	return viewOf(ctx, bucket, v.Epoch, v.Members)
}

func viewOf(ctx context.Context, bucket storage.Bucket, epoch int64, rows []storage.Member) (*ClusterView, error) {
	v := &ClusterView{Epoch: epoch}
	total, all := 0, 0
	for _, row := range rows {
		all += row.Weight
		if !row.Draining {
			total += row.Weight
		}
	}
	last := total == 0 // All weighted members are draining: they own conversations as if none were draining.
	if last {
		total = all
	}
	for _, row := range rows {
		m := ClusterMember{Member: row}
		if total > 0 && (!row.Draining || last) {
			m.Share = float64(row.Weight) / float64(total)
		}
		h, err := storage.ReadHeartbeat(ctx, bucket, row.ID)
		var corrupt *storage.CorruptError
		switch {
		case err == nil:
			m.Active, m.Busy, m.Beats, m.Beat, m.Reach = h.Active, h.Busy, h.Count, time.UnixMilli(int64(h.At)).UTC(), h.Reach
		case errors.Is(err, storage.ErrNotFound), errors.As(err, &corrupt):
		default:
			return nil, fmt.Errorf("read cluster: %w", err)
		}
		v.Members = append(v.Members, m)
	}
	return v, nil
}
