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

// stranger is somebody at the port between nodes who is not a node.
type stranger struct {
	t    *testing.T
	ip   string // Its own, so that the log of the node tells it from others.
	node *node
}

func (s *stranger) dial() net.Conn {
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

// says sends bytes and waits until the node has ended the connection.
func (s *stranger) says(c net.Conn, data []byte) {
	s.t.Helper()
	_, _ = c.Write(data) // It may be refused before it was sent.
	answer, err := io.ReadAll(c)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		s.t.Errorf("the node still listens, and has said %q", answer)
	}
}

// config is how the stranger speaks TLS. It trusts anybody.
func (s *stranger) config(pairs ...keyPair) *tls.Config {
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

// knocks shakes hands, and expects to be shown the door then or at the first word.
func (s *stranger) knocks(pairs ...keyPair) {
	s.t.Helper()
	c := tls.Client(s.dial(), s.config(pairs...))
	if err := c.HandshakeContext(s.t.Context()); err != nil {
		return
	}
	var answer [1]byte
	if n, err := c.Read(answer[:]); err == nil {
		s.t.Errorf("a node talks to somebody whom it cannot know: %d bytes", n)
	}
}

// calls makes a call with the certificate of a node and expects a refusal.
func (s *stranger) calls(pair keyPair, method string, frame []byte, open bool) {
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
	said := make(chan struct{})
	go func() {
		defer close(said)
		_, _ = end.Write(frame) // Nobody may read all of it.
		if !open {
			end.Close()
		}
	}()
	defer func() {
		body.Close()
		<-said
	}()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return // Refused all the same.
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body) // The trailer says it.
	status := resp.Header.Get("Grpc-Status") + resp.Trailer.Get("Grpc-Status")
	if resp.StatusCode == http.StatusOK && (status == "0" || status == "") {
		s.t.Errorf("%s is answered with %v, grpc-status %q", method, resp.Status, status)
	}
}

// frame is a message of gRPC that says it has so many bytes.
func frame(size uint32, data []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, size), data...)
}

// noise is the same bytes at every run.
func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b) // It never fails.
	return b
}

const receive = "/remote.Remoting/Receive"

// attacks are what strangers try, by names.
func attacks(t *testing.T, ca *authority, own keyPair) map[string]func(s *stranger) {
	t.Helper()
	other := newAuthority(t)
	foreign, nameless := other.sign(t, "foreign", clusterName), ca.sign(t, "nameless", "somebody")
	tlsSays := func(s *stranger, data []byte) {
		c := tls.Client(s.dial(), s.config(own))
		if err := c.HandshakeContext(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
		s.says(c, data)
	}
	return map[string]func(s *stranger){
		"noise":                            func(s *stranger) { s.says(s.dial(), noise(1<<20)) },
		"plain HTTP":                       func(s *stranger) { s.says(s.dial(), []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")) },
		"plain gRPC":                       func(s *stranger) { s.says(s.dial(), []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")) },
		"it hangs up at once":              func(s *stranger) { s.dial().Close() },
		"no certificate":                   func(s *stranger) { s.knocks() },
		"another authority":                func(s *stranger) { s.knocks(foreign) },
		"the name of another":              func(s *stranger) { s.knocks(nameless) },
		"a member that talks noise":        func(s *stranger) { tlsSays(s, noise(1<<10)) },
		"a member that breaks HTTP/2":      func(s *stranger) { tlsSays(s, append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), noise(1<<10)...)) },
		"a member that makes unary calls":  func(s *stranger) { s.calls(own, "/remote.Remoting/ListProcesses", frame(0, nil), false) },
		"a member that calls what is not":  func(s *stranger) { s.calls(own, "/remote.Remoting/Nothing", frame(0, nil), false) },
		"a member with an oversized frame": func(s *stranger) { s.calls(own, receive, frame(1<<31, noise(1<<10)), true) },
		"a member with a frame of noise":   func(s *stranger) { s.calls(own, receive, frame(1<<10, noise(1<<10)), true) },
		"a member with an empty frame":     func(s *stranger) { s.calls(own, receive, frame(0, nil), true) },
	}
}

// TestStrangers lets everybody knock at the port between nodes who should not be let
// in. The node says so, once each, and goes on.
func TestStrangers(t *testing.T) {
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
		s := &stranger{node: target, ip: fmt.Sprintf("127.0.0.%d", 101+len(lines))}
		line := regexp.MustCompile(`(?m)^.*level=WARN msg="peer refused" remote=` + regexp.QuoteMeta(s.ip) + `:.*$`)
		lines[name] = line
		t.Run(name, func(t *testing.T) {
			s.t = t
			attack(s)
			for began := time.Now(); len(line.FindAll(p.Printed(), -1)) == 0; {
				if time.Since(began) > liveness/4 || noderun.Pause(t.Context(), 10*time.Millisecond) != nil {
					t.Errorf("no line of the log tells of it:\n%s", p.Printed())
					break
				}
			}
			m := newSent("after-"+s.ip, "tokens=2")
			if err := client.send(t.Context(), dice, "stranger", m); err != nil || m.Receipt == nil {
				t.Errorf("a message after it: %v", err)
			}
		})
	}
	if now := target.Running(); now != p {
		t.Errorf("the node has ended")
	}
	for _, n := range c.nodes {
		n.Leave()
	}
	c.close()
	for name, line := range lines {
		if got := line.FindAllString(string(p.Printed()), -1); len(got) > 1 {
			t.Errorf("%s: %d lines of the log, want one:\n%s", name, len(got), strings.Join(got, "\n"))
		}
	}
	if flaws := c.All(); len(flaws) > 0 {
		t.Errorf("%s\n%s", strings.Join(flaws, "\n"), c.Tails())
	}
}
