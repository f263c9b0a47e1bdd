package server

import (
	"context"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/admin"
	"github.com/parleyrun/parley/storage/local"
)

// roomRetryAfter is the Retry-After for a full volume.
const roomRetryAfter = 30 * time.Second

// noRoom converts the error of a volume to the protocol.
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

// admitting admits new client data only while the volume of the data folder has room for it. Admitted
// work continues, and repeated messages are answered.
type admitting struct {
	dispatcher
	// allow checks the free space of the volume.
	allow func(n int64) error
}

// dispatcher is the part of a runtime that the HTTP handler uses.
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

// process returns the process metrics of a node.
func (b *backend) process(l *publicListener) admin.Process {
	files := b.handler.Spooled()
	p := admin.Process{Connections: l.server.Connections(), ConnectionsMost: l.server.MaxConnections, SpoolBytes: files.Used, SpoolRefused: files.Refused}
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
