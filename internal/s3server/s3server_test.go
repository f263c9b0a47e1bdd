package s3server_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/proc"
	"github.com/parleyrun/parley/internal/s3server"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/s3"
)

func open(t *testing.T, s *s3server.Server, bucket, secret string) *s3.Bucket {
	t.Helper()
	b, err := s3.New(&s3.Options{Endpoint: s.Endpoint, Bucket: bucket, Region: s.Region, AccessKey: s.AccessKey, SecretKey: secret})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// programs returns the functions that start a server, by name.
func programs() map[string]func(testing.TB) *s3server.Server {
	return map[string]func(testing.TB) *s3server.Server{"versitygw": s3server.Versitygw, "minio": s3server.MinIO}
}

func onPrograms(t *testing.T, test func(t *testing.T, start func(testing.TB) *s3server.Server)) {
	for name, start := range programs() {
		t.Run(name, func(t *testing.T) { test(t, start) })
	}
}

func TestServersAndBucketsAreApart(t *testing.T) { onPrograms(t, testServersAndBucketsAreApart) }

func testServersAndBucketsAreApart(t *testing.T, start func(testing.TB) *s3server.Server) {
	first, second := start(t), start(t)
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
		t.Errorf("missing bucket: %v, want refused", err)
	}
	if _, err := open(t, first, name, second.SecretKey).Get(t.Context(), "a/b"); !errors.Is(err, storage.ErrRefused) {
		t.Errorf("with the keys of another server: %v, want refused", err)
	}
}

// TestPause checks that requests to a paused server wait and are answered after it resumes.
func TestPause(t *testing.T) {
	s := s3server.Versitygw(t)
	b := open(t, s, s.Bucket(t), s.SecretKey)
	if err := b.Create(t.Context(), "k", storage.Bytes([]byte("x"))); err != nil {
		t.Fatal(err)
	}
	resume := s.Pause()
	for began := time.Now(); ; {
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err := b.Get(short, "k")
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			break
		}
		if err != nil || time.Since(began) > time.Minute {
			t.Fatalf("process is not paused: %v", err)
		}
	}
	resume()
	if _, err := b.Get(t.Context(), "k"); err != nil {
		t.Errorf("server is not paused: got %v", err)
	}
}

// TestEachIsEveryProgram checks that each subtest has a server of its own.
func TestEachIsEveryProgram(t *testing.T) {
	seen := map[string]string{}
	s3server.Each(t, func(t *testing.T, s *s3server.Server) {
		_, name, _ := strings.Cut(t.Name(), "/")
		seen[s.Endpoint] = name
		err := open(t, s, s.Bucket(t), s.SecretKey).Create(t.Context(), "k", storage.Bytes([]byte("x")))
		if err != nil {
			t.Error(err)
		}
	})
	names := slices.Sorted(maps.Values(seen))
	if want := slices.Sorted(maps.Keys(programs())); !slices.Equal(names, want) {
		t.Errorf("servers of %q, want one of each of %q", names, want)
	}
}

func TestServerEndsWithItsTest(t *testing.T) { onPrograms(t, testServerEndsWithItsTest) }

func testServerEndsWithItsTest(t *testing.T, start func(testing.TB) *s3server.Server) {
	var endpoint string
	t.Run("inner", func(t *testing.T) { endpoint = start(t).Endpoint })
	if conn, err := net.Dial("tcp", endpoint); err == nil {
		conn.Close()
		t.Errorf("listener on %s after the test", endpoint)
	}
}

func TestServerEndsWithItsProcess(t *testing.T) {
	onPrograms(t, func(t *testing.T, start func(testing.TB) *s3server.Server) {
		proc.EndsWithItsProcess(t, func() string { return start(t).Endpoint })
	})
}

// failing is a testing.TB that is expected to fail.
type failing struct {
	testing.TB
	message string
}

// Fatalf records the message and ends the goroutine, as testing.TB does.
func (f *failing) Fatalf(format string, args ...any) {
	f.message = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestNoProgramNamesTheRemedy(t *testing.T) {
	for name, start := range programs() {
		variable := "PARLEY_TEST_" + strings.ToUpper(name)
		t.Setenv(variable, filepath.Join(t.TempDir(), "none"))
		f, done := &failing{TB: t}, make(chan struct{})
		go func() {
			defer close(done)
			start(f)
		}()
		<-done
		for _, want := range []string{name, "make servers", variable} {
			if !strings.Contains(f.message, want) {
				t.Errorf("failed with %q, want %s", f.message, want)
			}
		}
	}
}

// TestPinsAgree keeps the versions of the Makefile and of this package the same.
func TestPinsAgree(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("program.go")
	if err != nil {
		t.Fatal(err)
	}
	for name := range programs() {
		pin := regexp.MustCompile(`(?m)^[A-Z]+ *:= \S+/` + name + `@(\S+)$`).FindSubmatch(makefile)
		if pin == nil {
			t.Errorf("the Makefile does not pin %s", name)
			continue
		}
		if want := fmt.Sprintf("name: %q, version: %q", name, pin[1]); !strings.Contains(string(source), want) {
			t.Errorf("program.go lacks %s, which the Makefile builds", want)
		}
	}
}
