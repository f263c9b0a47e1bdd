package grain

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/parleyrun/parley/internal/outage"
)

// links sits between the library's endpoints and their streams, as gRPC's client interceptor. It works
// around endpoint behavior: an endpoint that fails to connect sleeps two seconds before it reports the
// failure, waits without bound for a silent peer, and drops unsent messages. On close it announces the
// end of its address, which may have a new endpoint by then. Therefore each endpoint gets a stream
// immediately, whose sends never fail. The stream connects in the background with a timeout, and calls
// whose messages were not sent are failed.
type links struct {
	log      *slog.Logger
	calls    *calls
	connects time.Duration // connect timeout

	mu   sync.Mutex
	open map[string]map[*link]struct{} // by address
	lost map[string]*outage.Outage     // addresses whose last connect failed
	shut bool
	idle chan struct{} // closed when no link is open after close
}

func newLinks(log *slog.Logger, c *calls, connects time.Duration) *links {
	return &links{
		log: log, calls: c, connects: connects, idle: make(chan struct{}),
		open: make(map[string]map[*link]struct{}), lost: make(map[string]*outage.Outage),
	}
}

// intercept is a grpc.StreamClientInterceptor. The library's context never ends; a link has its own.
func (ls *links) intercept(_ context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	ctx, cancel := context.WithCancel(context.Background())
	l := &link{
		links: ls, address: cc.Target(), ctx: ctx, cancel: cancel, ready: make(chan struct{}),
		dial: func() (grpc.ClientStream, error) {
			return streamer(ctx, desc, cc, method, append(opts[:len(opts):len(opts)], grpc.WaitForReady(true))...)
		},
	}
	ls.add(l)
	return l, nil
}

func (ls *links) add(l *link) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.shut {
		l.cut()
		return
	}
	if ls.open[l.address] == nil {
		ls.open[l.address] = make(map[*link]struct{})
	}
	ls.open[l.address][l] = struct{}{}
}

func (ls *links) remove(l *link) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	delete(ls.open[l.address], l)
	if len(ls.open[l.address]) == 0 {
		delete(ls.open, l.address)
	}
	ls.checkIdle()
}

func (ls *links) checkIdle() {
	if !ls.shut || len(ls.open) > 0 {
		return
	}
	select {
	case <-ls.idle:
	default:
		close(ls.idle)
	}
}

// cut ends the links to address. It is called before the library removes their endpoint.
func (ls *links) cut(address string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for l := range ls.open[address] {
		l.cut()
	}
	delete(ls.lost, address)
}

// close cuts every current and future link and returns their addresses.
func (ls *links) close() []string {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.shut = true
	var addresses []string
	for a, open := range ls.open {
		addresses = append(addresses, a)
		for l := range open {
			l.cut()
		}
	}
	ls.checkIdle()
	return addresses
}

// found and missed log when an address becomes reachable or unreachable.
func (ls *links) found(address string) {
	ls.mu.Lock()
	was := ls.lost[address]
	delete(ls.lost, address)
	ls.mu.Unlock()
	if was != nil {
		was.Succeeded()
	}
}

func (ls *links) missed(address string, err error) {
	ls.mu.Lock()
	is := ls.lost[address]
	if is == nil {
		is = outage.New(ls.log.With("address", address), outage.Lines{
			Began: "cannot reach member", Continues: "still cannot reach member", Ended: "member reachable again",
		}, 0)
		ls.lost[address] = is
	}
	ls.mu.Unlock()
	is.Report(err)
}

// link is the stream of one endpoint. As in gRPC, one goroutine sends and one receives.
type link struct {
	links   *links
	address string
	dial    func() (grpc.ClientStream, error)
	ctx     context.Context // context of the stream, from connect to end
	cancel  context.CancelFunc
	closed  atomic.Bool // closed by this side; the library is not notified

	hello    any // first message, sent when connected
	greeted  bool
	finished bool

	ready  chan struct{} // closed when stream is set
	stream grpc.ClientStream
}

var _ grpc.ClientStream = (*link)(nil)

// SendMsg implements grpc.ClientStream. It never fails: RecvMsg reports the end of a link. The first
// message is sent when the link is connected; later messages wait for that.
func (l *link) SendMsg(m any) error {
	if l.hello == nil {
		l.hello = m
		return nil
	}
	select {
	case <-l.ready:
		_ = l.stream.SendMsg(m) // a failure ends the stream, and RecvMsg reports it
	case <-l.ctx.Done():
	}
	return nil
}

// RecvMsg implements grpc.ClientStream. The library waits for the answer to its first message while it
// blocks the endpoint, and reads on in a goroutine of its own. The link connects in that goroutine.
func (l *link) RecvMsg(m any) error {
	if !l.greeted {
		l.greeted = true
		m.(*remote.RemoteMessage).MessageType = &remote.RemoteMessage_ConnectResponse{ConnectResponse: &remote.ConnectResponse{}}
		return nil
	}
	if l.finished {
		return io.EOF
	}
	err := l.track(m)
	if err == nil {
		return nil
	}
	return l.finish(err)
}

func (l *link) track(m any) error {
	if l.stream == nil {
		stream, err := l.connect()
		if err != nil {
			return err
		}
		l.stream = stream
		close(l.ready)
		l.links.found(l.address)
	}
	return l.stream.RecvMsg(m)
}

// connect returns when the peer's library has answered. From then on the peer accepts messages.
func (l *link) connect() (grpc.ClientStream, error) {
	limit := time.AfterFunc(l.links.connects, l.cancel)
	stream, err := l.dial()
	if err == nil {
		err = stream.SendMsg(l.hello)
	}
	if err == nil || err == io.EOF { // on EOF, RecvMsg returns the cause
		err = stream.RecvMsg(new(remote.RemoteMessage))
	}
	if err != nil {
		limit.Stop()
		return nil, err
	}
	if !limit.Stop() {
		return nil, context.DeadlineExceeded
	}
	return stream, nil
}

// finish returns the reason for the link's end: io.EOF if this side closed it, which the library does
// not report. The library has one endpoint per address, and earlier calls have failed. If this
// endpoint never connected, the pending calls were not sent.
func (l *link) finish(err error) error {
	l.finished = true
	defer l.links.remove(l)
	defer l.cancel()
	switch {
	case l.closed.Load():
		return io.EOF
	case l.stream == nil:
		l.links.missed(l.address, err)
		l.links.calls.notSent(l.address)
	}
	// The cause is formatted, not wrapped. The library would treat a wrapped io.EOF of the peer as a
	// close by this side and keep the closed endpoint.
	return fmt.Errorf("link to %s: %v", l.address, err)
}

func (l *link) cut() {
	l.closed.Store(true)
	l.cancel()
}

// CloseSend implements grpc.ClientStream. The endpoint is about to close its connection.
func (l *link) CloseSend() error {
	l.closed.Store(true)
	select {
	case <-l.ready:
		return l.stream.CloseSend()
	default:
		l.cancel()
		return nil
	}
}

// Context implements grpc.ClientStream.
func (l *link) Context() context.Context { return l.ctx }

// Header implements grpc.ClientStream. The library does not use it.
func (l *link) Header() (metadata.MD, error) { return nil, nil }

// Trailer implements grpc.ClientStream. The library does not use it.
func (l *link) Trailer() metadata.MD { return nil }
