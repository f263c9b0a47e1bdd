package versitygw

import (
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	// version is that of VERSITYGW in the Makefile.
	version = "v1.8.0"
	// variable names the program to run instead of the pinned one.
	variable = "PARLEY_TEST_VERSITYGW"

	startAttempts = 5
	startTimeout  = time.Minute // It only matters when the start fails.
	shownOutput   = 8 << 10     // Bytes of the server's output that a failed test shows.
)

// supervise runs the command it is given until that ends, or until the other end
// of file 3 is closed, which the end of the test process does too.
const supervise = `
"$@" 3<&- & server=$!
{ read -r _; kill -9 "$server"; } <&3 2>/dev/null & watcher=$!
wait "$server"; status=$?
kill "$watcher" 2>/dev/null
exit "$status"`

// Server is a running versitygw. Its fields are what a client needs; they do not
// change.
type Server struct {
	Endpoint  string // host:port, for plain HTTP.
	AccessKey string // Of the one account, which may do everything.
	SecretKey string
	Region    string

	dir string // Of the objects, their metadata and the output.
}

// Start runs a server until t ends.
func Start(t testing.TB) *Server {
	t.Helper()
	program := find(t)
	s := &Server{AccessKey: "parley", SecretKey: rand.Text(), Region: "us-east-1", dir: t.TempDir()}
	for _, dir := range []string{s.objects(), s.metadata()} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("versitygw at %s:\n%s", s.Endpoint, s.output())
		}
	})
	for attempt := range startAttempts {
		s.Endpoint = freePort(t)
		if s.run(t, program, s.backend(attempt)) {
			return s
		}
	}
	t.Fatalf("%s does not start", program)
	return nil
}

// Bucket makes an empty bucket and returns its name.
func (s *Server) Bucket(t testing.TB) string {
	t.Helper()
	// To the server every folder in its root is a bucket.
	dir, err := os.MkdirTemp(s.objects(), "bucket-*")
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Base(dir)
}

// backend returns the arguments of an attempt to start. With extended attributes
// an object and what S3 knows of it appear at once; not so with the files that
// stand in for them, which a create that fails can leave behind. So those are for
// file systems without extended attributes, which the server refuses.
func (s *Server) backend(attempt int) []string {
	if attempt%2 == 0 {
		return []string{"posix", s.objects()}
	}
	return []string{"posix", "--sidecar", s.metadata(), s.objects()}
}

func (s *Server) objects() string  { return filepath.Join(s.dir, "objects") }
func (s *Server) metadata() string { return filepath.Join(s.dir, "metadata") }
func (s *Server) log() string      { return filepath.Join(s.dir, "output") }

// run starts the process and waits until it answers. It returns false if the
// process ends instead, as it does when another one took the port meanwhile, or
// when the file system has no extended attributes.
func (s *Server) run(t testing.TB, program string, backend []string) bool {
	t.Helper()
	// A path that no other server knows tells this one from whoever has the port.
	health := "/" + rand.Text()
	cmd := exec.Command("sh", append([]string{"-c", supervise, "sh", program,
		"--port", s.Endpoint, "--region", s.Region, "--keep-alive", "--health", health}, backend...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "ROOT_ACCESS_KEY=" + s.AccessKey, "ROOT_SECRET_KEY=" + s.SecretKey}
	alive, stop, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	// With a file for its output, only the process itself is waited for.
	output, err := os.OpenFile(s.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = output, output, []*os.File{alive}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // It is killed; an end before its time shows in the test.
	}()
	t.Cleanup(func() {
		stop.Close()
		<-ended
	})
	return s.answers(t, health, ended)
}

// answers polls until the server answers, or has ended.
func (s *Server) answers(t testing.TB, health string, ended <-chan struct{}) bool {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: startTimeout}
	tick, late := time.NewTicker(5*time.Millisecond), time.NewTimer(startTimeout)
	defer tick.Stop()
	defer late.Stop()
	for {
		if resp, err := client.Get("http://" + s.Endpoint + health); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return true
			}
		}
		select {
		case <-ended:
			return false
		case <-late.C:
			t.Fatalf("versitygw at %s does not answer within %v", s.Endpoint, startTimeout)
		case <-tick.C:
		}
	}
}

// output returns the end of what the server has printed: a line per request.
func (s *Server) output() string {
	b, err := os.ReadFile(s.log())
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-shownOutput):])
}

// find returns the program's path.
func find(t testing.TB) string {
	t.Helper()
	program, err := os.Getenv(variable), error(nil)
	if program == "" {
		program, err = pinned()
	}
	if err == nil {
		_, err = os.Stat(program)
	}
	if err != nil {
		t.Fatalf("find versitygw: %v: run make servers, or let %s name the program", err, variable)
	}
	return program
}

// pinned returns where make puts the program: a test runs in the folder of its
// package, somewhere below that of go.mod.
func pinned() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "bin", "versitygw@"+version), nil
		}
		if strings.HasSuffix(dir, string(filepath.Separator)) {
			return "", fmt.Errorf("no go.mod at or above %s", wd)
		}
	}
}

// freePort returns an address nobody listens on, for now.
func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
