package clients_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
)

// startControl lets tests restart a server over HTTP until the test ends: POST /kill sends SIGKILL,
// POST /stop shuts it down, POST /start starts it. Each responds 204 when done, or the error.
func startControl(t *testing.T, s *server) string {
	mux := http.NewServeMux()
	for path, act := range map[string]func() error{
		"POST /kill": func() error { return s.end(syscall.SIGKILL) },
		"POST /stop": func() error { return s.end(syscall.SIGTERM) },
		"POST /start": func() error {
			_, err := s.start()
			return err
		},
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			if err := act(); err != nil {
				http.Error(w, fmt.Sprintf("%v\n%s", err, tail(s.log.String())), http.StatusInternalServerError)
				return
			}
			w.WriteHeader(http.StatusNoContent)
		})
	}
	control := httptest.NewServer(mux)
	t.Cleanup(control.Close)
	return control.URL
}

// steadyAddress returns an address that stays free while its server is down. Its port is outside the
// ephemeral range, which the many connections of the tests use.
func steadyAddress(t *testing.T) string {
	t.Helper()
	const first, count, tries = 20_000, 10_000, 100
	var last error
	for range tries {
		address := fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(count))
		l, err := net.Listen("tcp", address)
		if err != nil {
			last = err
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return address
	}
	t.Fatalf("find a free port: %v", last)
	return ""
}
