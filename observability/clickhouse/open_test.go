package clickhouse_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/clickhousetest"
	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/observability/clickhouse"
)

func TestOptions(t *testing.T) {
	for name, o := range map[string]clickhouse.Options{
		"no address":     {},
		"empty address":  {Addresses: []string{""}},
		"no port":        {Addresses: []string{"127.0.0.1"}},
		"negative days":  {Addresses: []string{"127.0.0.1:9000"}, TTLDays: -1},
		"too many days":  {Addresses: []string{"127.0.0.1:9000"}, TTLDays: 15_001},
		"address is URL": {Addresses: []string{"http://127.0.0.1:8123/"}},
	} {
		var connect *clickhouse.ConnectError
		if _, err := clickhouse.Open(t.Context(), o); err == nil || errors.As(err, &connect) {
			t.Errorf("Open with %s: got %v, want an error before the first request", name, err)
		}
	}
}

func TestUnreachable(t *testing.T) {
	addresses := []string{noderun.Refusing(t), noderun.Refusing(t)}
	for _, o := range []clickhouse.Options{{Addresses: addresses}, {Addresses: addresses, HTTP: true}} {
		_, err := clickhouse.Open(t.Context(), o)
		var connect *clickhouse.ConnectError
		if !errors.As(err, &connect) {
			t.Fatalf("Open without a server: got %v, want a ConnectError", err)
		}
		for _, word := range append(addresses, "port", "is it running") {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("error lacks %q: %v", word, err)
			}
		}
		if strings.Index(err.Error(), connect.Remedy) > strings.Index(err.Error(), connect.Err.Error()) {
			t.Errorf("got the driver's error before the remedy: %v", err)
		}
	}
}

// TestOtherServer connects to servers with unexpected responses.
func TestOtherServer(t *testing.T) {
	const badRequest, alert = "HTTP/1.1 400 Bad Request\r\n\r\n", "\x15\x03\x01\x00\x02\x02\x46"
	for _, tt := range []struct {
		name, text string
		o          clickhouse.Options
		want       string
	}{
		{"HTTP for native", badRequest, clickhouse.Options{}, "an HTTP server answers there: choose HTTP, or name the port of the native protocol (9000, with TLS 9440)"},
		{"TLS for native", alert, clickhouse.Options{}, "the server wants TLS there"},
		{"no TLS", badRequest, clickhouse.Options{TLS: &tls.Config{MinVersion: tls.VersionTLS12}}, "the server speaks without TLS there"},
		{"no TLS over HTTP", badRequest, clickhouse.Options{HTTP: true, Password: "secret", TLS: &tls.Config{MinVersion: tls.VersionTLS12}}, "the server speaks without TLS there: switch it off, or name the port of the HTTP protocol (8123, with TLS 8443)"},
		{"native for HTTP", "\x00\x0aClickHouse", clickhouse.Options{HTTP: true, Username: "ops", Password: "secret"}, "is this the port of the HTTP protocol (8123, with TLS 8443; the native protocol has 9000 and 9440)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := tt.o
			o.DialTimeout, o.Addresses = 10*time.Second, []string{textServer(t, tt.text)}
			_, err := clickhouse.Open(t.Context(), o)
			var connect *clickhouse.ConnectError
			if !errors.As(err, &connect) || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("Open: got %v, want %q and no password", err, tt.want)
			}
		})
	}
}

// textServer returns the address of a server that sends the same bytes to every client.
func textServer(t *testing.T, message string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer c.Close()
				_, _ = io.WriteString(c, message)
				_, _ = io.Copy(io.Discard, c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		work.Wait()
	})
	return l.Addr().String()
}

// TestOtherProtocol checks that an address of the other protocol gives an error with the ports.
func TestOtherProtocol(t *testing.T) {
	t.Parallel()
	s := clickhousetest.Start(t)
	o := options(t, s, s.Database(t))
	swapped := overHTTP(s, o)
	swapped.HTTP = false
	web := o
	web.HTTP = true
	for _, o := range []clickhouse.Options{swapped, web} {
		o.DialTimeout = 10 * time.Second
		_, err := clickhouse.Open(t.Context(), o)
		var connect *clickhouse.ConnectError
		if !errors.As(err, &connect) || !strings.Contains(err.Error(), "port of the") {
			t.Errorf("Open, HTTP %v, at the port of the other protocol: got %v, want a ConnectError", o.HTTP, err)
		}
	}
}

// TestWrongPassword simulates the response of a server, because not every test engine checks
// passwords.
func TestWrongPassword(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "ops" || password != "wrong" {
			t.Errorf("got user %q and password %q", user, password)
		}
		w.Header().Set("X-ClickHouse-Exception-Code", "516")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte("Code: 516. DB::Exception: ops: Authentication failed: password is incorrect, or there is no user with such name. (AUTHENTICATION_FAILED) (version 26.7.2.1)\n"))
	}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	_, err := clickhouse.Open(t.Context(), clickhouse.Options{Addresses: []string{address}, HTTP: true, Username: "ops", Password: "wrong"})
	var connect *clickhouse.ConnectError
	if !errors.As(err, &connect) || !strings.Contains(err.Error(), "check the user and the password") || !strings.Contains(err.Error(), `"ops"`) {
		t.Errorf("Open with a wrong password: got %v, want a ConnectError about the password", err)
	}
	if strings.Contains(err.Error(), "wrong") {
		t.Errorf("error contains the password: %v", err)
	}
}

func TestOpenEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := clickhouse.Open(ctx, clickhouse.Options{Addresses: []string{noderun.Refusing(t)}}); !errors.Is(err, context.Canceled) {
		t.Errorf("Open with a canceled context: got %v", err)
	}
}

// TestFailover checks that both protocols use the first host that answers. One before it accepts
// connections but sends nothing.
func TestFailover(t *testing.T) {
	t.Parallel()
	s := clickhousetest.Start(t)
	o := options(t, s, s.Database(t))
	for _, o := range []clickhouse.Options{o, overHTTP(s, o)} {
		o.Addresses = append([]string{noderun.Refusing(t), textServer(t, "")}, o.Addresses...)
		o.DialTimeout = 5 * time.Second
		write(t, migrated(t, o), traffic(1, 1))
	}
}

// TestTLS connects by both protocols through a TLS proxy, and checks that an untrusted certificate is
// rejected.
func TestTLS(t *testing.T) {
	s := clickhousetest.Start(t)
	identity := httptest.NewTLSServer(http.NotFoundHandler())
	defer identity.Close()
	roots := x509.NewCertPool()
	roots.AddCert(identity.Certificate())
	o := options(t, s, s.Database(t))
	for _, o := range []clickhouse.Options{o, overHTTP(s, o)} {
		l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: identity.TLS.Certificates, MinVersion: tls.VersionTLS12})
		if err != nil {
			t.Fatal(err)
		}
		o.Addresses = []string{newRelay(t, l, o.Addresses[0]).address()}
		o.TLS = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
		write(t, migrated(t, o), traffic(1, 1))

		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		var untrusted *tls.CertificateVerificationError
		if _, err := clickhouse.Open(t.Context(), o); !errors.As(err, &untrusted) {
			t.Errorf("Open, HTTP %v, with an untrusted certificate: got %v", o.HTTP, err)
		}
	}
}
