package s3server

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	minioclient "github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/parleyrun/parley/internal/proc"
	"github.com/parleyrun/parley/internal/waiting"
)

// tailBytes is the number of bytes of the server's output that a failed test prints.
const tailBytes = 8 << 10

// Server is a running S3 server. Its exported fields configure a client and do not change.
type Server struct {
	Endpoint  string // host:port, for plain HTTP.
	AccessKey string // Of the only account, which has all permissions.
	SecretKey string
	Region    string

	dir     string // Folder of the objects, of other data of the program, and of its output.
	process *proc.Process
}

// Each runs a test on every program, in a subtest with its name.
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

// Bucket creates an empty bucket and returns its name.
func (s *Server) Bucket(t testing.TB) string {
	t.Helper()
	// Every program takes a folder among its objects for a bucket.
	dir, err := os.MkdirTemp(s.objects(), "bucket-*")
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Base(dir)
}

// Pause stops the server until resume is called. Requests in between wait. The stop may take effect
// shortly after Pause returns.
func (s *Server) Pause() (resume func()) {
	s.process.Signal(syscall.SIGSTOP)
	return func() { s.process.Signal(syscall.SIGCONT) }
}

func start(t testing.TB, p program) *Server {
	t.Helper()
	file := p.find(t)
	free, err := proc.FreeAddresses(proc.Host(), 1)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Endpoint: free[0], AccessKey: "parley", SecretKey: rand.Text(), Region: "us-east-1", dir: t.TempDir()}
	for _, dir := range []string{s.objects(), s.private()} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	log := filepath.Join(s.dir, "output")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s at %s:\n%s", p.name, s.Endpoint, proc.Tail(log, tailBytes))
		}
	})
	client, err := minioclient.New(s.Endpoint, &minioclient.Options{Creds: credentials.NewStaticV4(s.AccessKey, s.SecretKey, ""), Region: s.Region, MaxRetries: 1})
	if err != nil {
		t.Fatal(err)
	}
	reaper := proc.ReaperOf(t)
	for _, args := range p.args(s) {
		s.process, err = reaper.Start(proc.Command{Args: append([]string{file}, args...), Env: p.env(s), Clean: true, Log: log, Append: true, Mixed: true})
		if err != nil {
			t.Fatal(err)
		}
		answers := false
		waiting.Until(t, p.name+" to answer", func() bool {
			_, err := client.ListBuckets(t.Context())
			answers = err == nil
			return answers || s.process.HasEnded()
		})
		if answers {
			return s
		}
	}
	t.Fatalf("%s did not start", file)
	return nil
}

func (s *Server) objects() string { return filepath.Join(s.dir, "objects") }
func (s *Server) private() string { return filepath.Join(s.dir, "private") }
