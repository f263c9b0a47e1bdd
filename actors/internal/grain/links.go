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

// links stands between the library's endpoints and their streams, as gRPC's client interceptor. An
// endpoint that fails to connect sleeps for two seconds before it says so, waits without bound for a
// peer that does not answer, drops what it could not send, and, when it closes, announces its own end
// as that of the address, which by then may have a new endpoint. So each endpoint gets a stream at
// once, which never fails to send; it connects in the background, for a while at most, and
// whoever waits for what was not sent is told so.
type links struct {
	log      *slog.Logger
	calls    *calls
	connects time.Duration // for which one does

	mu   sync.Mutex
	open map[string]map[*link]struct{} // by address
	lost map[string]*outage.Outage     // of addresses that did not answer the last time
	shut bool
	idle chan struct{} // closed when none is open, once shut
}

func newLinks(log *slog.Logger, c *calls, connects time.Duration) *links {
	return &links{
		log: log, calls: c, connects: connects, idle: make(chan struct{}),
		open: make(map[string]map[*link]struct{}), lost: make(map[string]*outage.Outage),
	}
}

// intercept is a grpc.StreamClientInterceptor. The library's context is never done; a link has its own.
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

// close cuts every link, now and later, and returns their addresses.
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

// found and missed log when an address begins and ceases to answer.
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
			Began: "cannot reach member", Continues: "still cannot reach member", Ended: "member is reached again",
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
	ctx     context.Context // of the stream; the link's whole life
	cancel  context.CancelFunc
	closed  atomic.Bool // on this side: its end is no news to the library

	hello    any // the first message, sent when connected
	greeted  bool
	finished bool

	ready  chan struct{} // closed when stream is set
	stream grpc.ClientStream
}

var _ grpc.ClientStream = (*link)(nil)

// SendMsg implements grpc.ClientStream. It never fails: the end of a link shows in RecvMsg. The first
// message is sent when the link is connected; what comes later waits for that.
func (l *link) SendMsg(m any) error {
	if l.hello == nil {
		l.hello = m
		return nil
	}
	select {
	case <-l.ready:
		_ = l.stream.SendMsg(m) // whatever fails it ends the stream, and RecvMsg says so
	case <-l.ctx.Done():
	}
	return nil
}

// RecvMsg implements grpc.ClientStream. The library waits for an answer to its first message in the
// endpoint's way and reads on in a goroutine of its own, which is where the link connects.
func (l *link) RecvMsg(m any) error {
	if !l.greeted {
		l.greeted = true
		m.(*remote.RemoteMessage).MessageType = &remote.RemoteMessage_ConnectResponse{ConnectResponse: &remote.ConnectResponse{}}
		return nil
	}
	if l.finished {
		return io.EOF
	}
	err := l.receive(m)
	if err == nil {
		return nil
	}
	return l.finish(err)
}

func (l *link) receive(m any) error {
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

// connect returns when the peer's library has answered: from then on it takes messages.
func (l *link) connect() (grpc.ClientStream, error) {
	limit := time.AfterFunc(l.links.connects, l.cancel)
	stream, err := l.dial()
	if err == nil {
		err = stream.SendMsg(l.hello)
	}
	if err == nil || err == io.EOF { // EOF: the reason comes with RecvMsg
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

// finish says how the link ended: io.EOF if this side closed it, which the library keeps to itself.
// The library knows one endpoint per address at a time and the calls of those before have been failed,
// so if this one has never connected, nobody has seen the calls that wait for an answer.
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
	// The cause is told as text: an io.EOF, from a peer that ended the stream without an error, would be
	// taken for an end from this side, and the dead endpoint would stay.
	return fmt.Errorf("link to %s: %v", l.address, err)
}

func (l *link) cut() {
	l.closed.Store(true)
	l.cancel()
}

// CloseSend implements grpc.ClientStream: the endpoint is about to close its connection.
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

// Header implements grpc.ClientStream; the library does not ask for it.
func (l *link) Header() (metadata.MD, error) { return nil, nil }

// Trailer implements grpc.ClientStream; the library does not ask for it.
func (l *link) Trailer() metadata.MD { return nil }
