package grain_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/parleyrun/parley/actors/internal/grain"
)

// listening returns a started cluster, its keys and its listen address.
func listening(t *testing.T) (*grain.Cluster, *grain.Keys, string) {
	t.Helper()
	keys := newKeys(t)
	c := build(t, actorFunc(echo), nil)
	c.UseKeys(keys)
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, c) })
	host, _, err := net.SplitHostPort(c.System().Address())
	if err != nil || host != "127.0.0.1" {
		t.Fatalf("listening on %q, want loopback", c.System().Address())
	}
	return c, keys, c.System().Address()
}

func newKeys(t *testing.T) *grain.Keys {
	t.Helper()
	keys, err := grain.NewKeys()
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func dial(t *testing.T, address string, creds credentials.TransportCredentials) remote.RemotingClient {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return remote.NewRemotingClient(conn)
}

// connect opens the stream of a peer and waits for the answer to its first frame.
func connect(ctx context.Context, cl remote.RemotingClient, frame *remote.RemoteMessage) error {
	stream, err := cl.Receive(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(frame); err != nil {
		return err
	}
	_, err = stream.Recv()
	return err
}

func hello() *remote.RemoteMessage {
	return &remote.RemoteMessage{MessageType: &remote.RemoteMessage_ConnectRequest{ConnectRequest: &remote.ConnectRequest{
		ConnectionType: &remote.ConnectRequest_ServerConnection{ServerConnection: &remote.ServerConnection{
			MemberId: "intruder", Address: "127.0.0.1:1",
		}},
	}}}
}

func TestUntrustedPeersAreRejected(t *testing.T) {
	if isolated(t) {
		return
	}
	c, keys, address := listening(t)
	certless := keys.Client()
	certless.Certificates = nil
	foreign := keys.Client()
	foreign.Certificates = newKeys(t).Client().Certificates // well formed, signed by an unknown authority
	old := keys.Client()
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	tests := []struct {
		name  string
		creds credentials.TransportCredentials
	}{
		{"plaintext", insecure.NewCredentials()},
		{"no certificate", credentials.NewTLS(certless)},
		{"certificate of another authority", credentials.NewTLS(foreign)},
		{"TLS 1.2", credentials.NewTLS(old)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
			defer cancel()
			cl := dial(t, address, tt.creds)
			if err := connect(ctx, cl, hello()); status.Code(err) != codes.Unavailable {
				t.Errorf("stream: %v, want %v", err, codes.Unavailable)
			}
			if _, err := cl.ListProcesses(ctx, &remote.ListProcessesRequest{}); status.Code(err) != codes.Unavailable {
				t.Errorf("unary call: %v, want %v", err, codes.Unavailable)
			}
			ask(t, c, "a", "still alive")
		})
	}
}

func TestPeerCannotCrashTheProcess(t *testing.T) {
	if isolated(t) {
		return
	}
	c, keys, address := listening(t)
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	cl := dial(t, address, credentials.NewTLS(keys.Client()))
	if err := connect(ctx, cl, hello()); err != nil {
		t.Fatalf("peer with a key rejected: %v", err)
	}
	if _, err := cl.ListProcesses(ctx, &remote.ListProcessesRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("ListProcesses: %v, want %v", err, codes.Unimplemented)
	}
	if _, err := cl.GetProcessDiagnostics(ctx, &remote.GetProcessDiagnosticsRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("GetProcessDiagnostics: %v, want %v", err, codes.Unimplemented)
	}
	malformed := &remote.RemoteMessage{MessageType: &remote.RemoteMessage_MessageBatch{MessageBatch: &remote.MessageBatch{
		Envelopes: []*remote.MessageEnvelope{{TypeId: 7, Target: 9, Sender: 3}},
	}}}
	if err := connect(ctx, cl, malformed); status.Code(err) != codes.InvalidArgument {
		t.Errorf("malformed batch: %v, want %v", err, codes.InvalidArgument)
	}
	ask(t, c, "a", "still alive")
}

func TestStopDoesNotWaitForASilentClient(t *testing.T) {
	if isolated(t) {
		return
	}
	c, keys, address := listening(t)
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	cl := dial(t, address, credentials.NewTLS(keys.Client()))
	stream, err := cl.Receive(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(hello()); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	stop(t, c)
	if _, err := stream.Recv(); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("stream after Stop: %v, want it to be cut", err)
	}
}

func TestUnreachableMemberDoesNotHoldUpOthers(t *testing.T) {
	if isolated(t) {
		return
	}
	m := newHandDriven()
	c := start(t, actorFunc(echo), &grain.Options{Membership: m})
	other := grain.Member{ID: "gone", Host: "127.0.0.1", Port: 1, Weight: 1}
	theirs := ownedBy(other, 1, m.self, other)[0]
	mine := ownedBy(m.self, 1, m.self, other)[0]
	m.show(m.self, other)
	res := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_, err := c.Request(ctx, theirs, text("m"))
		res <- err
	}()
	ask(t, c, mine, "m")
	if err := await(t, res, "the request"); !errors.Is(err, grain.ErrNoOwner) {
		t.Errorf("error %v, want %v", err, grain.ErrNoOwner)
	}
	m.show(m.self)
	ask(t, c, theirs, "taken over")
}

func TestRequestEndsWhenItsMemberLeaves(t *testing.T) {
	if isolated(t) {
		return
	}
	m := newHandDriven()
	c := start(t, actorFunc(echo), &grain.Options{Membership: m, RequestTimeout: testTimeout})
	c.StopPings()
	other := closedMember(t)
	m.show(m.self, other)
	c.Cache("a", actor.NewPID(other.Address(), "activation of a"))
	res := make(chan error, 1)
	go func() {
		_, err := c.Request(t.Context(), "a", text("m"))
		res <- err
	}()
	eventually(t, "the call", func() bool { return c.CallsTo(other.Address()) == 1 })
	m.show(m.self)
	err := await(t, res, "the request")
	if !errors.Is(err, grain.ErrOutcomeUnknown) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want %v before the deadline", err, grain.ErrOutcomeUnknown)
	}
	if _, ok := c.Cached("a"); ok {
		t.Error("activation of a former member is still cached")
	}
	ask(t, c, "a", "taken over")
}

// TestTwoMembers: two members in one process, each with its own listener, over the wire.
func TestTwoMembers(t *testing.T) {
	if isolated(t) {
		return
	}
	keys := newKeys(t)
	var nodes [2]*grain.Cluster
	var views [2]*handDriven
	for i := range nodes {
		views[i] = newHandDriven()
		nodes[i] = build(t, actorFunc(func(ctx actor.Context) {
			switch s, _ := body(ctx); s {
			case "":
			case "panic":
				panic(s)
			case "leave":
				ctx.Respond(text(s))
				grain.Passivate(ctx)
			default:
				ctx.Respond(text(nodes[i].MemberID()))
			}
		}), &grain.Options{Membership: views[i], RequestTimeout: testTimeout})
		nodes[i].UseKeys(keys)
	}
	for _, n := range nodes {
		if err := n.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stop(t, n) })
	}
	for _, v := range views {
		v.show(views[0].self, views[1].self)
	}
	for _, owner := range []int{0, 1} {
		for _, id := range ownedBy(views[owner].self, 50, views[0].self, views[1].self) {
			for from, n := range nodes {
				if got := ask(t, n, id, "id"); got != nodes[owner].MemberID() {
					t.Errorf("asked at %d, %q is answered by %q, want member %d", from, id, got, owner)
				}
			}
			ask(t, nodes[0], id, "leave")
			ask(t, nodes[1], id, "id")
		}
		if got := nodes[owner].ActiveCount(); got != 50 {
			t.Errorf("member %d has %d activations, want 50", owner, got)
		}
	}
	remote := ownedBy(views[1].self, 1, views[0].self, views[1].self)[0]
	if _, err := nodes[0].Request(t.Context(), remote, text("panic")); !errors.Is(err, grain.ErrPanicked) {
		t.Errorf("error %v, want %v", err, grain.ErrPanicked)
	}
}
