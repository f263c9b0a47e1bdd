package server

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

// homeModes are the servers without a token: dev, and serve on a loopback address or on all addresses.
var homeModes = map[string]pageOf{
	"dev":   {how: manner{program: &cli.Program{}, dev: true}},
	"serve": {how: manner{program: &cli.Program{}}, local: true},
	"open":  {how: manner{program: &cli.Program{}}},
}

// homeStatus returns the status of a request to a server and checks the envelope of a 403.
func homeStatus(t *testing.T, p pageOf, method, host string, headers http.Header) int {
	t.Helper()
	r := httptest.NewRequest(method, "/agents/assistant/x/abort", nil)
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 5173}))
	r.Host = host
	for name, values := range headers {
		r.Header[name] = values
	}
	w := httptest.NewRecorder()
	guarded(p, teapot()).ServeHTTP(w, r)
	if w.Code == http.StatusForbidden {
		var got struct {
			Error struct{ Type, Message, Details string }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Error.Type != "forbidden" || !strings.Contains(got.Error.Details, "without a token") {
			t.Errorf("got body %s, %v; want an error of type forbidden with its remedy", w.Body, err)
		}
	}
	return w.Code
}

func TestServersWithoutAToken(t *testing.T) {
	const ok, no = http.StatusTeapot, http.StatusForbidden
	conf := &config.Server{PublicURL: "https://Tunnel.example.com/v1", CORS: config.CORS{Origins: []string{"https://app.example.com"}}}
	for _, tt := range []struct {
		name, method, host string
		headers            http.Header
		local, open        int // status on a loopback listener, and on a public one
	}{
		{"name", "POST", "localhost:5173", nil, ok, ok},
		{"name in other letters, no port", "POST", "LocalHost", nil, ok, ok},
		{"address", "GET", "127.0.0.1:5173", nil, ok, ok},
		{"another loopback address", "GET", "127.8.8.8:80", nil, ok, ok},
		{"IPv6 address", "POST", "[::1]:5173", nil, ok, ok},
		{"the address it came to", "POST", "192.0.2.7:5173", nil, ok, ok},
		{"another address", "GET", "192.0.2.8:5173", nil, no, ok},
		{"a name that leads here", "GET", "rebound.example.com:5173", nil, no, ok},
		{"a name that begins like it", "GET", "localhost.example.com", nil, no, ok},
		{"no name", "GET", "", nil, no, ok},
		{"the public URL", "POST", "tunnel.example.com", http.Header{"Origin": {"https://tunnel.example.com"}}, ok, ok},
		{"page of this machine", "POST", "localhost:5173", http.Header{"Origin": {"http://localhost:3000"}}, ok, ok},
		{"page of this machine, by address", "POST", "localhost:5173", http.Header{"Origin": {"http://127.0.0.1:3000"}, "Sec-Fetch-Site": {"cross-site"}}, ok, ok},
		{"configured page", "POST", "localhost:5173", http.Header{"Origin": {"https://app.example.com"}}, ok, ok},
		{"page from elsewhere", "POST", "localhost:5173", http.Header{"Origin": {"https://evil.example"}, "Content-Type": {"text/plain"}}, no, no},
		{"page from elsewhere that reads", "GET", "localhost:5173", http.Header{"Origin": {"https://evil.example"}}, ok, ok},
		{"page from elsewhere that asks first", "OPTIONS", "localhost:5173", http.Header{"Origin": {"https://evil.example"}}, ok, ok},
		{"page of no origin", "POST", "localhost:5173", http.Header{"Origin": {"null"}}, no, no},
		{"two origins", "POST", "localhost:5173", http.Header{"Origin": {"http://localhost", "https://evil.example"}}, no, no},
		{"form from elsewhere", "POST", "localhost:5173", http.Header{"Sec-Fetch-Site": {"cross-site"}}, no, no},
		{"page of another name that leads here", "POST", "rebound.example.com:5173", http.Header{"Origin": {"http://rebound.example.com:5173"}}, no, ok},
	} {
		for mode, page := range homeModes {
			t.Run(mode+"/"+tt.name, func(t *testing.T) {
				page.conf = conf
				want := tt.local
				if mode == "open" {
					want = tt.open
				}
				if got := homeStatus(t, page, tt.method, tt.host, tt.headers); got != want {
					t.Errorf("got status %d, want %d", got, want)
				}
			})
		}
	}
}

// With a token, the name and the origin do not matter.
func TestServersWithAToken(t *testing.T) {
	page := homeModes["serve"]
	page.conf = &config.Server{Auth: config.Auth{Bearer: "token"}}
	h := http.Header{"Origin": {"https://evil.example"}, "Authorization": {"Bearer token"}}
	if got := homeStatus(t, page, "POST", "agents.example.com", h); got != http.StatusTeapot {
		t.Errorf("got status %d, want %d", got, http.StatusTeapot)
	}
}

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
	if !strings.Contains(n.Logs.String(), "address is open without authentication") {
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
