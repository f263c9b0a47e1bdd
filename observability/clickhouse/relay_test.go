package clickhouse_test

import (
	"net"
	"sync"
	"testing"
)

// relay forwards bytes between clients and a server, and can hold back the server's.
type relay struct {
	listener net.Listener
	work     sync.WaitGroup

	mu           sync.Mutex
	conns        []net.Conn
	silence      chan struct{} // Not nil while the server's bytes are held back; closed to end that.
	left         int           // Client bytes until then.
	asked        func()        // Called when bytes are held back.
	unresponsive bool          // Also stop reading from clients in that time.
}

// newRelay forwards connections of a listener to a server.
func newRelay(t *testing.T, l net.Listener, server string) *relay {
	r := &relay{listener: l}
	r.work.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				continue
			}
			r.mu.Lock()
			r.conns = append(r.conns, client, up)
			r.mu.Unlock()
			r.work.Go(func() { r.pass(up, client, false) })
			r.work.Go(func() { r.pass(client, up, true) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		r.serve()
		r.mu.Lock()
		for _, c := range r.conns {
			c.Close()
		}
		r.mu.Unlock()
		r.work.Wait()
	})
	return r
}

func (r *relay) address() string { return r.listener.Addr().String() }

// hush holds back the server's bytes after so many client bytes, and calls asked when there are some.
func (r *relay) hush(after int, asked func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.silence, r.left, r.asked = make(chan struct{}), after, asked
}

// deafen makes the relay stop reading from clients too.
func (r *relay) deafen() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unresponsive = true
}

// serve ends the hold.
func (r *relay) serve() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.silence != nil {
		close(r.silence)
		r.silence = nil
	}
}

func (r *relay) pass(to, from net.Conn, hushable bool) {
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		r.mu.Lock()
		silence, asked := r.silence, r.asked
		if !hushable {
			r.left -= n
		}
		quiet := (hushable || r.unresponsive) && silence != nil && r.left <= 0
		r.mu.Unlock()
		if quiet {
			asked()
			<-silence
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
