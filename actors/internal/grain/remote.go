package grain

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// Bounds of the node-to-node link. A batch of messages travels as one gRPC message, so the batch size
// times the largest message stays below the receive limit: 32 times 256 KiB is 8 MiB.
const (
	listenHost       = "127.0.0.1"
	maxReceiveBytes  = 64 << 20
	writerBatch      = 32
	writerQueue      = 1024 // slots allocated per peer at connect; the library's default takes 16 MiB
	keepaliveTime    = 10 * time.Second
	keepaliveTimeout = 3 * time.Second
	connectTimeout   = 3 * time.Second
)

// remoteConfig is the library's remote on a free loopback port, for holders of keys only.
func remoteConfig(keys *keyPair, door *door, log *slog.Logger) *remote.Config {
	rc := remote.Configure(listenHost, 0,
		remote.WithServerOptions(
			grpc.Creds(door),
			grpc.MaxRecvMsgSize(maxReceiveBytes),
			grpc.UnaryInterceptor(denyUnary),
			grpc.StreamInterceptor(recoverStream(log)),
			grpc.ConnectionTimeout(connectTimeout),
			grpc.WaitForHandlers(true),
			grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
			grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveTime / 2, PermitWithoutStream: true}),
		),
		remote.WithDialOptions(
			grpc.WithTransportCredentials(credentials.NewTLS(keys.client)),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReceiveBytes)),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTimeout, PermitWithoutStream: true}),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: connectTimeout}),
		),
		remote.WithEndpointWriterBatchSize(writerBatch),
		remote.WithEndpointWriterQueueSize(writerQueue),
	)
	// The library sleeps two seconds after every failed attempt; requests are repeated here anyway.
	rc.MaxRetryCount = 1
	return rc
}

// denyUnary answers every unary call. The library serves two of them with a panic.
func denyUnary(context.Context, any, *grpc.UnaryServerInfo, grpc.UnaryHandler) (any, error) {
	return nil, status.Error(codes.Unimplemented, "unary calls are not served")
}

// recoverStream contains the panics of the library's frame decoder, which trusts its indexes.
func recoverStream(log *slog.Logger) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
		defer func() {
			if r := recover(); r != nil {
				log.Warn("malformed frame from peer", "panic", panicText(r))
				err = status.Error(codes.InvalidArgument, "malformed frame")
			}
		}()
		return handle(srv, stream)
	}
}

// grpcLog orders the writes and reads of grpclog's process-wide logger: the library replaces it at
// every start without a lock, while the servers of other clusters in this process use it. It can only
// be a package variable, like what it guards.
var grpcLog sync.Mutex

// startRemote listens and returns when connections are accepted.
func (c *Cluster) startRemote(ctx context.Context, keys *keyPair) error {
	grpcLog.Lock()
	defer grpcLog.Unlock()
	d := newDoor(keys)
	c.lib.Config.RemoteConfig = remoteConfig(keys, d, c.log)
	r := remote.NewRemote(c.system, c.lib.Config.RemoteConfig)
	c.lib.Remote = r
	if err := listen(r); err != nil {
		return err
	}
	c.remote = r
	if err := d.knock(ctx, c.system.Address()); err != nil {
		return fmt.Errorf("wait for listener: %w", err)
	}
	return nil
}

// listen turns the panic that the library raises when it cannot listen into an error.
func listen(r *remote.Remote) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("listen on %s: %v", listenHost, p)
		}
	}()
	r.Start()
	return nil
}

// stopRemote tells the links to peers to close, which the library offers no way to wait for, and closes
// the listener, whose goroutines it waits for. The graceful variant of the library is not used: it clears a map that its own goroutines still read and may take
// half a minute. This one ends at once, but for a client in the middle of a TLS handshake, which can
// hold it for connectTimeout.
func (c *Cluster) stopRemote() {
	for _, n := range c.lookup.view.Load().nodes {
		if n.address != c.system.Address() {
			c.system.EventStream.Publish(&remote.EndpointTerminatedEvent{Address: n.address})
		}
	}
	grpcLog.Lock()
	defer grpcLog.Unlock()
	c.remote.Shutdown(false)
}

// door is the server's credentials and a way to learn that the listener accepts. The library gives
// none: it starts the serving goroutine, which uses grpclog's logger, and does not wait for it.
type door struct {
	credentials.TransportCredentials
	opened chan struct{}

	mu     sync.Mutex
	caller string // the address that knock dials from, "" before and after
}

func newDoor(keys *keyPair) *door {
	return &door{TransportCredentials: credentials.NewTLS(keys.server), opened: make(chan struct{})}
}

// knock connects to the listener and waits until it has accepted that connection.
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

// dial holds the lock until the caller's address is known; the handshake waits for it.
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

// ServerHandshake implements credentials.TransportCredentials. The knocking connection goes no further.
func (d *door) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if !d.isCaller(conn.RemoteAddr().String()) {
		return d.TransportCredentials.ServerHandshake(conn)
	}
	close(d.opened)
	conn.Close()
	return nil, nil, credentials.ErrConnDispatched
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
