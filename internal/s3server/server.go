package s3server

import (
	"crypto/rand"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/proc"
)

const (
	startAttempts = 5
	startTimeout  = time.Minute // It only matters when the start fails.
	shownOutput   = 8 << 10     // Bytes of the server's output that a failed test shows.
)

// Server is a running S3 server. Its fields are what a client needs; they do not
// change.
type Server struct {
	Endpoint  string // host:port, for plain HTTP.
	AccessKey string // Of the one account, which may do everything.
	SecretKey string
	Region    string

	dir     string // Of the objects, of what else the program stores, and of its output.
	process *proc.Process
}

// Each runs a test on every program there is, in a subtest with its name.
func Each(t *testing.T, test func(t *testing.T, s *Server)) {
	for _, p := range []program{versitygw(), minio()} {
		t.Run(p.name, func(t *testing.T) { test(t, start(t, p)) })
	}
}

// Versitygw runs a versitygw until t ends.
func Versitygw(t testing.TB) *Server {
	t.Helper()
	return start(t, versitygw())
}

// MinIO runs a MinIO with one drive until t ends.
func MinIO(t testing.TB) *Server {
	t.Helper()
	return start(t, minio())
}

// Bucket makes an empty bucket and returns its name.
func (s *Server) Bucket(t testing.TB) string {
	t.Helper()
	// To every program a folder among its objects is a bucket.
	dir, err := os.MkdirTemp(s.objects(), "bucket-*")
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Base(dir)
}

// Pause lets the server stand still, soon, until the function that it returns is called:
// whoever asks it meanwhile waits.
func (s *Server) Pause() (resume func()) {
	s.process.Signal(syscall.SIGSTOP)
	return func() { s.process.Signal(syscall.SIGCONT) }
}

func start(t testing.TB, p program) *Server {
	t.Helper()
	file := p.find(t)
	s := &Server{AccessKey: "parley", SecretKey: rand.Text(), Region: "us-east-1", dir: t.TempDir()}
	for _, dir := range []string{s.objects(), s.private()} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s at %s:\n%s", p.name, s.Endpoint, s.output())
		}
	})
	reaper := proc.ReaperOf(t)
	for attempt := range startAttempts {
		free, err := proc.FreeAddresses("127.0.0.1", 1)
		if err != nil {
			t.Fatal(err)
		}
		s.Endpoint = free[0]
		args, env := p.command(s, attempt)
		if s.run(t, reaper, append([]string{file}, args...), env) {
			return s
		}
	}
	t.Fatalf("%s does not start", file)
	return nil
}

func (s *Server) objects() string { return filepath.Join(s.dir, "objects") }
func (s *Server) private() string { return filepath.Join(s.dir, "private") }
func (s *Server) log() string     { return filepath.Join(s.dir, "output") }

// run starts the process and waits until it answers. It returns false, and no
// process is left, if that ends or somebody else has the port.
func (s *Server) run(t testing.TB, reaper *proc.Reaper, args, env []string) bool {
	t.Helper()
	p, err := reaper.Start(proc.Command{Args: args, Env: env, Clean: true, Log: s.log(), Append: true, Mixed: true})
	if err != nil {
		t.Fatal(err)
	}
	if s.answers(t, p.Ended()) {
		s.process = p
		return true
	}
	p.Kill()
	return false
}

// answers polls until the server answers, has ended, or turns out to be another:
// only this one knows the keys.
func (s *Server) answers(t testing.TB, ended <-chan struct{}) bool {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: startTimeout}
	tick, late := time.NewTicker(5*time.Millisecond), time.NewTimer(startTimeout)
	defer tick.Stop()
	defer late.Stop()
	for {
		if resp, err := client.Do(s.listBuckets(t, time.Now())); err == nil {
			resp.Body.Close()
			switch resp.StatusCode {
			case http.StatusOK:
				return true
			case http.StatusForbidden:
				return false
			}
		}
		select {
		case <-ended:
			return false
		case <-late.C:
			t.Fatalf("%s does not answer within %v", s.Endpoint, startTimeout)
		case <-tick.C:
		}
	}
}

// output returns the end of what the server has printed.
func (s *Server) output() string { return proc.Tail(s.log(), shownOutput) }
