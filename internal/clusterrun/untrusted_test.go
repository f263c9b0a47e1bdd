package clusterrun_test

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/noderun"
)

// untrusted is a caller at the port between nodes that is not a node.
type untrusted struct {
	t    *testing.T
	ip   string // a separate address identifies it in the log of the node
	node *node
}

func (s *untrusted) dial() net.Conn {
	s.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(s.ip)}}
	c, err := d.DialContext(s.t.Context(), "tcp", s.node.peers)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(liveness))
	return c
}

// sends sends bytes and waits until the node has closed the connection.
func (s *untrusted) sends(c net.Conn, data []byte) {
	s.t.Helper()
	_, _ = c.Write(data) // It may be refused before it was sent.
	answer, err := io.ReadAll(c)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		s.t.Errorf("node keeps the connection open and sent %q", answer)
	}
}

// config returns the TLS configuration of the caller. It trusts any peer.
func (s *untrusted) config(pairs ...keyPair) *tls.Config {
	s.t.Helper()
	c := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}, ServerName: clusterName}
	for _, p := range pairs {
		cert, err := tls.LoadX509KeyPair(p.cert, p.key)
		if err != nil {
			s.t.Fatal(err)
		}
		c.Certificates = append(c.Certificates, cert)
	}
	return c
}

// handshakes performs a handshake, and expects a refusal of the handshake or of the first bytes.
func (s *untrusted) handshakes(pairs ...keyPair) {
	s.t.Helper()
	c := tls.Client(s.dial(), s.config(pairs...))
	if err := c.HandshakeContext(s.t.Context()); err != nil {
		return
	}
	var answer [1]byte
	if n, err := c.Read(answer[:]); err == nil {
		s.t.Errorf("node sent %d bytes to an untrusted peer", n)
	}
}

// calls makes a call with the certificate of a node and expects a refusal.
func (s *untrusted) calls(pair keyPair, method string, frame []byte, open bool) {
	s.t.Helper()
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	transport := &http.Transport{
		Protocols: protocols,
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c := tls.Client(s.dial(), s.config(pair))
			return c, c.HandshakeContext(ctx)
		},
	}
	defer transport.CloseIdleConnections()
	body, end := io.Pipe()
	defer body.Close()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "https://"+s.node.peers+method, body)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("TE", "trailers")
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = end.Write(frame) // The node may not read all of it.
		if !open {
			end.Close()
		}
	}()
	defer func() {
		body.Close()
		<-sent
	}()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return // also a refusal
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body) // The trailer has the status.
	status := resp.Header.Get("Grpc-Status") + resp.Trailer.Get("Grpc-Status")
	if resp.StatusCode == http.StatusOK && (status == "0" || status == "") {
		s.t.Errorf("%s: got %v, grpc-status %q, want a refusal", method, resp.Status, status)
	}
}

// frame returns a gRPC message with a length prefix of size.
func frame(size uint32, data []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, size), data...)
}

// noise returns fixed pseudo-random bytes.
func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

const receive = "/remote.Remoting/Receive"

// attacks returns the attacks by name.
func attacks(t *testing.T, ca *authority, own keyPair) map[string]func(s *untrusted) {
	t.Helper()
	other := newAuthority(t)
	foreign, nameless := other.sign(t, "foreign", clusterName), ca.sign(t, "nameless", "somebody")
	tlsSends := func(s *untrusted, data []byte) {
		c := tls.Client(s.dial(), s.config(own))
		if err := c.HandshakeContext(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
		s.sends(c, data)
	}
	return map[string]func(s *untrusted){
		"noise":                                 func(s *untrusted) { s.sends(s.dial(), noise(1<<20)) },
		"plain HTTP":                            func(s *untrusted) { s.sends(s.dial(), []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")) },
		"plain gRPC":                            func(s *untrusted) { s.sends(s.dial(), []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")) },
		"closes at once":                        func(s *untrusted) { s.dial().Close() },
		"no certificate":                        func(s *untrusted) { s.handshakes() },
		"another authority":                     func(s *untrusted) { s.handshakes(foreign) },
		"the name of another":                   func(s *untrusted) { s.handshakes(nameless) },
		"a member that sends noise":             func(s *untrusted) { tlsSends(s, noise(1<<10)) },
		"a member that breaks HTTP/2":           func(s *untrusted) { tlsSends(s, append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), noise(1<<10)...)) },
		"a member that makes unary calls":       func(s *untrusted) { s.calls(own, "/remote.Remoting/ListProcesses", frame(0, nil), false) },
		"a member that calls an unknown method": func(s *untrusted) { s.calls(own, "/remote.Remoting/Nothing", frame(0, nil), false) },
		"a member with an oversized frame":      func(s *untrusted) { s.calls(own, receive, frame(1<<31, noise(1<<10)), true) },
		"a member with a frame of noise":        func(s *untrusted) { s.calls(own, receive, frame(1<<10, noise(1<<10)), true) },
		"a member with an empty frame":          func(s *untrusted) { s.calls(own, receive, frame(0, nil), true) },
	}
}

// Untrusted callers connect to the port between nodes. The node refuses each with one log line.
func TestUntrustedPeers(t *testing.T) {
	file := program(t)
	c := newCluster(t, clusterOptions{nodes: 2, sound: true, program: func(int) string { return file }})
	if !c.Start(t.Context()) {
		t.Fatalf("%s\n%s", c.Tails(), strings.Join(c.All(), "\n"))
	}
	target := c.nodes[0]
	p := target.Running()
	client := &client{c}
	defer c.Client.Close()
	dice := rand.New(rand.NewPCG(1, 1))
	lines := map[string]*regexp.Regexp{}
	for name, attack := range attacks(t, c.ca, c.ca.sign(t, "stolen", clusterName)) {
		s := &untrusted{node: target, ip: fmt.Sprintf("127.0.0.%d", 101+len(lines))}
		line := regexp.MustCompile(`(?m)^.*level=WARN msg="peer refused" remote=` + regexp.QuoteMeta(s.ip) + `:.*$`)
		lines[name] = line
		t.Run(name, func(t *testing.T) {
			s.t = t
			attack(s)
			for began := time.Now(); len(line.FindAll(p.Printed(), -1)) == 0; {
				if time.Since(began) > liveness/4 || noderun.Pause(t.Context(), 10*time.Millisecond) != nil {
					t.Errorf("no log line about it:\n%s", p.Printed())
					break
				}
			}
			m := newSent("after-"+s.ip, "tokens=2")
			if err := client.send(t.Context(), dice, "untrusted", m); err != nil || m.Receipt == nil {
				t.Errorf("send message afterwards: %v", err)
			}
		})
	}
	if now := target.Running(); now != p {
		t.Errorf("node ended")
	}
	for _, n := range c.nodes {
		n.Leave()
	}
	c.close()
	for name, line := range lines {
		if got := line.FindAllString(string(p.Printed()), -1); len(got) > 1 {
			t.Errorf("%s: %d log lines, want 1:\n%s", name, len(got), strings.Join(got, "\n"))
		}
	}
	if flaws := c.All(); len(flaws) > 0 {
		t.Errorf("%s\n%s", strings.Join(flaws, "\n"), c.Tails())
	}
}
