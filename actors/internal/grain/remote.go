package grain

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"
)

// Bounds of the node-to-node link. A batch of messages is one gRPC message, so the batch size times
// the largest message must be below the receive limit: 32 times 256 KiB is 8 MiB.
const (
	maxReceiveBytes  = 64 << 20
	writerBatch      = 32
	writerQueue      = 1024 // slots allocated per peer at connect; the library's default takes 16 MiB
	keepaliveTime    = 10 * time.Second
	keepaliveTimeout = 3 * time.Second
	connectTimeout   = 3 * time.Second
	// A restarted process is found within the longest backoff.
	minRedial, maxRedial = 20 * time.Millisecond, 250 * time.Millisecond
	closeTimeout         = time.Second
)

func remoteConfig(p place, d *serverCreds, out *clientCreds, ls *links) *remote.Config {
	dialer := net.Dialer{LocalAddr: p.source()}
	host := p.host
	if strings.Contains(host, ":") {
		host = "[" + host + "]" // the library appends the port without brackets
	}
	rc := remote.Configure(host, p.port,
		remote.WithServerOptions(
			grpc.Creds(d),
			grpc.MaxRecvMsgSize(maxReceiveBytes),
			grpc.UnaryInterceptor(d.denyUnary),
			grpc.StreamInterceptor(d.stream),
			grpc.UnknownServiceHandler(d.denyUnknown),
			grpc.ConnectionTimeout(ls.connects),
			grpc.WaitForHandlers(true),
			grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
			grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveTime / 2, PermitWithoutStream: true}),
		),
		remote.WithDialOptions(
			grpc.WithTransportCredentials(out),
			grpc.WithStreamInterceptor(ls.intercept),
			grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
				return dialer.DialContext(ctx, "tcp", address)
			}),
			grpc.WithNoProxy(),
			grpc.WithDisableServiceConfig(),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReceiveBytes)),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTimeout, PermitWithoutStream: true}),
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: minRedial, Multiplier: 1.6, Jitter: 0.2, MaxDelay: maxRedial},
				MinConnectTimeout: ls.connects,
			}),
		),
		remote.WithAdvertisedHost(p.advertise),
		remote.WithEndpointWriterBatchSize(writerBatch),
		remote.WithEndpointWriterQueueSize(writerQueue),
	)
	rc.MaxRetryCount = 1 // a link never fails; see links
	return rc
}

// grpcLog serializes access to grpclog's process-wide logger. The library replaces it at every start
// without a lock, while other clusters in this process use it. It is a package variable because the
// logger is one.
var grpcLog sync.Mutex

// startRemote listens and returns when connections are accepted.
func (c *Cluster) startRemote(ctx context.Context) error {
	k := c.keys
	if k == nil && !c.insecure {
		made, err := newKeys()
		if err != nil {
			return fmt.Errorf("make key pair: %w", err)
		}
		k = made
	}
	grpcLog.Lock()
	defer grpcLog.Unlock()
	d := newServerCreds(k, c.log)
	c.links = newLinks(c.log, c.calls, c.connects)
	c.lib.Config.RemoteConfig = remoteConfig(c.place, d, &clientCreds{keys: k, refusals: d.refusals}, c.links)
	r := remote.NewRemote(c.system, c.lib.Config.RemoteConfig)
	c.lib.Remote = r
	c.watchLinks(c.links.cut)
	if err := listen(r, c.place); err != nil {
		return err
	}
	c.remote, c.creds = r, d
	c.watchLinks(c.linkEnded)
	if err := d.awaitAccept(ctx, c.place.bound(c.system.Address())); err != nil {
		return fmt.Errorf("wait for listener: %w", err)
	}
	return nil
}

// listen converts the library's panic on a listen failure into an error.
func listen(r *remote.Remote, p place) (err error) {
	defer func() {
		if e := recover(); e != nil {
			err = fmt.Errorf("listen on %s port %d: %v", p.host, p.port, e)
		}
	}()
	r.Start()
	return nil
}

// watchLinks subscribes to the ends of the library's endpoints. Subscribers are called in order, and
// the library's own subscribes at its start. A subscription before that runs while the endpoint still
// exists; one after it can rely on the next message using a new endpoint.
func (c *Cluster) watchLinks(ended func(address string)) {
	c.system.EventStream.Subscribe(func(evt any) {
		if e, ok := evt.(*remote.EndpointTerminatedEvent); ok {
			ended(e.Address)
		}
	})
}

// linkEnded fails the calls to address, whose messages or answers may be lost.
func (c *Cluster) linkEnded(address string) {
	c.calls.answerAll(address, linkEnded{})
	if c.linkDown != nil && c.running.Load() {
		c.linkDown(address)
	}
}

// stopRemote closes the links and the listener, and waits for the listener's goroutines. The library's
// graceful variant is not used: it clears a map that its goroutines still read, and may take half a
// minute.
func (c *Cluster) stopRemote() {
	for _, address := range c.links.close() {
		c.system.EventStream.Publish(&remote.EndpointTerminatedEvent{Address: address})
	}
	limit := time.NewTimer(closeTimeout)
	defer limit.Stop()
	select {
	case <-c.links.idle:
	case <-limit.C:
	}
	grpcLog.Lock()
	defer grpcLog.Unlock()
	c.creds.close()
	c.remote.Shutdown(false)
}
