package versitygw_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/versitygw"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/s3"
)

func open(t *testing.T, s *versitygw.Server, bucket, secret string) *s3.Bucket {
	t.Helper()
	b, err := s3.New(&s3.Options{Endpoint: s.Endpoint, Bucket: bucket, Region: s.Region, AccessKey: s.AccessKey, SecretKey: secret})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestServersAndBucketsAreApart(t *testing.T) {
	first, second := versitygw.Start(t), versitygw.Start(t)
	name := first.Bucket(t)
	here := open(t, first, name, first.SecretKey)
	if err := here.Create(t.Context(), "a/b", storage.Bytes([]byte("x"))); err != nil {
		t.Fatal(err)
	}
	if _, err := here.Get(t.Context(), "a/b"); err != nil {
		t.Error(err)
	}
	if _, err := open(t, first, first.Bucket(t), first.SecretKey).Get(t.Context(), "a/b"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("another bucket: %v, want not found", err)
	}
	if _, err := open(t, second, name, second.SecretKey).Get(t.Context(), "a/b"); !errors.Is(err, storage.ErrRefused) {
		t.Errorf("a bucket that is not there: %v, want refused", err)
	}
	if _, err := open(t, first, name, second.SecretKey).Get(t.Context(), "a/b"); !errors.Is(err, storage.ErrRefused) {
		t.Errorf("with the keys of another server: %v, want refused", err)
	}
}

func TestServerEndsWithItsTest(t *testing.T) {
	var endpoint string
	t.Run("inner", func(t *testing.T) { endpoint = versitygw.Start(t).Endpoint })
	if conn, err := net.Dial("tcp", endpoint); err == nil {
		conn.Close()
		t.Errorf("somebody listens on %s after the test", endpoint)
	}
}

const roleEnv = "PARLEY_VERSITYGW_TEST_ROLE"

// TestServerEndsWithItsProcess runs itself in another process that ends without
// any cleanup.
func TestServerEndsWithItsProcess(t *testing.T) {
	if os.Getenv(roleEnv) != "" {
		fmt.Println(versitygw.Start(t).Endpoint)
		os.Exit(0)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestServerEndsWithItsProcess$")
	cmd.Env = append(os.Environ(), roleEnv+"=end", "TMPDIR="+t.TempDir())
	out, err := cmd.Output()
	endpoint := strings.TrimSpace(string(out))
	if _, _, bad := net.SplitHostPort(endpoint); err != nil || bad != nil {
		t.Fatalf("the other process: %v: %s", err, out)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		conn, err := net.Dial("tcp", endpoint)
		if err != nil {
			return
		}
		conn.Close()
		if time.Now().After(deadline) {
			t.Fatalf("the server at %s goes on", endpoint)
		}
	}
}

// failing is a test that is expected to fail.
type failing struct {
	testing.TB
	message string
}

// Fatalf keeps the message and ends the goroutine, as testing.TB does.
func (f *failing) Fatalf(format string, args ...any) {
	f.message = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestNoProgramNamesTheRemedy(t *testing.T) {
	t.Setenv("PARLEY_TEST_VERSITYGW", filepath.Join(t.TempDir(), "none"))
	f, done := &failing{TB: t}, make(chan struct{})
	go func() {
		defer close(done)
		versitygw.Start(f)
	}()
	<-done
	if !strings.Contains(f.message, "make servers") || !strings.Contains(f.message, "PARLEY_TEST_VERSITYGW") {
		t.Errorf("failed with %q, want the remedy", f.message)
	}
}

// TestPinIsOne keeps the version of the Makefile and of this package the same.
func TestPinIsOne(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("versitygw.go")
	if err != nil {
		t.Fatal(err)
	}
	_, pin, _ := strings.Cut(string(makefile), "/cmd/versitygw@")
	pin, _, _ = strings.Cut(pin, "\n")
	if want := fmt.Sprintf("version = %q", pin); pin == "" || !strings.Contains(string(source), want) {
		t.Errorf("versitygw.go lacks %s, which the Makefile builds", want)
	}
}
