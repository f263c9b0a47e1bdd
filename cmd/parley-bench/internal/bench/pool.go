package bench

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

const (
	// maxAnswer limits an answer that is kept, in bytes.
	maxAnswer = 64 << 20
	// maxIdle is below the idle timeout of servers: a request on a connection closed by the server
	// would count as a failure.
	maxIdle = 2 * time.Second
)

// pool is an HTTP client of one server that reads whole answers. It keeps connections open. A request
// uses one connection exclusively and stays in its goroutine. The transport of net/http uses two more
// goroutines per request, and in a run that shares two processors with the server that would distort
// the measurement. A pool is safe for concurrent use and starts no goroutines.
type pool struct {
	at      *url.URL
	headers string // complete header lines of every request

	mu   sync.Mutex
	idle []*conn // the most recently used one last
}

type conn struct {
	net.Conn
	in   *bufio.Reader
	out  []byte
	used time.Time
}

// ask sends a request and reads the answer to its end. The path is already encoded. The caller owns
// the returned body.
func (p *pool) ask(ctx context.Context, method, path, body string) (*http.Response, []byte, error) {
	c := p.rested()
	if c == nil {
		fresh, err := p.dial(ctx)
		if err != nil {
			return nil, nil, err
		}
		c = &conn{Conn: fresh, in: bufio.NewReader(fresh)}
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) }) // An expired deadline interrupts reads and writes.
	resp, b, err := c.exchange(method, path, p.at.Host, p.headers, body)
	if undisturbed := stop(); undisturbed && err == nil && !resp.Close {
		c.used = time.Now()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.idle = append(p.idle, c)
	} else {
		_ = c.Close() // The connection is discarded.
	}
	return resp, b, err
}

func (p *pool) dial(ctx context.Context) (net.Conn, error) {
	port, dial := "80", (&net.Dialer{}).DialContext
	if p.at.Scheme == "https" {
		port, dial = "443", (&tls.Dialer{}).DialContext
	}
	return dial(ctx, "tcp", net.JoinHostPort(p.at.Hostname(), cmp.Or(p.at.Port(), port)))
}

func (p *pool) rested() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle) - 1
	if n < 0 || time.Since(p.idle[n].used) >= maxIdle {
		p.closeAll() // The others were idle for even longer.
		return nil
	}
	c := p.idle[n]
	p.idle = p.idle[:n]
	return c
}

// close closes all idle connections. The pool can still be used.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeAll()
}

func (p *pool) closeAll() {
	for _, c := range p.idle {
		_ = c.Close() // The connection is idle.
	}
	p.idle = nil
}

func (c *conn) exchange(method, path, host, headers, body string) (*http.Response, []byte, error) {
	b := append(append(append(c.out[:0], method...), ' '), path...)
	b = append(append(append(b, " HTTP/1.1\r\nHost: "...), host...), "\r\n"...)
	if b = append(b, headers...); body != "" {
		b = append(b, "Content-Type: application/json\r\nContent-Length: "...)
		b = append(strconv.AppendInt(b, int64(len(body)), 10), "\r\n"...)
	}
	c.out = append(append(b, "\r\n"...), body...)
	if _, err := c.Write(c.out); err != nil {
		return nil, nil, err
	}
	resp, err := http.ReadResponse(c.in, &http.Request{Method: method})
	if err != nil {
		return nil, nil, err
	}
	answer, err := readBody(resp)
	if err != nil {
		return nil, nil, fmt.Errorf("read the body: %w", err)
	}
	return resp, answer, nil
}

// readBody reads to the end, with one allocation if the length is known.
func readBody(resp *http.Response) ([]byte, error) {
	if resp.ContentLength <= maxAnswer {
		var b bytes.Buffer
		b.Grow(int(max(resp.ContentLength, 0)) + bytes.MinRead)
		if _, err := b.ReadFrom(io.LimitReader(resp.Body, maxAnswer+1)); err != nil || b.Len() <= maxAnswer {
			return b.Bytes(), err
		}
	}
	return nil, errors.New("body is too large")
}
