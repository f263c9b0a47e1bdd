package clickhousetest

import (
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

// startTimeout bounds a start of which the caller bounds nothing. It only matters
// when the start fails.
const startTimeout = 2 * time.Minute

// endTimeout is what a server has to end in order.
const endTimeout = 20 * time.Second

// ErrShared is returned for what is not done to a server that others use as well.
var ErrShared = errors.New("the server is shared")

// Options say how a server of one's own is run. The zero value works.
type Options struct {
	// Dir is the folder of the data, which is made if it is not there and left in
	// place; "" is a temporary one. Somebody else's server does not use it.
	Dir string
}

// Server is a ClickHouse server.
type Server struct {
	program program
	dir     string // Of the data and of what the server prints.
	native  string // host:port
	web     string // host:port
	user    *url.Userinfo
	query   url.Values    // What else the DSN of somebody else's says.
	shared  bool          // By the tests of this process, or with somebody else.
	reaper  *proc.Reaper  // nil for somebody else's.
	process *proc.Process // nil while it is stopped, and for somebody else's.
}

// common is the server that the tests of this process share.
var common struct {
	sync.Mutex
	server *Server
}

// Start returns a server of the test's own, which ends with it. Without options it is the
// one of all tests of the process that have none, and ends with the process: each keeps to
// databases of its own. A test that gets no server fails.
func Start(t testing.TB, o *Options) *Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	start := startCommon
	if o != nil {
		start = func(ctx context.Context) (*Server, error) { return Run(ctx, o) }
	}
	s, err := start(ctx)
	if err != nil {
		t.Fatalf("start a ClickHouse server: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() && s.program != nil {
			t.Logf("the server at %s:\n%s", s.native, s.output())
		}
		if s.shared {
			return
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func startCommon(ctx context.Context) (*Server, error) {
	if os.Getenv(variable) != "" {
		return Run(ctx, nil)
	}
	common.Lock()
	defer common.Unlock()
	if common.server == nil {
		s, err := Run(ctx, nil)
		if err != nil {
			return nil, err
		}
		s.shared, common.server = true, s
	}
	return common.server, nil
}

// Run returns a server that runs until it is closed. The context bounds the start.
func Run(ctx context.Context, o *Options) (*Server, error) {
	if o == nil {
		o = &Options{}
	}
	if dsn := os.Getenv(variable); dsn != "" {
		return named(dsn)
	}
	p, err := find(ctx)
	if err != nil {
		return nil, err
	}
	reaper, err := proc.StartReaper()
	if err != nil {
		return nil, err
	}
	s := &Server{program: p, reaper: reaper, dir: o.Dir, native: "127.0.0.1:0", web: "127.0.0.1:0", user: url.User("default")}
	if s.dir == "" {
		if s.dir, err = reaper.TempDir("parley-clickhouse-"); err != nil {
			return nil, errors.Join(err, reaper.Close())
		}
	}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// named returns the server that a DSN names.
func named(dsn string) (*Server, error) {
	u, err := url.Parse(dsn)
	if err != nil || u.Scheme != "clickhouse" || u.Hostname() == "" {
		return nil, fmt.Errorf("read %s: want clickhouse://user:password@host:port/", variable)
	}
	s := &Server{user: u.User, query: u.Query(), shared: true}
	port, webPort := u.Port(), s.query.Get("http_port")
	s.query.Del("http_port")
	if port == "" {
		port = "9000"
	}
	if webPort == "" {
		webPort = "8123"
	}
	s.native, s.web = net.JoinHostPort(u.Hostname(), port), net.JoinHostPort(u.Hostname(), webPort)
	return s, nil
}

// Shared reports whether others use the server as well, so that it cannot be stopped.
func (s *Server) Shared() bool { return s.shared }

// Addr returns the host:port of the native protocol. It never changes.
func (s *Server) Addr() string { return s.native }

// HTTPAddr returns the host:port of the HTTP protocol. It never changes.
func (s *Server) HTTPAddr() string { return s.web }

// DSN returns what the driver takes to connect to a database by the native protocol.
func (s *Server) DSN(database string) string { return s.dsn("clickhouse", s.native, database) }

// HTTPDSN returns what the driver takes to connect to a database by HTTP.
func (s *Server) HTTPDSN(database string) string { return s.dsn("http", s.web, database) }

func (s *Server) dsn(scheme, host, database string) string {
	u := url.URL{Scheme: scheme, User: s.user, Host: host, Path: "/" + database, RawQuery: s.query.Encode()}
	return u.String()
}

// Database makes an empty database, which goes with the test, and returns its name.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := "parley_" + strings.ToLower(rand.Text())
	if err := s.exec(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !s.shared && s.process == nil {
			return // It is stopped: nobody can.
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), startTimeout)
		defer cancel()
		if err := s.exec(ctx, "DROP DATABASE IF EXISTS "+name+" SYNC"); err != nil {
			t.Error(err)
		}
	})
	return name
}

// exec runs a statement that has no result.
func (s *Server) exec(ctx context.Context, statement string) error {
	u := url.URL{Scheme: "http", User: s.user, Host: s.web, Path: "/"}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), strings.NewReader(statement))
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("run %s: %w", statement, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return fmt.Errorf("run %s: %w", statement, err)
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("run %s: %s: %s", statement, resp.Status, b)
	}
	return nil
}

// Stop kills the server, as a crash would, and returns when it is gone. It does
// nothing to one that is stopped, and returns ErrShared for a shared one.
func (s *Server) Stop() error {
	if s.shared {
		return fmt.Errorf("stop %s: %w", s.native, ErrShared)
	}
	if s.process != nil {
		s.process.Kill()
		s.process = nil
	}
	return nil
}

// Restart starts the server again at its addresses with its data, after a Stop if
// it runs, and returns when it answers. It returns ErrShared for a shared one.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Stop(); err != nil {
		return err
	}
	return s.start(ctx)
}

// Close ends the server and removes its data, unless Options.Dir named their folder.
// It does nothing to a shared one.
func (s *Server) Close() error {
	if s.shared {
		return nil
	}
	var err error
	if s.process != nil {
		if err = s.process.Stop(endTimeout); err != nil {
			err = fmt.Errorf("end the server: %w\n%s", err, s.output())
		}
		s.process = nil
	}
	return errors.Join(err, s.reaper.Close())
}

// run starts a command that prints to the log of the server; one that is not mixed prints
// a line of its own to its standard output.
func (s *Server) run(mixed bool, args ...string) (*proc.Process, error) {
	dir, err := filepath.Abs(s.dir)
	if err != nil {
		return nil, err
	}
	return s.reaper.Start(proc.Command{
		Args: args, Env: []string{"HOME=" + dir, "TZ=UTC"}, Clean: true, Log: s.log(), Append: true, Mixed: mixed,
	})
}

// start runs the program and waits until it answers.
func (s *Server) start(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Join(s.dir, "data"), 0o755); err != nil {
		return fmt.Errorf("make folder %s: %w", s.dir, err)
	}
	p, err := s.program.start(ctx, s)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, s.output())
	}
	s.process = p
	return nil
}

// shownOutput is how many bytes of what the server printed a failed test shows.
const shownOutput = 8 << 10

// output returns the end of what the server has printed.
func (s *Server) output() string { return proc.Tail(s.log(), shownOutput) }

func (s *Server) log() string { return filepath.Join(s.dir, "output") }
