package server

import (
	"fmt"
	"log/slog"
)

const (
	// ownDescriptors are for what every node has open: its listeners, logs, peers, and
	// the store's files but for tables.
	ownDescriptors = 40
	// leastDescriptors is what a node cannot do with less than.
	leastDescriptors = 64
	// fewDescriptors is what a server should have at least.
	fewDescriptors = 1024
	// mostTables is how many tables the store keeps open at most.
	mostTables = 246
)

// descriptors divide the files that the process may have open. What is not named is for
// models, the bucket, tools and spooled bodies: as many as there are for clients, since
// each of them may ask for one.
type descriptors struct {
	// limit is how many there are; 0 if the system has none.
	limit int
	// tables are for the store, connections for clients; 0 is as many as they like.
	tables, connections int
}

// divide divides the descriptors of a process.
func divide(limit int) (descriptors, error) {
	d := descriptors{limit: limit}
	switch {
	case limit == 0:
		return d, nil
	case limit < leastDescriptors:
		return d, fmt.Errorf("the process may have %d files open, a server needs %d and should have %d: raise the limit, for example by ulimit -n %d, or LimitNOFILE=%d in a systemd unit",
			limit, leastDescriptors, fewDescriptors, fewDescriptors, fewDescriptors)
	}
	rest := limit - ownDescriptors
	d.tables = min(max(rest/4, 8), mostTables)
	d.connections = (rest - d.tables) / 2
	return d, nil
}

// divideOwn divides the descriptors of this process. The runtime has raised the limit
// as far as the process may.
func divideOwn(log *slog.Logger) (descriptors, error) {
	d, err := divide(descriptorLimit())
	if err != nil || d.limit == 0 {
		return d, err
	}
	if d.limit < fewDescriptors {
		log.Warn("few files may be open", "files", d.limit, "connections", d.connections)
	}
	return d, nil
}
