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
type serverCreds struct {
	keys     keys // nil is plaintext
	refusals *refusals
	opened   chan struct{}

	mu         sync.Mutex
	selfAddr   string                // local address of awaitAccept's connection, "" before and after
	handshakes map[net.Conn]struct{} // connections in their handshake
	newConns   map[string]*newConn   // connections without a stream yet, by remote address
	shut       bool
}

var _ credentials.TransportCredentials = (*serverCreds)(nil)

func newServerCreds(k keys, log *slog.Logger) *serverCreds {
	return &serverCreds{
		keys: k, refusals: newRefusals(log), opened: make(chan struct{}),
		handshakes: make(map[net.Conn]struct{}), newConns: make(map[string]*newConn),
	}
}

// awaitAccept connects to the listener and waits until it has accepted the connection.
func (s *serverCreds) awaitAccept(ctx context.Context, address string) error {
	conn, err := s.dial(ctx, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	select {
	case <-s.opened:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// dial holds the lock until the local address is stored; the handshake waits for it.
func (s *serverCreds) dial(ctx context.Context, address string) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	s.selfAddr = conn.LocalAddr().String()
	return conn, nil
}

func (s *serverCreds) isSelf(address string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.selfAddr == "" || s.selfAddr != address {
		return false
	}
	s.selfAddr = ""
	return true
}

// ServerHandshake implements credentials.TransportCredentials. It closes the connection of
// awaitAccept. gRPC has set a deadline on conn.
func (s *serverCreds) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	remote := conn.RemoteAddr().String()
	if s.isSelf(remote) {
		close(s.opened)
		conn.Close()
		return nil, nil, credentials.ErrConnDispatched
	}
	if !s.beginHandshake(conn) {
		return nil, nil, net.ErrClosed
	}
	defer s.endHandshake(conn)
	in, info, err := s.creds().ServerHandshake(conn)
	if err == nil {
		err = readPreface(in)
	}
	if err != nil {
		if !s.isShut() {
			s.refusals.report(remote, reason(err), err)
		}
		return nil, nil, err
	}
	return s.track(in, remote), info, nil
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

func (s *serverCreds) creds() credentials.TransportCredentials {
	if s.keys == nil {
		return insecure.NewCredentials()
	}
	return s.keys.current().server
}

// ClientHandshake implements credentials.TransportCredentials; see clientCreds.
func (s *serverCreds) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("server credentials cannot dial")
}

// Info implements credentials.TransportCredentials.
func (s *serverCreds) Info() credentials.ProtocolInfo { return s.creds().Info() }

// Clone implements credentials.TransportCredentials.
func (s *serverCreds) Clone() credentials.TransportCredentials { return s }

// OverrideServerName implements credentials.TransportCredentials.
func (s *serverCreds) OverrideServerName(string) error { return nil }

func (s *serverCreds) beginHandshake(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut {
		return false
	}
	s.handshakes[conn] = struct{}{}
	return true
}

func (s *serverCreds) endHandshake(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.handshakes, conn)
}

func (s *serverCreds) isShut() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shut
}

// close ends the pending handshakes, which would delay the end of the server, and stops the log lines.
func (s *serverCreds) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shut = true
	for conn := range s.handshakes {
		conn.Close()
	}
}

// newConn is a connection without a stream yet. It replays the preface, which was read already.
type newConn struct {
	net.Conn
	creds  *serverCreds
	remote string
	head   []byte // rest of the preface to replay
}

func (s *serverCreds) track(conn net.Conn, remote string) *newConn {
	c := &newConn{Conn: conn, creds: s, remote: remote, head: []byte(preface)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newConns[remote] = c
	return c
}

// Read implements net.Conn. gRPC reads from one goroutine.
func (c *newConn) Read(p []byte) (int, error) {
	if len(c.head) > 0 {
		n := copy(p, c.head)
		c.head = c.head[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// Close implements net.Conn.
func (c *newConn) Close() error {
	if c.creds.remove(c.remote) && !c.creds.isShut() {
		c.creds.refusals.report(c.remote, "connection without a valid stream", nil)
	}
	return c.Conn.Close()
}

// remove deletes a connection that opened a stream or closed. It reports whether it was still without
// a stream.
func (s *serverCreds) remove(remote string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, waited := s.newConns[remote]
	delete(s.newConns, remote)
	return waited
}

// streamOpened records the stream's connection and returns its remote address.
func (s *serverCreds) streamOpened(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return ""
	}
	remote := p.Addr.String()
	s.remove(remote)
	return remote
}

// denyUnary rejects every unary call. The library answers two of them with a panic.
func (s *serverCreds) denyUnary(ctx context.Context, _ any, _ *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
	s.refusals.report(s.streamOpened(ctx), "unary call", nil)
	return nil, status.Error(codes.Unimplemented, "unary calls are not served")
}

// denyUnknown rejects calls of unregistered services and methods.
func (s *serverCreds) denyUnknown(any, grpc.ServerStream) error {
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
		return "handshake timeout"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed in the handshake"
	case strings.Contains(err.Error(), "provide a certificate"):
		return "no certificate"
	}
	return "handshake failed"
}

type clientCreds struct {
	keys     keys // nil is plaintext
	refusals *refusals
}

var _ credentials.TransportCredentials = (*clientCreds)(nil)

// ClientHandshake implements credentials.TransportCredentials. It logs a server with an unacceptable
// certificate. All other failures are logged as an unreachable member.
func (c *clientCreds) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	out, info, err := c.creds().ClientHandshake(ctx, authority, conn)
	var bad *tls.CertificateVerificationError
	var name *nameError
	if errors.As(err, &bad) || errors.As(err, &name) {
		c.refusals.report(conn.RemoteAddr().String(), reason(err), err)
	}
	return out, info, err
}

// ServerHandshake implements credentials.TransportCredentials; see serverCreds.
func (c *clientCreds) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("client credentials cannot serve")
}

func (c *clientCreds) creds() credentials.TransportCredentials {
	if c.keys == nil {
		return insecure.NewCredentials()
	}
	return c.keys.current().client
}

// Info implements credentials.TransportCredentials.
func (c *clientCreds) Info() credentials.ProtocolInfo { return c.creds().Info() }

// Clone implements credentials.TransportCredentials.
func (c *clientCreds) Clone() credentials.TransportCredentials { return c }

// OverrideServerName implements credentials.TransportCredentials.
func (c *clientCreds) OverrideServerName(string) error { return nil }
