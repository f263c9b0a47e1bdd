package http_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/proc"
)

// nginxWithin bounds the time of nginx and a stream behind it.
const nginxWithin = 20 * time.Second

// bareProxy is a configuration of nginx with default proxy settings. The verbs are a folder, an
// address and the server.
const bareProxy = `daemon off;
master_process off;
pid %[1]s/nginx.pid;
events {}
http {
	access_log off;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	server {
		listen %[2]s;
		location / { proxy_pass %[3]s; }
	}
}
`

// nginx starts nginx in front of a server and returns its URL. It stops with the test.
func nginx(t *testing.T, server string) string {
	t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil { // on Debian it is only in root's PATH
		program = "/usr/sbin/nginx"
	}
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("nginx not found: apt-get install nginx-light (%v)", err)
	}
	reaper, dir := proc.ReaperOf(t), t.TempDir()
	addresses, err := proc.FreeAddresses(proc.Host(), 1)
	if err != nil {
		t.Fatal(err)
	}
	config, log := filepath.Join(dir, "nginx.conf"), filepath.Join(dir, "error.log")
	if err := os.WriteFile(config, fmt.Appendf(nil, bareProxy, dir, addresses[0], server), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := reaper.Start(proc.Command{Args: []string{program, "-p", dir, "-e", log, "-c", config}, Log: filepath.Join(dir, "out.log"), Mixed: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), nginxWithin)
	defer cancel()
	url := "http://" + addresses[0]
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/none", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(r)
		if err == nil {
			res.Body.Close()
			return url
		}
		if p.HasEnded() || ctx.Err() != nil {
			t.Fatalf("nginx did not start: %v\n%s%s", err, proc.Tail(log, 4<<10), p.Printed())
		}
		time.Sleep(5 * time.Millisecond) // until it listens
	}
}

// TestEventStreamsBehindNginx reads each kind of event stream through nginx with default settings. By
// default nginx buffers responses unless a header disables it.
// covers: protocol/120 conversation, beta/47 beta_run
func TestEventStreamsBehindNginx(t *testing.T) {
	h := newRuns(t, nil)
	h.create()
	run := h.begin("report", "k", `{}`)
	server := httptest.NewServer(h.h)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	proxy := nginx(t, server.URL)
	records := func() {
		h.turn(c1)
		wantStatus(t, h.post("/c1", hello), http.StatusAccepted)
	}
	took := func() { h.took(run, "open") }
	h.called(run)
	for _, tt := range []struct {
		name, path, first string
		happens           func() // run once the client has read everything so far
		next              string
	}{
		{"conversation", "/agents/assistant/c1?view=updates&offset=-1&live=sse", `"conversation-reset"`, records, `"delta":"hi `},
		{"beta_conversation", "/beta/agents/assistant/c1?offset=-1&live=sse", `"message_end"`, records, `hi `},
		{"run", "/runs/" + string(run) + "?offset=-1&live=sse", `"run_start"`, took, `"open"`},
		{"beta_run", "/beta/runs/" + string(run) + "?offset=now&live=sse", `"streamNextOffset"`, took, `"open"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), nginxWithin)
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, proxy+tt.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			lines := bufio.NewScanner(res.Body)
			lines.Buffer(nil, 1<<20)
			until := func(want string) {
				t.Helper()
				var got []string
				for lines.Scan() {
					if got = append(got, lines.Text()); strings.Contains(lines.Text(), want) {
						return
					}
				}
				t.Fatalf("%s: %v; got %q, want a line with %s", tt.path, lines.Err(), got, want)
			}
			until(tt.first)
			tt.happens()
			until(tt.next)
		})
	}
}
