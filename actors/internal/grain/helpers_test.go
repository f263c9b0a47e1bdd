package grain_test

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/parleyrun/parley/actors/internal/grain"
	"github.com/parleyrun/parley/internal/proc"
	"github.com/parleyrun/parley/internal/waiting"
)

const kind = "conversation"

// testTimeout bounds each wait of a test. It is long enough never to decide a result.
const testTimeout = waiting.Limit

// start runs a cluster until the test ends. Its Stop must succeed.
func start(tb testing.TB, newActor func() actor.Actor, opts *grain.Options) *grain.Cluster {
	tb.Helper()
	c := build(tb, newActor, opts)
	run(tb, c)
	return c
}

// run starts c until the test ends.
func run(tb testing.TB, c *grain.Cluster) {
	tb.Helper()
	if err := c.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { stop(tb, c) })
}

// build creates a cluster. Its requests wait as long as the test unless opts has other timeouts.
func build(tb testing.TB, newActor func() actor.Actor, opts *grain.Options) *grain.Cluster {
	tb.Helper()
	var o grain.Options
	if opts != nil {
		o = *opts
	}
	o.OwnerWait, o.RequestTimeout = cmp.Or(o.OwnerWait, testTimeout), cmp.Or(o.RequestTimeout, testTimeout)
	c, err := grain.New(kind, newActor, &o)
	if err != nil {
		tb.Fatal(err)
	}
	c.ConnectFor(testTimeout)
	return c
}

func stop(tb testing.TB, c *grain.Cluster) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	if err := c.Stop(ctx); err != nil {
		tb.Error(err)
	}
}

func text(s string) *wrapperspb.StringValue { return wrapperspb.String(s) }

// ask sends s to id and returns the reply's text. It may be called from any goroutine.
func ask(tb testing.TB, c *grain.Cluster, id, s string) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	reply, err := c.Request(ctx, id, text(s))
	if err != nil {
		tb.Error(err)
		return ""
	}
	return value(reply)
}

func value(m proto.Message) string { return m.(*wrapperspb.StringValue).GetValue() }

// body returns the text of a test message in ctx.
func body(ctx actor.Context) (string, bool) {
	m, ok := ctx.Message().(*wrapperspb.StringValue)
	return m.GetValue(), ok
}

func actorFunc(f actor.ReceiveFunc) func() actor.Actor {
	return func() actor.Actor { return f }
}

func echo(ctx actor.Context) {
	if s, ok := body(ctx); ok {
		ctx.Respond(text(s))
	}
}

func await[T any](tb testing.TB, ch <-chan T, event string) T {
	tb.Helper()
	return waiting.For(tb, ch, event)
}

func eventually(tb testing.TB, event string, ok func() bool) {
	tb.Helper()
	waiting.Until(tb, event, ok)
}

// handDriven is a Membership whose views are set by the test.
type handDriven struct {
	mu      sync.Mutex
	self    grain.Member
	publish func([]grain.Member)
	joined  chan struct{}
	silent  bool  // Join publishes nothing
	joinErr error // result of Join
	left    int
}

func newHandDriven() *handDriven { return &handDriven{joined: make(chan struct{})} }

func (h *handDriven) Join(_ context.Context, self grain.Member, publish func([]grain.Member)) error {
	h.self, h.publish = self, publish
	close(h.joined)
	if h.joinErr == nil && !h.silent {
		publish([]grain.Member{self})
	}
	return h.joinErr
}

func (h *handDriven) Leave(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left++
	return nil
}

func (h *handDriven) show(view ...grain.Member) { h.publish(view) }

// closedMember is a member that accepts connections and never answers.
func closedMember(tb testing.TB) grain.Member {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { l.Close() })
	return grain.Member{ID: "ghost", Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port, Weight: 1}
}

// ownedBy returns n identities that want owns among members.
func ownedBy(want grain.Member, n int, members ...grain.Member) []string {
	var addresses, ids []string
	for _, m := range members {
		addresses = append(addresses, m.Address())
	}
	for i := 0; len(ids) < n; i++ {
		id := "conv-" + string(rune('a'+i%26)) + time.Duration(i).String()
		if grain.Owner(addresses, id) == want.Address() {
			ids = append(ids, id)
		}
	}
	return ids
}

// isolated runs the calling test in a process of its own and returns true; in that process it returns
// false. It is for tests with gRPC connections, that is with another member, because members are
// pinged. gRPC goroutines outlive the test and read grpclog's logger, which the library replaces
// without a lock when the next test starts a cluster.
func isolated(t *testing.T) bool {
	t.Helper()
	return proc.Isolated(t)
}

func newLog() (*slog.Logger, *waiting.Log) {
	l := &waiting.Log{}
	return slog.New(slog.NewTextHandler(l, nil)), l
}
