package server

import (
	"fmt"
	"log/slog"
)

const (
	// ownDescriptors are reserved for listeners, logs, peers and the store's files except tables.
	ownDescriptors = 40
	// leastDescriptors is the minimum that a node needs.
	leastDescriptors = 64
	// fewDescriptors is the minimum below which a server logs a warning.
	fewDescriptors = 1024
	// mostTables bounds the tables that the store keeps open.
	mostTables = 246
)

// descriptors divides the file descriptors of the process. The rest serves models, the bucket, tools
// and spooled bodies. It is as large as the share of the clients, since each client may need one.
type descriptors struct {
	// limit is the total; 0 if the system has no limit.
	limit int
	// tables are for the store, connections for clients; 0 is unlimited.
	tables, connections int
}

// divide divides a limit.
func divide(limit int) (descriptors, error) {
	d := descriptors{limit: limit}
	switch {
	case limit == 0:
		return d, nil
	case limit < leastDescriptors:
		return d, fmt.Errorf("the process may open %d files, a server needs %d and should have %d: raise the limit, for example with ulimit -n %d, or LimitNOFILE=%d in a systemd unit",
			limit, leastDescriptors, fewDescriptors, fewDescriptors, fewDescriptors)
	}
	rest := limit - ownDescriptors
	d.tables = min(max(rest/4, 8), mostTables)
	d.connections = (rest - d.tables) / 2
	return d, nil
}

// divideOwn divides the descriptors of this process. The Go runtime has already raised the soft limit.
func divideOwn(log *slog.Logger) (descriptors, error) {
	d, err := divide(descriptorLimit())
	if err != nil || d.limit == 0 {
		return d, err
	}
	if d.limit < fewDescriptors {
		log.Warn("file descriptor limit is low", "files", d.limit, "connections", d.connections)
	}
	return d, nil
}
