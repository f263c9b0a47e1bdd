package readsocket

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/waiting"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
	"github.com/parleyrun/parley/storage/storagetest"
)

// serve serves a bucket as the bucket of a folder.
func serve(t *testing.T, dir string, b storage.Bucket) *Server {
	t.Helper()
	s, err := Serve(dir, b, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	return waiting.ToClose(t, s)
}

func open(t *testing.T, dir string) *Bucket {
	t.Helper()
	b, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return waiting.ToClose(t, b)
}

// both writes to a store in this process and reads over the socket.
type both struct {
	storage.Bucket
	read *Bucket
}

func (b both) Get(ctx context.Context, key string) ([]byte, error) { return b.read.Get(ctx, key) }

func (b both) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	return b.read.GetRange(ctx, key, offset, length)
}

func (b both) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	return b.read.Open(ctx, key)
}

func (b both) List(ctx context.Context, q storage.ListQuery) (storage.ListPage, error) {
	return b.read.List(ctx, q)
}

// The suite of buckets runs with all reads over the socket, of objects in memory, in the engine and in
// files.
func TestReadsLikeTheStore(t *testing.T) {
	for name, store := range map[string]func(t *testing.T) storage.Bucket{
		"memory": func(t *testing.T) storage.Bucket { return waiting.ToClose(t, local.NewMemory()) },
		"folder": func(t *testing.T) storage.Bucket { return folder(t, t.TempDir()) },
		"without Seek": func(t *testing.T) storage.Bucket {
			return unseekable{waiting.ToClose(t, local.NewMemory())}
		},
	} {
		t.Run(name, func(t *testing.T) {
			storagetest.RunBucket(t, func(t *testing.T) storage.Bucket {
				b, dir := store(t), t.TempDir()
				serve(t, dir, b)
				return both{b, open(t, dir)}
			})
		})
	}
}

// unseekable opens streams that implement only Read.
type unseekable struct{ storage.Bucket }

func (u unseekable) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	r, size, err := u.Bucket.Open(ctx, key)
	return struct{ io.ReadCloser }{r}, size, err
}

func folder(t *testing.T, dir string) *local.Store {
	t.Helper()
	s, err := local.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	return waiting.ToClose(t, s)
}

func TestWritesAreRefused(t *testing.T) {
	store, dir := local.NewMemory(), t.TempDir()
	serve(t, dir, store)
	b := open(t, dir)
	for op, err := range map[string]error{
		"create": b.Create(t.Context(), "k", storage.Bytes([]byte("x"))),
		"put":    b.Put(t.Context(), "k", storage.Bytes([]byte("x"))),
		"delete": b.Delete(t.Context(), "k"),
	} {
		if !errors.Is(err, storage.ErrRefused) || !strings.Contains(err.Error(), "next to the process") {
			t.Errorf("%s: got %v, want %v with the reason", op, err, storage.ErrRefused)
		}
	}
	if page, err := store.List(t.Context(), storage.ListQuery{}); err != nil || len(page.Keys) > 0 {
		t.Errorf("after refused writes the store lists %v, %v; want nothing", page, err)
	}
}

// failing fails every read.
type failing struct {
	storage.Bucket
	err error
}

func (f failing) Open(context.Context, string) (io.ReadCloser, int64, error) { return nil, 0, f.err }

func (f failing) List(context.Context, storage.ListQuery) (storage.ListPage, error) {
	return storage.ListPage{}, f.err
}

// A command prints the error of the server's store.
func TestErrorsKeepKindAndCause(t *testing.T) {
	for name, kind := range map[string]error{"unavailable": storage.ErrUnavailable, "refused": storage.ErrRefused, "without kind": nil} {
		t.Run(name, func(t *testing.T) {
			dir, want := t.TempDir(), kind
			if kind == nil {
				want = storage.ErrUnavailable
			}
			serve(t, dir, failing{err: &storage.Error{Kind: kind, Err: errors.New("table 7 is corrupt")}})
			b := open(t, dir)
			_, get := b.Get(t.Context(), "k")
			_, part := b.GetRange(t.Context(), "k", 0, 1)
			_, _, stream := b.Open(t.Context(), "k")
			_, list := b.List(t.Context(), storage.ListQuery{})
			for op, err := range map[string]error{"get": get, "range": part, "open": stream, "list": list} {
				if !errors.Is(err, want) || !strings.Contains(err.Error(), "table 7 is corrupt") {
					t.Errorf("%s: got %v, want %v with the cause", op, err, want)
				}
			}
		})
	}
}

// Only the server's user can connect, and the data folder holds regular files only, which every tool
// copies.
func TestSocketIsPrivate(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, dir, local.NewMemory())
	for path, want := range map[string]fs.FileMode{
		s.socket: fs.ModeSocket | 0o600, filepath.Dir(s.socket): fs.ModeDir | 0o700, filepath.Join(dir, addressFile): 0o600,
	} {
		if info, err := os.Lstat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: got mode %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{s.socket, filepath.Dir(s.socket), filepath.Join(dir, addressFile)} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("stat %s after Close: got %v, want not found", path, err)
		}
	}
	if _, err := Open(dir); !errors.Is(err, ErrNotServed) {
		t.Errorf("open after Close: got %v, want ErrNotServed", err)
	}
}

// abandon leaves the files of a killed process: a socket without a listener.
func abandon(t *testing.T, s *Server) {
	t.Helper()
	s.server.Close()
	<-s.done
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// The socket of a killed process is unusable, and the next start removes it.
func TestStaleSocket(t *testing.T) {
	t.Setenv("TMPDIR", shortDir(t))
	dir := t.TempDir()
	killed := serve(t, dir, local.NewMemory())
	abandon(t, killed)
	if _, err := Open(dir); !errors.Is(err, ErrNotServed) {
		t.Fatalf("open with a stale socket: got %v, want ErrNotServed", err)
	}
	orphan := serve(t, t.TempDir(), local.NewMemory())
	abandon(t, orphan)
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Dir(orphan.socket), old, old); err != nil {
		t.Fatal(err)
	}
	live := t.TempDir()
	other := serve(t, live, local.NewMemory())
	if err := os.Chtimes(filepath.Dir(other.socket), old, old); err != nil {
		t.Fatal(err)
	}
	serve(t, dir, local.NewMemory())
	open(t, dir)
	open(t, live)
	for _, s := range []*Server{killed, orphan} {
		if _, err := os.Lstat(filepath.Dir(s.socket)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("stat %s after the next start: got %v, want not found", s.socket, err)
		}
	}
}

// shortDir returns a folder whose path leaves room for the name of a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "t")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Long paths of the data folder and of temporary files, and malformed address files.
func TestOddPaths(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("d", 200))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tmp := range []string{long, filepath.Join(long, "absent")} {
		t.Setenv("TMPDIR", tmp)
		s := serve(t, long, local.NewMemory())
		open(t, long)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"", "relative", file, "/absent/socket", strings.Repeat("/x", 3000), "\x00\n"} {
		if err := os.WriteFile(filepath.Join(long, addressFile), []byte(address), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(long); !errors.Is(err, ErrNotServed) {
			t.Errorf("open with the address %.40q: got %v, want ErrNotServed", address, err)
		}
		serve(t, long, local.NewMemory()).Close()
		if _, err := os.Stat(file); err != nil {
			t.Fatalf("start over the address %.40q: %v, want other files unchanged", address, err)
		}
	}
}

// Beyond the limit a connection is closed, and no request is lost.
func TestConnectionsAreBounded(t *testing.T) {
	dir, store := t.TempDir(), local.NewMemory()
	if err := store.Create(t.Context(), "k", storage.Bytes([]byte("x"))); err != nil {
		t.Fatal(err)
	}
	s := serve(t, dir, store)
	b := open(t, dir)
	b.client.CloseIdleConnections()
	waiting.Until(t, "the end of the connection", func() bool { return s.connections.Load() == 0 })
	var idle []net.Conn
	for range maxConnections {
		c, err := net.Dial("unix", s.socket)
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, waiting.ToClose(t, c))
	}
	waiting.Until(t, "the connections", func() bool { return s.connections.Load() >= maxConnections })
	if _, err := b.Get(t.Context(), "k"); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("get beyond %d connections: got %v, want %v", maxConnections, err, storage.ErrUnavailable)
	}
	for _, c := range idle[1:] {
		_ = c.(*net.UnixConn).CloseWrite()
	}
	waiting.Until(t, "the end of the connections", func() bool { return s.connections.Load() <= 1 })
	if got, err := b.Get(t.Context(), "k"); err != nil || !bytes.Equal(got, []byte("x")) {
		t.Errorf("get after other clients have disconnected: got %q, %v; want x", got, err)
	}
}

// Open streams leave connections for other reads.
func TestStreamsOfOneClient(t *testing.T) {
	dir, store := t.TempDir(), folder(t, t.TempDir())
	if err := store.Create(t.Context(), "k", storage.Bytes(make([]byte, 4<<20))); err != nil {
		t.Fatal(err)
	}
	serve(t, dir, store)
	b := open(t, dir)
	r, size, err := b.Open(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	waiting.ToClose(t, r)
	if err := store.Delete(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Get(t.Context(), "k"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("get of a deleted object: got %v, want %v", err, storage.ErrNotFound)
	}
	if n, err := io.Copy(io.Discard, r); err != nil || n != size {
		t.Errorf("stream of a deleted object: got %d bytes, %v; want %d", n, err, size)
	}
}
