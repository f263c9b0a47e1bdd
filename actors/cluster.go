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

// ClusterOptions make a node one of several that serve one bucket. Zero fields mean
// the defaults.
type ClusterOptions struct {
	// Listen is the host:port at which the other nodes reach this one. If the host is
	// an address, outgoing connections to other nodes come from it.
	Listen string
	// Advertise is the host:port that others dial. Empty is Listen, which must name a
	// host then.
	Advertise string
	// Weight is this node's share of the conversations beside those of the others, 0
	// to 1000. Nil is 1; a node of weight 0 owns none and serves requests all the same.
	Weight *int
	// TLS names the files of the mutual TLS between nodes. Nil needs Insecure.
	TLS *ClusterTLS
	// Insecure lets anybody connect who can, in clear. Listen must be a loopback address.
	Insecure bool
	// Heartbeat is the time between two signs of life, Suspect how long one must be
	// missing until others take this node for dead, and Fence how long this node may
	// miss its own row until it holds still. They are the same on all nodes. Zero is
	// 500 ms, 2 s and 1.5 s.
	Heartbeat, Suspect, Fence time.Duration
}

// ClusterTLS are PEM files. They are read again when they change.
type ClusterTLS struct {
	// CA holds the authorities whose certificates count; Cert and Key are this node's.
	CA, Cert, Key string
	// Name is the DNS name that every node's certificate must carry. Empty is "parley".
	Name string
}

// checkCluster validates what concerns other nodes.
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

// weight is what the node's row says.
func (c *ClusterOptions) weight() int {
	if c == nil || c.Weight == nil {
		return 1
	}
	return *c.Weight
}

// ClusterView is the membership of a bucket as it stands there.
type ClusterView struct {
	Epoch   int64 // Number of the newest epoch, 0 if there never was a member.
	Members []ClusterMember
}

// ClusterMember is a node, as its row and its heartbeat show it.
type ClusterMember struct {
	storage.Member
	Active int64     // Conversations in its memory.
	Busy   int64     // Conversations there with unsettled work.
	Beats  int64     // Count of its newest heartbeat, 0 if there is none: a node that lives raises it.
	Beat   time.Time // When that was sent, by that node's clock; zero if there is none.
	// Reach is which other members it reaches, nil if it does not say.
	Reach *storage.Reach
	Share float64 // Of all conversations, 0 to 1.
}

// ReadCluster reads who serves a bucket. It needs no node and disturbs none.
func ReadCluster(ctx context.Context, bucket storage.Bucket) (*ClusterView, error) {
	e, _, err := storage.NewestEpoch(ctx, bucket, 0)
	if err != nil {
		return nil, fmt.Errorf("read cluster: %w", err)
	}
	return viewOf(ctx, bucket, e.N, e.Members)
}

// SetDraining makes a node hand its conversations over and take no more, or take its
// share again. The node notices within a heartbeat. It returns the members as they
// are then, and storage.ErrNotFound if the member is none of them.
func SetDraining(ctx context.Context, bucket storage.Bucket, member string, on bool) (*ClusterView, error) {
	v, err := membership.SetDraining(ctx, bucket, member, on)
	var absent *membership.AbsentError
	if errors.As(err, &absent) {
		return nil, fmt.Errorf("drain member %s: it is no member of epoch %d: %w", member, absent.Epoch, storage.ErrNotFound)
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
	last := total == 0 // all that have weight are draining, so that they own as if none did
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
