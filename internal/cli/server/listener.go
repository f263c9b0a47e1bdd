package server

import (
	"log/slog"
	"net"
	"time"

	"github.com/parleyrun/parley/actors"
	parleyhttp "github.com/parleyrun/parley/http"
	"github.com/parleyrun/parley/internal/config"
)

// publicListener is the listener for clients, and its server, whose number of connections is bounded
// by the file descriptors of the process.
type publicListener struct {
	net.Listener
	server *parleyhttp.Server
}

// clusterDrainDelay is the default of drain.delay for a node of a cluster. Readiness probes need this
// time to see that the node is not ready.
const clusterDrainDelay = 5 * time.Second

// drainDelay returns how long a node serves requests during shutdown while it is not ready.
func drainDelay(conf *config.Server) time.Duration {
	switch {
	case conf.Drain.Delay != nil:
		return *conf.Drain.Delay
	case conf.Cluster != nil:
		return clusterDrainDelay
	}
	return 0
}

// status marks a draining node as not ready, with or without other nodes to hand over to.
func (l *publicListener) status(s actors.Status) actors.Status {
	if l.server.Draining() && s.Ready {
		s.Ready, s.Reason = false, "draining: the node ends"
	}
	return s
}

// openListener listens on address; remedy is the advice for an address in use.
func openListener(address, remedy string, log *slog.Logger) (*publicListener, error) {
	own, err := divideOwn(log)
	if err != nil {
		return nil, err
	}
	l, err := listen(address, remedy)
	if err != nil {
		return nil, err
	}
	return &publicListener{l, &parleyhttp.Server{MaxConnections: own.connections, Logger: log}}, nil
}
