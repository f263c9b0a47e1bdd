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

// polite is a peer that ends each stream without an error after it has greeted.
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

// TestStreamThatEndsWithoutAnErrorIsAnEnd: the link must be made again.
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
	go s.Serve(l) // Not before: a start replaces the one logger of gRPC.
	m.show(m.self, grain.Member{ID: "polite", Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port, Weight: 1})
	await(t, p.streams, "the first stream")
	for began := time.Now(); len(down) == 0 || len(p.streams) == 0; {
		if time.Since(began) > patience {
			t.Fatalf("the link has ended: %d told, %d streams since", len(down), len(p.streams))
		}
		limited, end := context.WithTimeout(t.Context(), time.Second)
		_, err := c.AskNode(limited, l.Addr().String(), &wire.Ping{})
		end()
		t.Logf("ask: %v", err)
	}
}

// TestTLSFilesThatBecomeGoodAreTaken: what did not work at the first look may work later with
// the same files: a certificate that is not valid yet by this node's clock, or a key whose
// owner is set after it was copied (that changes neither size nor time).
func TestTLSFilesThatBecomeGoodAreTaken(t *testing.T) {
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
			t.Fatal("a certificate that is not valid yet is in force")
		}
		for time.Now().Before(soon) {
			c.Certificate()
			time.Sleep(50 * time.Millisecond)
		}
		if same(first, c.Certificate()) {
			t.Errorf("the new pair is valid and not in force:\n%s", lines)
		}
		if n := lines.Count("changed TLS files do not work"); n != 1 {
			t.Errorf("%d warnings, want 1:\n%s", n, lines)
		}
	})
}

// TestReleaseAsksTheOwnerBefore: whoever owned an identity before a change must be asked, also
// when many members come at once, as an autoscaler lets them.
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
		t.Errorf("of %d identities that moved here from 3 members as 7 came, %d owners before are not asked", moved, missed)
	}
}
