package node

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/config"
)

func TestDevIsForThisMachine(t *testing.T) {
	const ok, no = http.StatusTeapot, http.StatusForbidden
	conf := &config.Server{PublicURL: "https://Tunnel.example.com/v1", CORS: config.CORS{Origins: []string{"https://app.example.com"}}}
	for _, tt := range []struct {
		name, method, host string
		headers            http.Header
		status             int
	}{
		{"name", "POST", "localhost:5173", nil, ok},
		{"name in other letters, no port", "POST", "LocalHost", nil, ok},
		{"address", "GET", "127.0.0.1:5173", nil, ok},
		{"another loopback address", "GET", "127.8.8.8:80", nil, ok},
		{"IPv6 address", "POST", "[::1]:5173", nil, ok},
		{"the address it came to", "POST", "192.0.2.7:5173", nil, ok},
		{"another address", "GET", "192.0.2.8:5173", nil, no},
		{"a name that leads here", "GET", "rebound.example.com:5173", nil, no},
		{"a name that begins like it", "GET", "localhost.example.com", nil, no},
		{"no name", "GET", "", nil, no},
		{"the public URL", "POST", "tunnel.example.com", http.Header{"Origin": {"https://tunnel.example.com"}}, ok},
		{"page of this machine", "POST", "localhost:5173", http.Header{"Origin": {"http://localhost:3000"}}, ok},
		{"page of this machine, by address", "POST", "localhost:5173", http.Header{"Origin": {"http://127.0.0.1:3000"}, "Sec-Fetch-Site": {"cross-site"}}, ok},
		{"configured page", "POST", "localhost:5173", http.Header{"Origin": {"https://app.example.com"}}, ok},
		{"page from elsewhere", "POST", "localhost:5173", http.Header{"Origin": {"https://evil.example"}, "Content-Type": {"text/plain"}}, no},
		{"page from elsewhere that reads", "GET", "localhost:5173", http.Header{"Origin": {"https://evil.example"}}, ok},
		{"page from elsewhere that asks first", "OPTIONS", "localhost:5173", http.Header{"Origin": {"https://evil.example"}}, ok},
		{"page of no origin", "POST", "localhost:5173", http.Header{"Origin": {"null"}}, no},
		{"two origins", "POST", "localhost:5173", http.Header{"Origin": {"http://localhost", "https://evil.example"}}, no},
		{"form from elsewhere", "POST", "localhost:5173", http.Header{"Sec-Fetch-Site": {"cross-site"}}, no},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(tt.method, "/agents/assistant/x/abort", nil)
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 5173}))
			r.Host = tt.host
			for name, values := range tt.headers {
				r.Header[name] = values
			}
			w := httptest.NewRecorder()
			guarded(pageOf{conf: conf, how: manner{program: &cli.Program{}, dev: true}}, teapot()).ServeHTTP(w, r)
			if w.Code != tt.status {
				t.Fatalf("status %d, want %d: %s", w.Code, tt.status, w.Body)
			}
			if w.Code == ok {
				return
			}
			var got struct {
				Error struct{ Type, Message, Details string }
			}
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Error.Type != "forbidden" || !strings.Contains(got.Error.Details, "parley dev") {
				t.Errorf("the answer is %s, %v", w.Body, err)
			}
		})
	}
	// Who serves for others has what asks who they are.
	r := httptest.NewRequest("POST", "http://agents.example.com/x", nil)
	r.Header.Set("Origin", "https://evil.example")
	w := httptest.NewRecorder()
	guarded(pageOf{conf: conf, how: manner{program: &cli.Program{}, dev: false}}, teapot()).ServeHTTP(w, r)
	if w.Code != ok {
		t.Errorf("serve: status %d", w.Code)
	}
}

// TestDevRefusesOtherHosts asks the program itself.
func TestDevRefusesOtherHosts(t *testing.T) {
	n := program.StartDev(t, t.TempDir())
	for _, tt := range []struct {
		host, origin string
		forbidden    bool
	}{
		{"", "", false},
		{"rebound.example.com", "", true},
		{"", "https://evil.example", true},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.Base+"/none/abort", nil)
		if err != nil {
			t.Fatal(err)
		}
		if tt.host != "" {
			r.Host = tt.host
		}
		if tt.origin != "" {
			r.Header.Set("Origin", tt.origin)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if (resp.StatusCode == http.StatusForbidden) != tt.forbidden {
			t.Errorf("host %q, origin %q: status %d", tt.host, tt.origin, resp.StatusCode)
		}
	}
}

// TestServeWarnsOfOpenAddress listens on every address; nobody connects.
func TestServeWarnsOfOpenAddress(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "parley.yaml")
	conf := "listen: 0.0.0.0:0\n" + clitest.DirBucket(dir) + "\nagents: {echo: {model: demo/parrot, mounts: [/echo]}}\n"
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	n := program.Start(t, "serve", "--quiet", "--config", file)
	if err := n.End(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(n.Logs.String(), "whoever reaches this address") {
		t.Errorf("the log is %s", n.Logs)
	}
}

func TestOpenAddressIsWarnedOf(t *testing.T) {
	for name, tt := range map[string]struct {
		ip   net.IP
		auth config.Auth
		warn bool
	}{
		"every address":          {net.IPv4zero, config.Auth{}, true},
		"every address, IPv6":    {net.IPv6unspecified, config.Auth{}, true},
		"one that others reach":  {net.IPv4(192, 0, 2, 7), config.Auth{}, true},
		"with a token":           {net.IPv4zero, config.Auth{Bearer: "token"}, false},
		"loopback":               {net.IPv4(127, 0, 0, 1), config.Auth{}, false},
		"loopback, IPv6":         {net.IPv6loopback, config.Auth{}, false},
		"loopback, with a token": {net.IPv6loopback, config.Auth{Bearer: "token"}, false},
	} {
		var out bytes.Buffer
		log, err := cli.NewLogger(&out, "text", true, nil)
		if err != nil {
			t.Fatal(err)
		}
		warnOpen(log, &net.TCPAddr{IP: tt.ip, Port: 80}, tt.auth, "set auth")
		if got := strings.Contains(out.String(), "level=WARN") && strings.Contains(out.String(), "set auth"); got != tt.warn {
			t.Errorf("%s: warned %v, want %v: %s", name, got, tt.warn, out.String())
		}
	}
}
