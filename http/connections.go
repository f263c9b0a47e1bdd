package http

import (
	"container/list"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// connectionsQuiet is the least between two warnings that all connections are in use.
const connectionsQuiet = time.Minute

// connections are what a server listens on and the clients it has accepted there, so
// many at a time and no more: each holds a descriptor of the process, and models and
// the bucket need some too. Who comes when all are in use takes the place of the
// connection that has been idle for longest, or waits in the system's queue.
type connections struct {
	net.Listener
	// most is the bound, the one that is waited for included; 0 is none.
	most int
	log  *slog.Logger

	mu   sync.Mutex
	free sync.Cond // signalled when there may be a place, or never will be
	// taken are the places, of which Accept holds one while it waits; open are the
	// connections.
	taken, open int
	warned      time.Time
	// spare are the connections that have not sent a request yet. Clients open some in
	// advance, and a server's Shutdown takes them for requests under way.
	spare map[net.Conn]bool
	// idle are those between two requests, longest first; at says where.
	idle   list.List
	at     map[net.Conn]*list.Element
	ending bool // spare ones are closed
	closed bool // none is accepted
}

func newConnections(l net.Listener, most int, log *slog.Logger) *connections {
	c := &connections{Listener: l, most: most, log: log, spare: map[net.Conn]bool{}, at: map[net.Conn]*list.Element{}}
	c.free.L = &c.mu
	return c
}

// count returns how many connections are open.
func (c *connections) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}

// Accept implements net.Listener.
func (c *connections) Accept() (net.Conn, error) {
	if err := c.enter(); err != nil {
		return nil, err
	}
	conn, err := c.Listener.Accept()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.taken--
		return nil, err
	}
	c.open++
	return &accepted{Conn: conn, leave: sync.OnceFunc(c.leave)}, nil
}

// enter waits for a place.
func (c *connections) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.most > 0 && c.taken >= c.most && !c.closed {
		if longest := c.idle.Front(); longest != nil {
			c.drop(longest.Value.(net.Conn))
			continue
		}
		if now := time.Now(); now.Sub(c.warned) >= connectionsQuiet {
			c.warned = now
			c.log.Warn("all connections are in use, more clients wait; allow the process more files for more (ulimit -n)", "connections", c.most)
		}
		c.free.Wait()
	}
	if c.closed {
		return net.ErrClosed
	}
	c.taken++
	return nil
}

func (c *connections) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken--
	c.open--
	c.free.Signal()
}

// drop closes an idle connection. The caller holds mu, which it gives up meanwhile.
func (c *connections) drop(conn net.Conn) {
	c.forget(conn)
	c.mu.Unlock()
	defer c.mu.Lock()
	_ = conn.Close()
}

// forget notes that a connection is neither spare nor idle. The caller holds mu.
func (c *connections) forget(conn net.Conn) {
	delete(c.spare, conn)
	if e := c.at[conn]; e != nil {
		c.idle.Remove(e)
		delete(c.at, conn)
	}
}

// changed is a server's ConnState.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(conn)
	switch {
	case state == http.StateIdle:
		c.at[conn] = c.idle.PushBack(conn)
		c.free.Signal()
	case state != http.StateNew:
	case c.ending:
		c.drop(conn)
	default:
		c.spare[conn] = true
	}
}

// endSpare closes the spare connections, and those that still come.
func (c *connections) endSpare() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ending = true
	for len(c.spare) > 0 {
		for conn := range c.spare {
			c.drop(conn)
			break
		}
	}
}

// Close implements net.Listener.
func (c *connections) Close() error {
	c.mu.Lock()
	c.closed = true
	c.free.Broadcast()
	c.mu.Unlock()
	return c.Listener.Close()
}

// accepted is a connection which leaves its place when it is closed.
type accepted struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *accepted) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
