package grain

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// preface is the HTTP/2 client connection preface (RFC 9113, 3.4).
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

var errNoPreface = errors.New("no HTTP/2 preface")

// serverCreds holds the server's transport credentials and interceptors. It authenticates peers,
// checks their frames and logs each refusal, which gRPC does not report. It also detects that the
// listener accepts, because the library starts the serving goroutine without waiting for it.
type door struct {
	keys     keys // nil is plaintext
	refusals *refusals
	opened   chan struct{}

	mu     sync.Mutex
	caller string                // local address of awaitAccept's connection, "" before and after
	coming map[net.Conn]struct{} // connections in their handshake
	guests map[string]*guest     // connections without a stream yet, by remote address
	shut   bool
}

var _ credentials.TransportCredentials = (*door)(nil)

func newDoor(k keys, log *slog.Logger) *door {
	return &door{
		keys: k, refusals: newRefusals(log), opened: make(chan struct{}),
		coming: make(map[net.Conn]struct{}), guests: make(map[string]*guest),
	}
}

// awaitAccept connects to the listener and waits until it has accepted the connection.
func (d *door) knock(ctx context.Context, address string) error {
	conn, err := d.dial(ctx, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	select {
	case <-d.opened:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// dial holds the lock until the local address is stored; the handshake waits for it.
func (d *door) dial(ctx context.Context, address string) (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	d.caller = conn.LocalAddr().String()
	return conn, nil
}

func (d *door) isCaller(address string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.caller == "" || d.caller != address {
		return false
	}
	d.caller = ""
	return true
}

// ServerHandshake implements credentials.TransportCredentials. It closes the connection of
// awaitAccept. gRPC has set a deadline on conn.
func (d *door) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	remote := conn.RemoteAddr().String()
	if d.isCaller(remote) {
		close(d.opened)
		conn.Close()
		return nil, nil, credentials.ErrConnDispatched
	}
	if !d.come(conn) {
		return nil, nil, net.ErrClosed
	}
	defer d.came(conn)
	in, info, err := d.creds().ServerHandshake(conn)
	if err == nil {
		err = readPreface(in)
	}
	if err != nil {
		if !d.isShut() {
			d.refusals.say(remote, reason(err), err)
		}
		return nil, nil, err
	}
	return d.receive(in, remote), info, nil
}

func readPreface(conn net.Conn) error {
	head := make([]byte, len(preface))
	// An HTTP/2 client sends the whole preface, so one read of its length is enough.
	n, err := io.ReadFull(conn, head)
	if !bytes.Equal(head[:n], []byte(preface)[:n]) {
		return errNoPreface
	}
	return err
}

func (d *door) creds() credentials.TransportCredentials {
	if d.keys == nil {
		return insecure.NewCredentials()
	}
	return d.keys.current().server
}

// ClientHandshake implements credentials.TransportCredentials; see clientCreds.
func (d *door) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("the door is for servers")
}

// Info implements credentials.TransportCredentials.
func (d *door) Info() credentials.ProtocolInfo { return d.creds().Info() }

// Clone implements credentials.TransportCredentials.
func (d *door) Clone() credentials.TransportCredentials { return d }

// OverrideServerName implements credentials.TransportCredentials.
func (d *door) OverrideServerName(string) error { return nil }

func (d *door) come(conn net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shut {
		return false
	}
	d.coming[conn] = struct{}{}
	return true
}

func (d *door) came(conn net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.coming, conn)
}

func (d *door) isShut() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.shut
}

// close ends the pending handshakes, which would delay the end of the server, and stops the log lines.
func (d *door) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shut = true
	for conn := range d.coming {
		conn.Close()
	}
}

// newConn is a connection without a stream yet. It replays the preface, which was read already.
type guest struct {
	net.Conn
	door   *door
	remote string
	head   []byte // rest of the preface to replay
}

func (d *door) receive(conn net.Conn, remote string) *guest {
	g := &guest{Conn: conn, door: d, remote: remote, head: []byte(preface)}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.guests[remote] = g
	return g
}

// Read implements net.Conn. gRPC reads from one goroutine.
func (g *guest) Read(p []byte) (int, error) {
	if len(g.head) > 0 {
		n := copy(p, g.head)
		g.head = g.head[n:]
		return n, nil
	}
	return g.Conn.Read(p)
}

// Close implements net.Conn.
func (g *guest) Close() error {
	if g.door.seat(g.remote) && !g.door.isShut() {
		g.door.refusals.say(g.remote, "connection without a valid stream", nil)
	}
	return g.Conn.Close()
}

// forget removes a connection that opened a stream or closed. It reports whether it was still without
// a stream.
func (d *door) seat(remote string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, waited := d.guests[remote]
	delete(d.guests, remote)
	return waited
}

// streamOpened records the stream's connection and returns its remote address.
func (d *door) enter(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return ""
	}
	remote := p.Addr.String()
	d.seat(remote)
	return remote
}

// denyUnary rejects every unary call. The library answers two of them with a panic.
func (d *door) denyUnary(ctx context.Context, _ any, _ *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
	d.refusals.say(d.enter(ctx), "unary call", nil)
	return nil, status.Error(codes.Unimplemented, "unary calls are not served")
}

// denyUnknown rejects calls of unregistered services and methods.
func (d *door) denyUnknown(any, grpc.ServerStream) error {
	return status.Error(codes.Unimplemented, "no such method")
}

// reason maps a handshake error to a short phrase, which is also a key of the log's rate limit.
func reason(err error) string {
	var netErr net.Error
	var record tls.RecordHeaderError
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var name *nameError
	var host x509.HostnameError
	switch {
	case errors.Is(err, errNoPreface):
		return "no HTTP/2"
	case errors.As(err, &record):
		return "no TLS"
	case errors.As(err, &unknown):
		return "certificate of an unknown authority"
	case errors.As(err, &name), errors.As(err, &host):
		return "certificate without the name"
	case errors.As(err, &invalid):
		return "certificate not valid"
	case errors.As(err, &netErr) && netErr.Timeout():
		return "handshake took too long"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed in the handshake"
	case strings.Contains(err.Error(), "provide a certificate"):
		return "no certificate"
	}
	return "handshake failed"
}

// clientCreds holds the credentials of outgoing connections.
type caller struct {
	keys     keys // nil is plaintext
	refusals *refusals
}

var _ credentials.TransportCredentials = (*caller)(nil)

// ClientHandshake implements credentials.TransportCredentials. It logs a server with an unacceptable
// certificate. All other failures are logged as an unreachable member.
func (c *caller) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	out, info, err := c.creds().ClientHandshake(ctx, authority, conn)
	var bad *tls.CertificateVerificationError
	var name *nameError
	if errors.As(err, &bad) || errors.As(err, &name) {
		c.refusals.say(conn.RemoteAddr().String(), reason(err), err)
	}
	return out, info, err
}

// ServerHandshake implements credentials.TransportCredentials; see serverCreds.
func (c *caller) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("the caller is for clients")
}

func (c *caller) creds() credentials.TransportCredentials {
	if c.keys == nil {
		return insecure.NewCredentials()
	}
	return c.keys.current().client
}

// Info implements credentials.TransportCredentials.
func (c *caller) Info() credentials.ProtocolInfo { return c.creds().Info() }

// Clone implements credentials.TransportCredentials.
func (c *caller) Clone() credentials.TransportCredentials { return c }

// OverrideServerName implements credentials.TransportCredentials.
func (c *caller) OverrideServerName(string) error { return nil }
