package grain_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"

	"github.com/parleyrun/parley/actors/internal/grain"
)

// speak connects, sends data and waits until the other side closes the connection.
func speak(t *testing.T, address string, conf *tls.Config, data []byte) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if conf != nil {
		conn = tls.Client(conn, conf)
	}
	if _, err := conn.Write(data); err != nil {
		return // refused in the handshake
	}
	_, _ = io.Copy(io.Discard, conn)
}

// TestUntrustedPeersAreLoggedOnce: each refused peer causes one log line, and the member keeps
// serving.
func TestUntrustedPeersAreLoggedOnce(t *testing.T) {
	if isolated(t) {
		return
	}
	ca, foreign := newAuthority(t, "ours"), newAuthority(t, "theirs")
	log, lines := newLog()
	c := start(t, actorFunc(echo), &grain.Options{TLS: ca.member(t), Logger: log})
	pair := func(a *authority, change func(*x509.Certificate)) *tls.Config {
		cert, key := a.issue(t, change)
		return ca.client(t, cert, key)
	}
	old := pair(ca, nil)
	old.MaxVersion = tls.VersionTLS12
	tests := []struct {
		name   string
		conf   *tls.Config
		data   string
		reason string
	}{
		{"plain HTTP", nil, "GET / HTTP/1.1\r\nHost: user content\r\n\r\n", "no TLS"},
		{"plain HTTP/2", nil, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", "no TLS"},
		{"no certificate", ca.client(t, nil, nil), "hello", "no certificate"},
		{"certificate of another authority", pair(foreign, nil), "hello", "certificate of an unknown authority"},
		{"certificate of another name", pair(ca, func(c *x509.Certificate) { c.DNSNames = []string{"elsewhere", "*"} }), "hello", "certificate without the name"},
		{"certificate that has expired", pair(ca, func(c *x509.Certificate) { c.NotAfter = c.NotBefore }), "hello", "certificate not valid"},
		{"TLS 1.2", old, "hello", "handshake failed"},
		{"another protocol under a good certificate", pair(ca, nil), "GET / HTTP/1.1\r\nHost: user content\r\n\r\n", "no HTTP/2"},
		{"garbage behind the preface", pair(ca, nil), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + strings.Repeat("user content", 40), "connection without a valid stream"},
	}
	for i, tt := range tests {
		c.ResetRefusals()
		speak(t, c.Address(), tt.conf, []byte(tt.data))
		eventually(t, "the log line of "+tt.name, func() bool { return lines.Count("reason=") > i })
		last := strings.TrimSpace(lines.String())
		last = last[strings.LastIndex(last, "\n")+1:]
		for _, want := range []string{"level=WARN", `msg="peer refused"`, "remote=127.0.0.1:", tt.reason} {
			if !strings.Contains(last, want) {
				t.Errorf("%s: log line lacks %q: %s", tt.name, want, last)
			}
		}
		ask(t, c, "a", "still alive")
	}
	stop(t, c)
	if n := strings.Count(lines.String(), "\n"); n != len(tests) {
		t.Errorf("%d lines, want %d:\n%s", n, len(tests), lines)
	}
	if strings.Contains(lines.String(), "user content") {
		t.Errorf("log contains data of a peer:\n%s", lines)
	}
}

func TestFloodDoesNotFillTheLog(t *testing.T) {
	if isolated(t) {
		return
	}
	log, lines := newLog()
	c := start(t, actorFunc(echo), &grain.Options{Logger: log})
	const n = 500
	for range n {
		speak(t, c.Address(), nil, []byte("GET / HTTP/1.1\r\n\r\n"))
	}
	if got := lines.Count("no TLS"); got == 0 || got > n/4 {
		t.Errorf("%d lines for %d connections", got, n)
	}
	ask(t, c, "a", "still alive")
}

// rawCodec sends and receives bytes unchanged.
type rawCodec struct{}

func (rawCodec) Marshal(v any) ([]byte, error)   { return v.([]byte), nil }
func (rawCodec) Unmarshal(b []byte, v any) error { *(v.(*[]byte)) = b; return nil }
func (rawCodec) Name() string                    { return "proto" }

var _ encoding.Codec = rawCodec{}

// TestMalformedFramesAreLoggedOnce covers frames of an authenticated peer that no member sends.
func TestMalformedFramesAreLoggedOnce(t *testing.T) {
	if isolated(t) {
		return
	}
	ca := newAuthority(t, "ours")
	log, lines := newLog()
	c := start(t, actorFunc(echo), &grain.Options{TLS: ca.member(t), Logger: log})
	cert, key := ca.issue(t, nil)
	creds := credentials.NewTLS(ca.client(t, cert, key))
	batch := func(b *remote.MessageBatch) *remote.RemoteMessage {
		return &remote.RemoteMessage{MessageType: &remote.RemoteMessage_MessageBatch{MessageBatch: b}}
	}
	secret := "user content"
	named := func(typeName string, serializer int32) *remote.RemoteMessage {
		return batch(&remote.MessageBatch{TypeNames: []string{typeName}, Targets: []string{"node"}, Envelopes: []*remote.MessageEnvelope{
			{MessageData: []byte(secret), SerializerId: serializer}}})
	}
	frame := func(m *remote.RemoteMessage) func(context.Context, *grpc.ClientConn) error {
		return func(ctx context.Context, conn *grpc.ClientConn) error {
			return connect(ctx, remote.NewRemotingClient(conn), m)
		}
	}
	raw := func(size int) func(context.Context, *grpc.ClientConn) error {
		return func(ctx context.Context, conn *grpc.ClientConn) error {
			return sendRaw(ctx, conn, "/remote.Remoting/Receive", []byte(strings.Repeat("\xff", size)))
		}
	}
	tests := []struct {
		name   string
		do     func(context.Context, *grpc.ClientConn) error
		code   codes.Code
		reason string
	}{
		{"indexes that lead nowhere", frame(batch(&remote.MessageBatch{Envelopes: []*remote.MessageEnvelope{{TypeId: 7, Target: 9}}})), codes.InvalidArgument, "malformed batch"},
		{"unknown type", frame(named(secret, 0)), codes.InvalidArgument, "malformed batch"},
		{"body that does not decode", frame(named("google.protobuf.StringValue", 0)), codes.InvalidArgument, "malformed batch"},
		{"JSON that does not decode", frame(named("google.protobuf.StringValue", 1)), codes.InvalidArgument, "malformed batch"},
		{"unknown serializer", frame(named("google.protobuf.StringValue", 9)), codes.InvalidArgument, "malformed batch"},
		{"empty frame", frame(&remote.RemoteMessage{}), codes.InvalidArgument, "malformed frame"},
		{"no connect request", frame(&remote.RemoteMessage{MessageType: &remote.RemoteMessage_ConnectRequest{}}), codes.InvalidArgument, "malformed frame"},
		{"bytes that are no frame", raw(100), codes.Internal, "malformed frame"},
		{"oversized frame", raw(65 << 20), codes.ResourceExhausted, "frame too large"},
		{"unary call", func(ctx context.Context, conn *grpc.ClientConn) error {
			_, err := remote.NewRemotingClient(conn).ListProcesses(ctx, &remote.ListProcessesRequest{})
			return err
		}, codes.Unimplemented, "unary call"},
		{"unknown method", func(ctx context.Context, conn *grpc.ClientConn) error {
			return sendRaw(ctx, conn, "/remote.Remoting/What", []byte("x"))
		}, codes.Unimplemented, "unknown method"},
	}
	for _, tt := range tests {
		lines.Take()
		c.ResetRefusals()
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
		conn, err := grpc.NewClient(c.Address(), grpc.WithTransportCredentials(creds))
		if err != nil {
			t.Fatal(err)
		}
		if err := tt.do(ctx, conn); status.Code(err) != tt.code {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.code)
		}
		conn.Close()
		cancel()
		ask(t, c, "a", "still alive")
		eventually(t, "the log line of "+tt.name, func() bool { return lines.Count("reason=") > 0 })
		if n := strings.Count(lines.String(), "\n"); n != 1 || lines.Count(tt.reason) != 1 || strings.Contains(lines.String(), secret) {
			t.Errorf("%s: want one line with %q:\n%s", tt.name, tt.reason, lines)
		}
	}
}

func sendRaw(ctx context.Context, conn *grpc.ClientConn, method string, body []byte) error {
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method, grpc.ForceCodec(rawCodec{}))
	if err != nil {
		return err
	}
	if err := stream.SendMsg(body); err != nil && err != io.EOF {
		return err
	}
	var answer []byte
	return stream.RecvMsg(&answer)
}

func TestServerOfAnotherAuthorityIsRefused(t *testing.T) {
	if isolated(t) {
		return
	}
	refusesServer(t, newAuthority(t, "ours"), newAuthority(t, "theirs").member(t), "unknown authority")
}

func TestServerWithoutTheNameIsRefused(t *testing.T) {
	if isolated(t) {
		return
	}
	ca := newAuthority(t, "ours")
	cert, key := ca.issue(t, func(c *x509.Certificate) { c.DNSNames = []string{"elsewhere"} })
	f := files(t, ca.pem, cert, key)
	f.Name = "elsewhere"
	refusesServer(t, ca, f, "without the name")
}

func refusesServer(t *testing.T, ca *authority, theirs *grain.TLSFiles, reason string) {
	t.Helper()
	log, lines := newLog()
	m := newHandDriven()
	c := build(t, actorFunc(echo), &grain.Options{TLS: ca.member(t), Membership: m, Logger: log, OwnerWait: testTimeout})
	impostor := build(t, actorFunc(echo), &grain.Options{TLS: theirs})
	for _, n := range []*grain.Cluster{c, impostor} {
		if err := n.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer stop(t, n)
	}
	other := member(t, impostor)
	m.show(m.self, other)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res := make(chan error, 1)
	go func() {
		_, err := c.Request(ctx, ownedBy(other, 1, m.self, other)[0], text("secret"))
		res <- err
	}()
	eventually(t, "the log line", func() bool { return lines.Count("peer refused") > 0 })
	cancel()
	if err := await(t, res, "the request"); err == nil || lines.Count(reason) == 0 {
		t.Errorf("error %v, want one and the reason in the log:\n%s", err, lines)
	}
	if impostor.ActiveCount() != 0 {
		t.Error("the impostor received a message")
	}
}

func member(tb testing.TB, c *grain.Cluster) grain.Member {
	tb.Helper()
	m := grain.Member{ID: c.MemberID(), Weight: 1}
	host, port, err := net.SplitHostPort(c.Address())
	if err != nil {
		tb.Fatal(err)
	}
	m.Host = host
	if _, err := fmt.Sscan(port, &m.Port); err != nil {
		tb.Fatal(err)
	}
	return m
}

func TestInsecureRefusesGarbage(t *testing.T) {
	if isolated(t) {
		return
	}
	log, lines := newLog()
	c := start(t, actorFunc(echo), &grain.Options{Insecure: true, Logger: log})
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	if err := connect(ctx, dial(t, c.Address(), insecure.NewCredentials()), hello()); err != nil {
		t.Errorf("peer refused: %v", err)
	}
	speak(t, c.Address(), nil, []byte("GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n"))
	if lines.Count("no HTTP/2") != 1 || strings.Count(lines.String(), "\n") != 1 {
		t.Errorf("want one line:\n%s", lines)
	}
	ask(t, c, "a", "still alive")
}
