package server

import (
	"context"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/admin"
	"github.com/parleyrun/parley/storage/local"
)

// roomRetryAfter is what a client is asked to wait for room on a volume.
const roomRetryAfter = 30 * time.Second

// noRoom says in the words of the protocol what a volume has answered.
func noRoom(err error) error {
	if err == nil {
		return nil
	}
	return &conversation.Error{
		Code:       conversation.CodeUnavailable,
		Details:    "The server has no disk space for new messages right now. Retry after the time given.",
		RetryAfter: roomRetryAfter, Err: err,
	}
}

// admitting lets what clients send begin only while the volume of the data folder has
// room for it. What the runtime has taken goes on, and so does a message that repeats
// one of those.
type admitting struct {
	dispatcher
	// allow is that of the volume's room.
	allow func(n int64) error
}

// dispatcher is what the HTTP handler asks of a runtime.
type dispatcher interface {
	conversation.Dispatcher
	Serves(agent string) bool
}

var _ conversation.Dispatcher = (*admitting)(nil)

// Precheck implements conversation.Dispatcher.
func (d *admitting) Precheck(ctx context.Context, a conversation.Admission) (*conversation.Receipt, error) {
	known, err := d.dispatcher.Precheck(ctx, a)
	if err != nil || known != nil {
		return known, err
	}
	return nil, noRoom(d.allow(int64(len(a.Delivery.Body))))
}

// Stage implements conversation.Dispatcher.
func (d *admitting) Stage(ctx context.Context, at conversation.Address, b conversation.Blob) error {
	if err := noRoom(d.allow(b.Size)); err != nil {
		return err
	}
	return d.dispatcher.Stage(ctx, at, b)
}

// Admit implements conversation.Dispatcher.
func (d *admitting) Admit(ctx context.Context, a conversation.Admission) (conversation.Receipt, error) {
	if short := noRoom(d.allow(int64(len(a.Delivery.Body)))); short != nil {
		known, err := d.dispatcher.Precheck(ctx, a)
		if err != nil || known == nil {
			return conversation.Receipt{}, short
		}
		return *known, nil
	}
	return d.dispatcher.Admit(ctx, a)
}

// process is what /metrics shows of a node's process.
func (b *backend) process(d *door) admin.Process {
	files := b.handler.Spooled()
	p := admin.Process{Connections: d.server.Connections(), ConnectionsMost: d.server.MaxConnections, SpoolBytes: files.Used, SpoolRefused: files.Refused}
	for _, d := range b.handler.Deliveries() {
		p.Deliveries = append(p.Deliveries, admin.Deliveries{Channel: d.Channel, Result: string(d.Result), Count: d.Count})
	}
	for folder, room := range map[string]*local.Room{"data": b.data, "spool": b.spool} {
		if room != nil {
			u := room.Usage()
			p.Volumes = append(p.Volumes, admin.Volume{Folder: folder, FreeBytes: u.FreeBytes, ReserveBytes: u.ReserveBytes, Refused: u.Refused})
		}
	}
	return p
}
