package bench

import (
	"bufio"
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
	// maxAnswer bounds an answer that is kept, in bytes.
	maxAnswer = 64 << 20
	// maxIdle is less than the time after which servers close a connection at rest:
	// a request that meets the end of its connection would count as a failure.
	maxIdle = 2 * time.Second
)

// pool is a client of one server for whole answers. It keeps connections open, and
// a request has one to itself and stays in its goroutine. The transport of net/http
// hands every request to two goroutines more, and in a run that shares two
// processors with the server that is a good part of what is measured. It is safe
// for concurrent use and starts no goroutines.
type pool struct {
	at *url.URL

	mu   sync.Mutex
	idle []*conn // The one used last is the last.
}

// conn belongs to one goroutine while it is not idle.
type conn struct {
	net.Conn
	in   *bufio.Reader
	out  []byte
	used time.Time
}

// answer is a whole one. The body is the caller's.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// ask sends a request and reads the answer to its end. The path is encoded; headers
// are whole lines beside those of every request.
func (p *pool) ask(ctx context.Context, method, path, headers, body string) (*answer, error) {
	c, err := p.take(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) }) // It ends what is under way.
	a, reusable, err := c.exchange(method, path, p.at.Host, headers, body)
	if undisturbed := stop(); undisturbed && reusable && err == nil {
		p.keep(c)
	} else {
		_ = c.Close() // Nothing more is expected of it.
	}
	return a, err
}

// take returns an idle connection, or a new one.
func (p *pool) take(ctx context.Context) (*conn, error) {
	if c := p.rested(); c != nil {
		return c, nil
	}
	var d interface {
		DialContext(ctx context.Context, network, address string) (net.Conn, error)
	} = &net.Dialer{}
	port := p.at.Port()
	if p.at.Scheme == "https" {
		d = &tls.Dialer{}
		if port == "" {
			port = "443"
		}
	} else if port == "" {
		port = "80"
	}
	c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(p.at.Hostname(), port))
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, in: bufio.NewReader(c)}, nil
}

// rested returns the connection that was used last, or nil.
func (p *pool) rested() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle)
	if n == 0 {
		return nil
	}
	c := p.idle[n-1]
	if time.Since(c.used) >= maxIdle {
		p.closeAll() // The others were used even longer ago.
		return nil
	}
	p.idle = p.idle[:n-1]
	return c
}

func (p *pool) keep(c *conn) {
	c.used = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, c)
}

// close ends all idle connections. The pool can still be used.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeAll()
}

// closeAll needs the lock.
func (p *pool) closeAll() {
	for _, c := range p.idle {
		_ = c.Close() // Nothing is under way.
	}
	p.idle = nil
}

// exchange sends a request and reads its answer, and tells whether another may
// follow on the connection.
func (c *conn) exchange(method, path, host, headers, body string) (_ *answer, reusable bool, err error) {
	b := append(append(append(c.out[:0], method...), ' '), path...)
	b = append(append(append(b, " HTTP/1.1\r\nHost: "...), host...), "\r\n"...)
	if b = append(b, headers...); body != "" {
		b = append(b, "Content-Type: application/json\r\nContent-Length: "...)
		b = append(strconv.AppendInt(b, int64(len(body)), 10), "\r\n"...)
	}
	c.out = append(append(b, "\r\n"...), body...)
	if _, err := c.Write(c.out); err != nil {
		return nil, false, err
	}
	resp, err := http.ReadResponse(c.in, &http.Request{Method: method})
	if err != nil {
		return nil, false, err
	}
	a := &answer{status: resp.StatusCode, header: resp.Header}
	if a.body, err = readBody(resp); err != nil {
		return nil, false, fmt.Errorf("read the body: %w", err)
	}
	return a, !resp.Close, nil
}

// readBody reads to the end, into one piece where the length is known.
func readBody(resp *http.Response) (b []byte, err error) {
	switch n := resp.ContentLength; {
	case n > maxAnswer:
	case n > 0 && resp.Request.Method != http.MethodHead:
		b = make([]byte, n)
		_, err = io.ReadFull(resp.Body, b)
		return b, err
	default:
		if b, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1)); err != nil || len(b) <= maxAnswer {
			return b, err
		}
	}
	return nil, errors.New("it is too large")
}
