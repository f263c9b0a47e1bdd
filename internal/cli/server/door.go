package server

import (
	"log/slog"
	"net"
	"time"

	"github.com/parleyrun/parley/actors"
	parleyhttp "github.com/parleyrun/parley/http"
	"github.com/parleyrun/parley/internal/config"
)

// door is where clients come in: a listener, and the server of as many of them as the
// process has files for.
type door struct {
	net.Listener
	server *parleyhttp.Server
}

// clusterDrainDelay is the default of drain.delay for a node of a cluster: probes need as
// long to see that a node is not ready.
const clusterDrainDelay = 5 * time.Second

// drainDelay returns for how long a node that ends serves requests while it is not ready.
func drainDelay(conf *config.Server) time.Duration {
	switch {
	case conf.Drain.Delay != nil:
		return *conf.Drain.Delay
	case conf.Cluster != nil:
		return clusterDrainDelay
	}
	return 0
}

// status returns the status of a node with its listener taken into account: a node that
// drains is not ready, whether it has others to hand over to or not.
func (d *door) status(s actors.Status) actors.Status {
	if d.server.Draining() && s.Ready {
		s.Ready, s.Reason = false, "draining: the node ends"
	}
	return s
}

// openDoor listens; remedy is what to do when the address is taken.
func openDoor(address, remedy string, log *slog.Logger) (*door, error) {
	own, err := divideOwn(log)
	if err != nil {
		return nil, err
	}
	l, err := listen(address, remedy)
	if err != nil {
		return nil, err
	}
	return &door{l, &parleyhttp.Server{MaxConnections: own.connections, Logger: log}}, nil
}
