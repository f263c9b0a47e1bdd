package server

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/s3front"
)

// The clock of the bucket differs: so much that it rejects signed requests, or so little that the
// server starts with a warning.
func TestServeWithAWrongClock(t *testing.T) {
	t.Setenv("TEST_PARLEY_CLOCK", "id")
	for name, tt := range map[string]struct {
		ahead  time.Duration
		refuse bool
		want   string
	}{
		"an hour":       {time.Hour, true, "the clock of this machine differs from the store's by 1h0m"},
		"three minutes": {3 * time.Minute, false, "clock differs from the bucket's"},
	} {
		front := s3front.New(clitest.NewStore(t))
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Date", time.Now().Add(-tt.ahead).UTC().Format(http.TimeFormat))
			if tt.refuse {
				w.WriteHeader(http.StatusForbidden)
				_, _ = w.Write([]byte("<Error><Code>RequestTimeTooSkewed</Code><Message>The difference is too large.</Message></Error>"))
				return
			}
			front.ServeHTTP(w, r)
		}))
		t.Cleanup(server.Close)
		file := clitest.EchoConfig(t, t.TempDir(), fmt.Sprintf("bucket: {endpoint: %q, name: %s, secure: false, accessKeyEnv: TEST_PARLEY_CLOCK, secretKeyEnv: TEST_PARLEY_CLOCK}",
			server.Listener.Addr(), s3front.Bucket))
		ctx, stop := context.WithTimeout(t.Context(), clitest.Timeout)
		defer stop()
		var mu sync.Mutex
		var output bytes.Buffer
		code := program.Run(ctx, []string{"serve", "--config", file}, &bytes.Buffer{}, clitest.WriterFunc(func(p []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			output.Write(p)
			if !tt.refuse && strings.Contains(output.String(), tt.want) {
				stop()
			}
			return len(p), nil
		}))
		mu.Lock()
		if !strings.Contains(output.String(), tt.want) || tt.refuse && (code != 1 || !strings.Contains(output.String(), "synchronize")) {
			t.Errorf("%s: exit %d, %s; want %q", name, code, output.String(), tt.want)
		}
		mu.Unlock()
	}
}
