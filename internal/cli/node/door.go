package node

import (
	"log/slog"
	"net"

	parleyhttp "github.com/parleyrun/parley/http"
)

// door is where clients come in: a listener, and the server of as many of them as the
// process has files for.
type door struct {
	net.Listener
	server *parleyhttp.Server
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
