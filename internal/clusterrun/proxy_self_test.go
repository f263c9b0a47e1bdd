package clusterrun_test

import (
	"bufio"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// startEcho starts a server that echoes every line and reports it on heard.
func startEcho(t *testing.T) (address string, received <-chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 100)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				r := bufio.NewReader(c)
				for {
					line, err := r.ReadString('\n')
					if err != nil {
						return
					}
					lines <- line
					if _, err := c.Write([]byte(line)); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return l.Addr().String(), lines
}

// proxied starts a proxy before an echo server with two callers.
func proxied(t *testing.T) (p *proxy, paths map[string]*path, received <-chan string) {
	t.Helper()
	target, received := startEcho(t)
	paths = map[string]*path{}
	for _, ip := range []string{"127.0.0.31", "127.0.0.32"} {
		paths[ip] = newPath(newValve(), newValve())
	}
	p, err := newProxy("127.0.0.1:0", target, func(caller net.IP) *path { return paths[caller.String()] })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p, paths, received
}

// talker is a caller whose results do not depend on timing: only absent data makes it wait long.
type talker struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func dial(t *testing.T, from, to string) *talker {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.Dial("tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &talker{t, c, bufio.NewReader(c)}
}

// wantReset connects where the proxy resets the connection, possibly before dial returns.
func wantReset(t *testing.T, from, to string) {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.Dial("tcp", to)
	if err != nil {
		return
	}
	t.Cleanup(func() { c.Close() })
	(&talker{t, c, bufio.NewReader(c)}).broken()
}

func (k *talker) send(line string) {
	k.t.Helper()
	if _, err := k.conn.Write([]byte(line + "\n")); err != nil {
		k.t.Fatal(err)
	}
}

func (k *talker) receives(want string) {
	k.t.Helper()
	_ = k.conn.SetReadDeadline(time.Now().Add(liveness))
	if got, err := k.in.ReadString('\n'); err != nil || got != want+"\n" {
		k.t.Fatalf("got %q, %v; want %q", got, err, want)
	}
}

// silent checks that no data arrives for a moment. An open proxy would fail it nearly always.
func (k *talker) silent() {
	k.t.Helper()
	_ = k.conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if got, err := k.in.ReadString('\n'); !errors.Is(err, os.ErrDeadlineExceeded) {
		k.t.Fatalf("got %q, %v; want no data", got, err)
	}
}

func (k *talker) broken() {
	k.t.Helper()
	_ = k.conn.SetReadDeadline(time.Now().Add(liveness))
	if got, err := k.in.ReadString('\n'); !errors.Is(err, syscall.ECONNRESET) {
		k.t.Fatalf("got %q, %v; want a reset", got, err)
	}
}

func TestProxyCarries(t *testing.T) {
	p, _, _ := proxied(t)
	for _, from := range []string{"127.0.0.31", "127.0.0.32"} {
		k := dial(t, from, p.address())
		k.send("hello")
		k.receives("hello")
	}
	wantReset(t, "127.0.0.33", p.address())
	if got := p.callers(); len(got) != 1 {
		t.Errorf("unknown callers %v, want one", got)
	}
}

func TestProxyCuts(t *testing.T) {
	p, paths, _ := proxied(t)
	one, two := dial(t, "127.0.0.31", p.address()), dial(t, "127.0.0.32", p.address())
	for _, k := range []*talker{one, two} {
		k.send("hello")
		k.receives("hello")
	}
	paths["127.0.0.31"].set(false)
	one.broken()
	wantReset(t, "127.0.0.31", p.address())
	two.send("still")
	two.receives("still")
	paths["127.0.0.31"].set(true)
	again := dial(t, "127.0.0.31", p.address())
	again.send("again")
	again.receives("again")
}

func TestProxyHoldsRequests(t *testing.T) {
	p, paths, received := proxied(t)
	k := dial(t, "127.0.0.31", p.address())
	other := dial(t, "127.0.0.32", p.address())
	paths["127.0.0.31"].up.set(false)
	k.send("one")
	k.silent()
	other.send("two")
	other.receives("two")
	if got := <-received; got != "two\n" {
		t.Errorf("target received %q", got)
	}
	late := dial(t, "127.0.0.31", p.address())
	late.send("three")
	late.silent()
	paths["127.0.0.31"].up.set(true)
	k.receives("one")
	late.receives("three")
}

func TestProxyHoldsAnswers(t *testing.T) {
	p, paths, received := proxied(t)
	k := dial(t, "127.0.0.31", p.address())
	paths["127.0.0.31"].down.set(false)
	k.send("one")
	if got := <-received; got != "one\n" {
		t.Errorf("target received %q", got)
	}
	k.silent()
	paths["127.0.0.31"].down.set(true)
	k.receives("one")
	// A held connection does not prevent close.
	paths["127.0.0.31"].down.set(false)
	k.send("two")
	<-received
	p.close()
	k.broken()
}
