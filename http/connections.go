package http

import (
	"container/list"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// connectionsQuiet is the minimum time between two warnings about exhausted connections.
const connectionsQuiet = time.Minute

// connections is a listener with a bounded number of connections, because each uses a file descriptor
// of the process. When all are in use, a new connection replaces the one that has been idle for
// longest. If none is idle, it waits in the accept queue of the system.
type connections struct {
	net.Listener
	// most is the bound, including the connection being accepted; 0 means none.
	most int
	log  *slog.Logger

	mu   sync.Mutex
	free sync.Cond // signalled when a slot may be free, or the listener is closed
	// taken counts the used slots, including the one that Accept holds; open counts the connections.
	taken, open int
	warned      time.Time
	// spare are the connections without a request so far. Clients open some in advance, and Shutdown
	// would wait for them.
	spare map[net.Conn]bool
	// idle are the connections between requests, longest first; at is the index.
	idle   list.List
	at     map[net.Conn]*list.Element
	ending bool // spare connections are closed
	closed bool // no connection is accepted
}

func newConnections(l net.Listener, most int, log *slog.Logger) *connections {
	c := &connections{Listener: l, most: most, log: log, spare: map[net.Conn]bool{}, at: map[net.Conn]*list.Element{}}
	c.free.L = &c.mu
	return c
}

// count returns the number of open connections.
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

// enter waits for a slot.
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
			c.log.Warn("connection limit reached; raise ulimit -n", "connections", c.most)
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

// drop closes an idle connection. The caller holds mu, which drop releases temporarily.
func (c *connections) drop(conn net.Conn) {
	c.remove(conn)
	c.mu.Unlock()
	defer c.mu.Lock()
	_ = conn.Close()
}

// remove deletes a connection from spare and idle. The caller holds mu.
func (c *connections) remove(conn net.Conn) {
	delete(c.spare, conn)
	if e := c.at[conn]; e != nil {
		c.idle.Remove(e)
		delete(c.at, conn)
	}
}

// changed is the server's ConnState hook.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(conn)
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

// endSpare closes current and future spare connections.
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

// accepted is a connection that frees its slot on Close.
type accepted struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *accepted) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
