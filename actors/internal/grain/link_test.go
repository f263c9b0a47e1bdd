package grain_test

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/parleyrun/parley/actors/internal/grain"
	"github.com/parleyrun/parley/actors/internal/wire"
	"github.com/parleyrun/parley/internal/proc"
)

// TestMemberComesBackAtItsAddress: a process that is killed and restarted at its address, with another
// ID, is reached immediately, repeatedly and under load.
func TestMemberComesBackAtItsAddress(t *testing.T) {
	if isolated(t) {
		return
	}
	ca := newAuthority(t, "ours")
	m := newHandDriven()
	down := make(chan string, 1000)
	c := start(t, actorFunc(echo), &grain.Options{
		TLS: ca.member(t), Membership: m, RequestTimeout: testTimeout,
		LinkDown: func(address string) {
			select {
			case down <- address:
			default:
			}
		},
	})
	theirs := ca.member(t)
	n := startNode(t, net.JoinHostPort(proc.Host(), "0"), theirs)
	address := n.self.Address()
	id := ownedBy(n.self, 1, m.self, n.self)[0]
	for range 5 {
		n.show(t, m.self, n.self)
		m.show(m.self, n.self)
		began := time.Now()
		if got := ask(t, c, id, "id"); got != n.self.ID {
			t.Errorf("answered by %q, want %q", got, n.self.ID)
		}
		t.Logf("reached %v after its view", time.Since(began))
		eventually(t, "the pings", func() bool { reached, others := c.Reachable(); return len(reached) == 1 && others == 1 })
		for len(down) > 0 {
			<-down
		}
		n.kill()
		if got := await(t, down, "the end of the link"); got != address {
			t.Errorf("link to %s went down, want %s", got, address)
		}
		n = startNode(t, address, theirs)
	}
	m.show(m.self)
	if reached, others := c.Reachable(); len(reached) > 0 || others != 0 {
		t.Errorf("%v of %d reachable, want none", reached, others)
	}
}

// TestCallEndsWithItsLink: a request that waits at a killed process ends immediately, before the
// member leaves the view.
func TestCallEndsWithItsLink(t *testing.T) {
	if isolated(t) {
		return
	}
	ca := newAuthority(t, "ours")
	m := newHandDriven()
	c := build(t, actorFunc(echo), &grain.Options{TLS: ca.member(t), Membership: m, RequestTimeout: 10 * testTimeout})
	c.ConnectFor(3 * time.Second)
	run(t, c)
	n := startNode(t, "127.0.0.1:0", ca.member(t))
	n.show(t, m.self, n.self)
	m.show(m.self, n.self)
	id := ownedBy(n.self, 1, m.self, n.self)[0]
	eventually(t, "the link", func() bool { reached, _ := c.Reachable(); return len(reached) == 1 })
	ask(t, c, id, "id")
	c.StopPings()
	res := make(chan error, 1)
	go func() {
		_, err := c.Request(t.Context(), id, text("no reply"))
		res <- err
	}()
	eventually(t, "the call", func() bool { return c.CallsTo(n.self.Address()) == 1 })
	n.kill()
	if err := await(t, res, "the request"); !errors.Is(err, grain.ErrOutcomeUnknown) {
		t.Errorf("error %v, want %v", err, grain.ErrOutcomeUnknown)
	}
	brief, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := c.Request(brief, id, text("id")); !errors.Is(err, grain.ErrNoOwner) {
		t.Errorf("error %v, want %v", err, grain.ErrNoOwner)
	}
	if _, err := c.AskNode(t.Context(), n.self.Address(), &wire.Ping{}); !errors.Is(err, grain.ErrNoOwner) {
		t.Errorf("unreachable node: error %v, want %v", err, grain.ErrNoOwner)
	}
}

func TestStopDoesNotWaitForAHungPeer(t *testing.T) {
	if isolated(t) {
		return
	}
	ca := newAuthority(t, "ours")
	m := newHandDriven()
	c := start(t, actorFunc(echo), &grain.Options{TLS: ca.member(t), Membership: m})
	n := startNode(t, "127.0.0.1:0", ca.member(t))
	n.show(t, m.self, n.self)
	id := ownedBy(n.self, 1, m.self, n.self)[0]
	m.show(m.self, n.self)
	ask(t, c, id, "id")
	n.signal(t, syscall.SIGSTOP)
	hung := closedMember(t) // and a peer whose link never connects
	hung.Host, hung.ID = "127.0.0.1", "hung"
	m.show(m.self, n.self, hung)
	big := &wire.Push{Lines: make([]byte, 1<<20)}
	for range 64 { // more than the stream buffers
		c.SendNode(n.self.Address(), big)
		c.SendNode(hung.Address(), big)
	}
	silent, err := net.Dial("tcp", c.Address()) // a client in the middle of its handshake
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	began := time.Now()
	stop(t, c)
	t.Logf("stopped after %v with %d links", time.Since(began), c.OpenLinks())
	eventually(t, "the end of the links", func() bool { return c.OpenLinks() == 0 }) // Stop waits a second for it.
}

func TestAskNode(t *testing.T) {
	if isolated(t) {
		return
	}
	keys := newKeys(t)
	received := make(chan string, 1)
	views := [2]*handDriven{newHandDriven(), newHandDriven()}
	handle := func(m proto.Message) proto.Message {
		switch m := m.(type) {
		case *wire.TipRequest:
			if m.GetConversation() == "panic" {
				panic("user content")
			}
			return &wire.Tip{Known: true, Seq: int64(len(m.GetConversation()))}
		case *wire.Push:
			received <- m.GetConversation()
		}
		return nil
	}
	nodes := [2]*grain.Cluster{
		build(t, actorFunc(echo), &grain.Options{Membership: views[0]}),
		build(t, actorFunc(echo), &grain.Options{Membership: views[1], Node: handle}),
	}
	for _, n := range nodes {
		n.UseKeys(keys)
		if _, err := n.AskNode(t.Context(), "127.0.0.1:1", &wire.Ping{}); !errors.Is(err, grain.ErrNoOwner) {
			t.Errorf("before Start: %v, want %v", err, grain.ErrNoOwner)
		}
		if err := n.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stop(t, n) })
	}
	for _, v := range views {
		v.show(views[0].self, views[1].self)
	}
	a, b := nodes[0], nodes[1]
	for _, from := range nodes { // over the wire, and locally
		reply, err := from.AskNode(t.Context(), b.Address(), &wire.TipRequest{Conversation: "four"})
		if err != nil {
			t.Fatal(err)
		}
		if got := reply.(*wire.Tip); !got.GetKnown() || got.GetSeq() != 4 {
			t.Errorf("reply %v, want 4", got)
		}
		from.SendNode(b.Address(), &wire.Push{Conversation: "pushed"})
		if got := await(t, received, "the message"); got != "pushed" {
			t.Errorf("received %q, want pushed", got)
		}
		if _, err := from.AskNode(t.Context(), b.Address(), &wire.TipRequest{Conversation: "panic"}); !errors.Is(err, grain.ErrPanicked) {
			t.Errorf("panicking handler: %v, want %v", err, grain.ErrPanicked)
		}
	}
	if _, err := b.AskNode(t.Context(), a.Address(), &wire.TipRequest{}); !errors.Is(err, grain.ErrNoOwner) {
		t.Errorf("no handler: %v, want %v", err, grain.ErrNoOwner)
	}
	if _, err := a.AskNode(t.Context(), "127.0.0.1:1", &wire.TipRequest{}); !errors.Is(err, grain.ErrNoOwner) {
		t.Errorf("no member: %v, want %v", err, grain.ErrNoOwner)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.AskNode(ctx, b.Address(), &wire.TipRequest{Conversation: "four"}); err == nil {
		t.Error("AskNode succeeded with an ended context")
	}
	if _, err := a.AskNode(t.Context(), b.Address(), nil); err == nil {
		t.Error("nil message is accepted")
	}
}

// TestListenHereAdvertiseThere: a member behind another address is known by its advertised address,
// and its outgoing connections have its listen address as source.
func TestListenHereAdvertiseThere(t *testing.T) {
	if isolated(t) {
		return
	}
	keys := newKeys(t)
	gate, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	views := [2]*handDriven{newHandDriven(), newHandDriven()}
	free, err := proc.FreeAddresses(proc.Host(), 1)
	if err != nil {
		t.Fatal(err)
	}
	behind := free[0]
	nodes := [2]*grain.Cluster{
		build(t, actorFunc(echo), &grain.Options{Membership: views[0], Listen: "127.0.0.2:0"}),
		build(t, actorFunc(echo), &grain.Options{Membership: views[1], Listen: behind, Advertise: gate.Addr().String()}),
	}
	for _, n := range nodes {
		n.UseKeys(keys)
		if err := n.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stop(t, n) })
	}
	from := make(chan net.Addr, 100)
	go forward(gate, behind, from)
	t.Cleanup(func() { gate.Close() })
	if nodes[1].Address() != gate.Addr().String() || views[1].self.Address() != gate.Addr().String() {
		t.Errorf("known as %s and %s, want %s", nodes[1].Address(), views[1].self.Address(), gate.Addr())
	}
	for _, v := range views {
		v.show(views[0].self, views[1].self)
	}
	for i := range nodes {
		id := ownedBy(views[i].self, 1, views[0].self, views[1].self)[0]
		for _, n := range nodes {
			ask(t, n, id, "m")
		}
	}
	if got := await(t, from, "a connection").(*net.TCPAddr).IP.String(); got != "127.0.0.2" {
		t.Errorf("dialled from %s, want 127.0.0.2", got)
	}
}

// forward proxies connections until gate closes.
func forward(gate net.Listener, to string, from chan<- net.Addr) {
	for {
		in, err := gate.Accept()
		if err != nil {
			return
		}
		from <- in.RemoteAddr()
		out, err := net.Dial("tcp", to)
		if err != nil {
			in.Close()
			continue
		}
		for _, c := range [][2]net.Conn{{in, out}, {out, in}} {
			go func() {
				_, _ = io.Copy(c[0], c[1])
				c[0].Close()
			}()
		}
	}
}
