package clickhousetest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/proc"
)

// variable names a running server.
const variable = "PARLEY_TEST_CLICKHOUSE"

const (
	startTimeout = 2 * time.Minute       // Only matters when the start fails.
	startPause   = 20 * time.Millisecond // Interval between polls for an answer.
	tailBytes    = 8 << 10               // Bytes of the server's output that a failed test prints.
)

// Server is a ClickHouse server.
type Server struct {
	native string // host:port
	web    string // host:port
	user   *url.Userinfo
	query  url.Values // Other parameters of the DSN of an external server.
	ends   bool       // It and its databases end with the test that started it.
}

// Own is a server owned by one test.
type Own struct {
	Server
	dir     string   // Folder of the data and the output.
	args    []string // Command line.
	reaper  *proc.Reaper
	process *proc.Process // nil while it is stopped.
}

// common is the server that the tests of this process share.
var common struct {
	sync.Mutex
	server *Own
}

// Start returns the server that all tests of the process share; each uses its own databases. Without a
// server it fails the test.
func Start(t testing.TB) *Server {
	t.Helper()
	if dsn := os.Getenv(variable); dsn != "" {
		s, err := named(dsn)
		if err != nil {
			t.Fatalf("%v", err)
		}
		return s
	}
	common.Lock()
	defer common.Unlock()
	if common.server == nil {
		reaper, err := proc.StartReaper()
		if err != nil {
			t.Fatalf("%v", err)
		}
		common.server = start(t, reaper)
	}
	common.server.showTo(t)
	return &common.server.Server
}

// StartOwn returns a server owned by the test, which ends with it.
func StartOwn(t testing.TB) *Own {
	t.Helper()
	s := start(t, proc.ReaperOf(t))
	s.ends = true
	s.showTo(t)
	return s
}

// start runs a server until the reaper is closed.
func start(t testing.TB, reaper *proc.Reaper) *Own {
	t.Helper()
	s := &Own{reaper: reaper}
	s.user = url.User("default")
	free, err := proc.FreeAddresses(proc.Host(), 2)
	if err == nil {
		s.native, s.web = free[0], free[1]
		s.dir, err = reaper.TempDir("parley-clickhouse-")
	}
	if err == nil {
		s.args, err = command(t.Context(), s.dir, s.native, s.web)
	}
	if err == nil {
		ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
		defer cancel()
		err = s.Restart(ctx)
	}
	if err != nil {
		t.Fatalf("start a ClickHouse server: %v", errors.Join(err, reaper.Close()))
	}
	return s
}

// showTo prints the output of the server if the test failed.
func (s *Own) showTo(t testing.TB) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the server at %s:\n%s", s.native, proc.Tail(s.log(), tailBytes))
		}
	})
}

func (s *Own) log() string { return filepath.Join(s.dir, "output") }

// Stop kills the server like a crash and waits for its end.
func (s *Own) Stop() {
	if s.process != nil {
		s.process.Kill()
		s.process = nil
	}
}

// Restart starts the server again at its addresses with its data, after a Stop if it runs, and waits
// until it answers.
func (s *Own) Restart(ctx context.Context) error {
	s.Stop()
	p, err := s.reaper.Start(proc.Command{
		Args: s.args, Env: []string{"HOME=" + s.dir, "TZ=UTC"}, Clean: true, Log: s.log(), Append: true, Mixed: true,
	})
	if err != nil {
		return err
	}
	for {
		if _, err := s.ask(ctx, "SELECT 1"); err == nil {
			s.process = p
			return nil
		}
		select {
		case <-p.Ended():
			return fmt.Errorf("the server ends at its start\n%s", proc.Tail(s.log(), tailBytes))
		case <-ctx.Done():
			p.Kill()
			return fmt.Errorf("wait for the server: %w\n%s", ctx.Err(), proc.Tail(s.log(), tailBytes))
		case <-time.After(startPause):
		}
	}
}

// named returns the server that a DSN names.
func named(dsn string) (*Server, error) {
	u, err := url.Parse(dsn)
	if err != nil || u.Scheme != "clickhouse" || u.Hostname() == "" {
		return nil, fmt.Errorf("read %s: want clickhouse://user:password@host:port/", variable)
	}
	s := &Server{user: u.User, query: u.Query()}
	s.native = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "9000"))
	s.web = net.JoinHostPort(u.Hostname(), cmp.Or(s.query.Get("http_port"), "8123"))
	s.query.Del("http_port")
	return s, nil
}

// Addr returns the host:port of the native protocol. It never changes.
func (s *Server) Addr() string { return s.native }

// HTTPAddr returns the host:port of the HTTP protocol. It never changes.
func (s *Server) HTTPAddr() string { return s.web }

// DSN returns the data source name of a database for the native protocol.
func (s *Server) DSN(database string) string { return s.dsn("clickhouse", s.native, database) }

// HTTPDSN returns the data source name of a database for HTTP.
func (s *Server) HTTPDSN(database string) string { return s.dsn("http", s.web, database) }

func (s *Server) dsn(scheme, host, database string) string {
	u := url.URL{Scheme: scheme, User: s.user, Host: host, Path: "/" + database, RawQuery: s.query.Encode()}
	return u.String()
}

// Database creates an empty database, which is dropped with the test, and returns its name.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := "parley_" + strings.ToLower(rand.Text())
	s.Ask(t, "CREATE DATABASE "+name)
	t.Cleanup(func() {
		if s.ends {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), startTimeout)
		defer cancel()
		if _, err := s.ask(ctx, "DROP DATABASE IF EXISTS "+name+" SYNC"); err != nil {
			t.Error(err)
		}
	})
	return name
}

// Ask runs a statement and returns the response.
func (s *Server) Ask(t testing.TB, statement string) string {
	t.Helper()
	answer, err := s.ask(t.Context(), statement)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func (s *Server) ask(ctx context.Context, statement string) (string, error) {
	u := url.URL{Scheme: "http", User: s.user, Host: s.web, Path: "/"}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), strings.NewReader(statement))
	if err != nil {
		return "", err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return "", fmt.Errorf("run %s: %w", statement, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("run %s: %s: %s, %v", statement, resp.Status, answer, err)
	}
	return string(answer), nil
}
