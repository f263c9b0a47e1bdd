package clickhouse

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// pool returns a pool without open connections.
func (d *Database) pool(database string) (driver.Conn, error) {
	o := &ch.Options{
		Addr: d.opts.Addresses,
		Auth: ch.Auth{Database: database, Username: d.opts.Username, Password: d.opts.Password},
		TLS:  d.opts.TLS, Compression: &ch.Compression{Method: ch.CompressionLZ4},
		// The driver's timeout covers all addresses and must not precede ours.
		DialTimeout:  d.opts.DialTimeout*time.Duration(len(d.opts.Addresses)) + time.Second,
		DialContext:  d.dialOne,
		DialStrategy: d.dialInOrder,
		ClientInfo:   ch.ClientInfo{Products: []struct{ Name, Version string }{{Name: "parley"}}},
	}
	if d.opts.HTTP {
		o.Protocol, o.TransportFunc = ch.HTTP, answers
	}
	return ch.Open(o)
}

// opening is a connection whose server has not answered yet. The driver does not end that wait with
// its context.
type opening struct {
	mu     sync.Mutex
	conn   net.Conn
	closed bool
}

type openingKey struct{}

// is sets the connection. A late one is closed.
func (o *opening) is(conn net.Conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.conn = conn; o.closed {
		_ = conn.Close() // The driver gets the error.
	}
}

func (o *opening) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed = true; o.conn != nil {
		_ = o.conn.Close() // The driver gets the error.
	}
}

// dialInOrder returns a connection to the first server that answers.
func (d *Database) dialInOrder(ctx context.Context, _ int, opts *ch.Options, dial ch.Dial) (r ch.DialResult, err error) {
	for _, address := range opts.Addr {
		if r, err = d.greet(ctx, address, opts, dial); err == nil || ctx.Err() != nil {
			return r, err
		}
	}
	return r, err
}

// greet returns a connection to a server that has answered in time.
func (d *Database) greet(ctx context.Context, address string, opts *ch.Options, dial ch.Dial) (ch.DialResult, error) {
	o := &opening{}
	bound, cancel := context.WithTimeout(ctx, d.opts.DialTimeout)
	defer cancel()
	stop := context.AfterFunc(bound, o.close)
	r, err := dial(context.WithValue(bound, openingKey{}, o), address, opts)
	switch inTime := stop(); {
	case ctx.Err() != nil:
		o.close()
		return ch.DialResult{}, context.Cause(ctx)
	case !inTime:
		return ch.DialResult{}, fmt.Errorf("no answer from %s within %v", address, d.opts.DialTimeout)
	case err != nil:
		o.close() // The driver does not close it.
	}
	return r, err
}

// dialOne opens a connection. HTTP has its own TLS and timeouts.
func (d *Database) dialOne(ctx context.Context, address string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: d.opts.DialTimeout}
	if d.opts.HTTP {
		return dialer.DialContext(ctx, "tcp", address)
	}
	ctx, cancel := context.WithTimeout(ctx, d.opts.DialTimeout)
	defer cancel()
	var conn net.Conn
	var err error
	if d.opts.TLS == nil {
		conn, err = dialer.DialContext(ctx, "tcp", address)
	} else {
		conn, err = (&tls.Dialer{NetDialer: dialer, Config: d.opts.TLS}).DialContext(ctx, "tcp", address)
	}
	if err != nil {
		return nil, err
	}
	if o, ok := ctx.Value(openingKey{}).(*opening); ok {
		o.is(conn)
	}
	return &patientConn{Conn: conn, patience: d.opts.DialTimeout}, nil
}

// timeless hides the deadline of a context from the driver, which would send it as a setting, and a
// read-only user may not change settings. The end of the context still ends the call.
type timeless struct{ context.Context }

// Deadline implements [context.Context].
func (timeless) Deadline() (time.Time, bool) { return time.Time{}, false }
