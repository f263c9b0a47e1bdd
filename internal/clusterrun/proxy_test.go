package clusterrun_test

import (
	"errors"
	"io"
	"net"
	"sync"
)

// valve is one direction of a path. A closed valve holds the data, like a network that loses every
// packet. After it opens, all data arrives.
type valve struct {
	mu   sync.Mutex
	open chan struct{} // closed while the valve is open
}

func newValve() *valve {
	v := &valve{open: make(chan struct{})}
	close(v.open)
	return v
}

func (v *valve) set(open bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	select {
	case <-v.open:
		if !open {
			v.open = make(chan struct{})
		}
	default:
		if open {
			close(v.open)
		}
	}
}

// pass waits until the valve is open. It returns false if over ends first.
func (v *valve) pass(over <-chan struct{}) bool {
	for {
		v.mu.Lock()
		open := v.open
		v.mu.Unlock()
		select {
		case <-open:
			return true
		default:
		}
		select {
		case <-open:
		case <-over:
			return false
		}
	}
}

// path carries the connections of one caller. It has a valve for each direction, and can be cut as a
// whole.
type path struct {
	up, down *valve

	mu    sync.Mutex
	cut   bool
	conns map[*pair]bool
}

func newPath(up, down *valve) *path { return &path{up: up, down: down, conns: map[*pair]bool{}} }

// set cuts the path, which resets all connections and refuses new ones, or restores it.
func (p *path) set(open bool) {
	p.mu.Lock()
	p.cut = !open
	var reset []*pair
	if p.cut {
		for c := range p.conns {
			reset = append(reset, c)
		}
	}
	p.mu.Unlock()
	for _, c := range reset {
		c.reset()
	}
}

// add registers a connection, unless the path is cut.
func (p *path) add(c *pair) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		return false
	}
	p.conns[c] = true
	return true
}

func (p *path) remove(c *pair) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// pair is a connection from a caller and its connection to the target.
type pair struct {
	caller, callee *net.TCPConn
	over           chan struct{}
	once           sync.Once
}

// reset resets both connections.
func (c *pair) reset() {
	c.once.Do(func() {
		close(c.over)
		for _, conn := range []*net.TCPConn{c.caller, c.callee} {
			_ = conn.SetLinger(0) // RST instead of FIN: the stream is incomplete.
			_ = conn.Close()
		}
	})
}

// carry copies one direction through a valve, and forwards its end.
func (c *pair) carry(from, to *net.TCPConn, v *valve) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if !v.pass(c.over) {
			return
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				c.reset()
				return
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			_ = to.CloseWrite() // The connection may be reset.
			return
		case err != nil:
			c.reset()
			return
		}
	}
}

// proxy is a TCP proxy controlled by a test.
type proxy struct {
	listener *net.TCPListener
	target   string
	route    func(caller net.IP) *path // nil for an unknown caller
	wg       sync.WaitGroup

	mu               sync.Mutex
	pairs            map[*pair]bool
	closed           bool
	untrustedCallers []string
}

func newProxy(listen, target string, route func(caller net.IP) *path) (*proxy, error) {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l.(*net.TCPListener), target: target, route: route, pairs: map[*pair]bool{}}
	p.wg.Go(p.serve)
	return p, nil
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) serve() {
	for {
		conn, err := p.listener.AcceptTCP()
		if err != nil {
			return // The listener is closed.
		}
		p.wg.Go(func() { p.connect(conn) })
	}
}

// connect carries a connection until both directions have ended.
func (p *proxy) connect(caller *net.TCPConn) {
	refuse := func() {
		_ = caller.SetLinger(0)
		_ = caller.Close()
	}
	at := p.route(caller.RemoteAddr().(*net.TCPAddr).IP)
	if at == nil {
		p.mu.Lock()
		p.untrustedCallers = append(p.untrustedCallers, caller.RemoteAddr().String())
		p.mu.Unlock()
		refuse()
		return
	}
	callee, err := net.Dial("tcp", p.target)
	if err != nil {
		refuse() // as the target would have done
		return
	}
	c := &pair{caller: caller, callee: callee.(*net.TCPConn), over: make(chan struct{})}
	defer c.reset()
	if !p.hold(c) {
		return
	}
	defer p.release(c)
	if !at.add(c) {
		return
	}
	defer at.remove(c)
	var wg sync.WaitGroup
	wg.Go(func() { c.carry(caller, c.callee, at.up) })
	wg.Go(func() { c.carry(c.callee, caller, at.down) })
	wg.Wait()
	c.once.Do(func() { // Both directions have ended normally.
		close(c.over)
		_ = caller.Close()
		_ = callee.Close()
	})
}

func (p *proxy) hold(c *pair) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.pairs[c] = true
	}
	return !p.closed
}

func (p *proxy) release(c *pair) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pairs, c)
}

// callers returns the addresses of unknown callers.
func (p *proxy) callers() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.untrustedCallers...)
}

// close ends the proxy and all its connections.
func (p *proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	var reset []*pair
	for c := range p.pairs {
		reset = append(reset, c)
	}
	p.mu.Unlock()
	for _, c := range reset {
		c.reset()
	}
	p.wg.Wait()
}
