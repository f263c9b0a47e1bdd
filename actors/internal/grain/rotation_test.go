package grain_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"

	"github.com/parleyrun/parley/actors/internal/grain"
	"github.com/parleyrun/parley/actors/internal/wire"
)

// polite is a peer that answers the first frame of each stream and then ends it without an error.
type polite struct {
	remote.UnimplementedRemotingServer
	streams chan struct{}
}

func (p *polite) Receive(s remote.Remoting_ReceiveServer) error {
	if _, err := s.Recv(); err != nil {
		return err
	}
	p.streams <- struct{}{}
	return s.Send(&remote.RemoteMessage{MessageType: &remote.RemoteMessage_ConnectResponse{ConnectResponse: &remote.ConnectResponse{}}})
}

// TestStreamThatEndsWithoutAnErrorIsAnEnd: the link is made again.
func TestStreamThatEndsWithoutAnErrorIsAnEnd(t *testing.T) {
	if isolated(t) {
		return
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &polite{streams: make(chan struct{}, 100)}
	s := grpc.NewServer()
	remote.RegisterRemotingServer(s, p)
	defer s.Stop()
	m := newHandDriven()
	down := make(chan string, 100)
	c := start(t, actorFunc(echo), &grain.Options{Insecure: true, Membership: m, LinkDown: func(a string) { down <- a }})
	go s.Serve(l) // After start, which replaces gRPC's global logger.
	m.show(m.self, grain.Member{ID: "polite", Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port, Weight: 1})
	await(t, p.streams, "the first stream")
	for began := time.Now(); len(down) == 0 || len(p.streams) == 0; {
		if time.Since(began) > testTimeout {
			t.Fatalf("after the end of the link: %d LinkDown calls and %d new streams, want both", len(down), len(p.streams))
		}
		limited, end := context.WithTimeout(t.Context(), time.Second)
		_, err := c.AskNode(limited, l.Addr().String(), &wire.Ping{})
		end()
		t.Logf("ask: %v", err)
	}
}

// TestTLSFilesThatBecomeValidAreUsed: files that fail at first may work later without a change: a
// certificate that is not valid yet by this node's clock, or a key whose owner is set after the copy,
// which changes neither size nor time.
func TestTLSFilesThatBecomeValidAreUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := newAuthority(t, "ours")
		f := ca.member(t)
		log, lines := newLog()
		c := build(t, actorFunc(echo), &grain.Options{TLS: f, Logger: log})
		first := c.Certificate()
		soon := time.Now().Add(3 * time.Second)
		cert, key := ca.issue(t, func(c *x509.Certificate) { c.NotBefore = soon })
		write(t, f.Cert, cert)
		write(t, f.Key, key)
		if !same(first, c.Certificate()) {
			t.Fatal("a certificate that is not valid yet is used")
		}
		for time.Now().Before(soon) {
			c.Certificate()
			time.Sleep(50 * time.Millisecond)
		}
		if same(first, c.Certificate()) {
			t.Errorf("the valid new pair is not used:\n%s", lines)
		}
		if n := lines.Count("TLS reload failed"); n != 1 {
			t.Errorf("%d warnings, want 1:\n%s", n, lines)
		}
	})
}

// TestReleaseAsksTheOwnerBefore: the previous owner of an identity must be asked, even if many members
// join at once, as with an autoscaler.
func TestReleaseAsksTheOwnerBefore(t *testing.T) {
	if isolated(t) {
		return
	}
	m := newHandDriven()
	c := start(t, actorFunc(echo), &grain.Options{Membership: m})
	c.StopPings()
	at := func(i int) grain.Member {
		return grain.Member{ID: fmt.Sprint(i), Host: "10.0.0.1", Port: 7000 + i, Weight: 1}
	}
	before := grain.View{Members: []grain.Member{at(0), at(1), at(2)}}
	after := grain.View{Members: append([]grain.Member{m.self}, before.Members...)}
	for i := 3; i < 9; i++ {
		after.Members = append(after.Members, at(i))
	}
	m.show(before.Members...)
	m.show(after.Members...)
	moved, missed := 0, 0
	for i := range 10_000 {
		id := fmt.Sprintf("conv-%d", i)
		if now, _ := after.Owner(id); now != m.self {
			continue
		}
		was, _ := before.Owner(id)
		moved++
		found := false
		for _, a := range c.MayRun(id) {
			found = found || a == was.Address()
		}
		if !found {
			missed++
		}
	}
	if missed > 0 {
		t.Errorf("%d identities moved here when 7 members joined 3; %d previous owners are not asked", moved, missed)
	}
}
