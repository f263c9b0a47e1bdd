package readsocket

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/parleyrun/parley/storage"
)

const (
	// addressFile is the file in a data folder that holds the path of the socket.
	addressFile = "read.address"
	// Names of the socket's folder and of the socket.
	folderPattern, socketName = "parley-read-", "socket"
	// version is the protocol version in versionHeader.
	version, versionHeader = "1", "Parley-Read"
	// maxConnections is enough for four commands.
	maxConnections = 32
	// stall is the write timeout of a client: a user may page through the output of a command.
	stall = 5 * time.Minute
	// orphanAge is the age at which a socket without a process is an orphan.
	orphanAge = time.Minute
	// brief is the timeout of a request, which has no body.
	brief = 5 * time.Second
	// maxHeader has room for the escaped prefix and start of a listing, of 1 KiB each.
	maxHeader = 16 << 10
)

// Server offers a bucket on the socket of a data folder.
type Server struct {
	bucket      storage.Bucket
	dir, socket string
	server      http.Server
	connections atomic.Int64
	done        chan struct{} // closed when the listener has ended
}

// Serve offers b, the bucket of the data folder dir, to other processes until Close. The caller
// holds the lock of the folder.
func Serve(dir string, b storage.Bucket, log *slog.Logger) (_ *Server, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("serve data folder to readers: %w", err)
	}
	removeStale(dir)
	s := &Server{bucket: b, dir: dir, done: make(chan struct{})}
	l, err := s.listen()
	if err != nil {
		return nil, fmt.Errorf("serve data folder to readers: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", hello)
	mux.HandleFunc("GET /object", s.object)
	mux.HandleFunc("GET /list", s.list)
	s.server = http.Server{
		Handler: mux, ReadTimeout: brief, WriteTimeout: stall, IdleTimeout: 2 * brief, MaxHeaderBytes: maxHeader,
		ConnState: s.count, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	go func() {
		defer close(s.done)
		if err := s.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Warn("read socket failed", "folder", dir, "err", err)
		}
	}()
	return s, nil
}

// listen listens on a new socket and stores its path in the data folder. The system's folder of
// temporary files may be read-only or have too long a path for a socket address.
func (s *Server) listen() (l net.Listener, err error) {
	for _, parent := range []string{os.TempDir(), "/tmp"} {
		var private string
		if private, err = os.MkdirTemp(parent, folderPattern); err != nil {
			continue
		}
		s.socket = filepath.Join(private, socketName)
		if l, err = net.Listen("unix", s.socket); err == nil {
			break
		}
		_ = os.Remove(private)
	}
	if err != nil {
		return nil, err
	}
	removeOrphans(filepath.Dir(filepath.Dir(s.socket)), time.Now().Add(-orphanAge))
	// Until then the mode of the socket's folder protects it.
	if err = os.Chmod(s.socket, 0o600); err == nil {
		err = os.WriteFile(filepath.Join(s.dir, addressFile), []byte(s.socket+"\n"), 0o600)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close(), s.remove())
	}
	return l, nil
}

// Close ends the requests in flight and removes the socket.
func (s *Server) Close() error {
	err := s.server.Close()
	<-s.done
	return errors.Join(err, s.remove())
}

// remove removes the file, the socket and its folder, if they exist.
func (s *Server) remove() (all error) {
	for _, name := range []string{filepath.Join(s.dir, addressFile), s.socket, filepath.Dir(s.socket)} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			all = errors.Join(all, err)
		}
	}
	return all
}

// removeStale removes the files of a killed process of this data folder.
func removeStale(dir string) {
	socket, err := socketOf(dir)
	if err != nil {
		return
	}
	_ = os.Remove(filepath.Join(dir, addressFile))
	removeUnserved(socket)
}

// removeOrphans removes the sockets of killed processes whose data folders were not served again. It
// skips those made after before, because they may not listen yet.
func removeOrphans(parent string, before time.Time) {
	privates, _ := filepath.Glob(filepath.Join(parent, folderPattern+"*"))
	for _, private := range privates {
		if info, err := os.Lstat(private); err == nil && info.ModTime().Before(before) {
			removeUnserved(filepath.Join(private, socketName))
		}
	}
}

// removeUnserved removes a socket without a listener, and its folder. It keeps paths that listen does
// not make.
func removeUnserved(socket string) {
	private := filepath.Dir(socket)
	info, err := os.Lstat(socket)
	if err != nil || info.Mode().Type() != fs.ModeSocket || filepath.Base(socket) != socketName || !strings.HasPrefix(filepath.Base(private), folderPattern) {
		return
	}
	if c, err := net.DialTimeout("unix", socket, brief); err == nil {
		_ = c.Close()
	} else if absent(err) {
		_ = os.Remove(socket)
		_ = os.Remove(private)
	}
}

// socketOf reads the path of the socket of a data folder.
func socketOf(dir string) (string, error) {
	f, err := os.Open(filepath.Join(dir, addressFile))
	if err != nil {
		return "", err
	}
	defer f.Close()
	line, err := io.ReadAll(io.LimitReader(f, 4<<10))
	return strings.TrimSuffix(string(line), "\n"), err
}

// count closes connections beyond the limit. Their clients retry the reads.
func (s *Server) count(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if s.connections.Add(1) > maxConnections {
			_ = c.Close()
		}
	case http.StateClosed, http.StateHijacked:
		s.connections.Add(-1)
	}
}

func hello(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set(versionHeader, version)
	w.WriteHeader(http.StatusNoContent)
}

// object answers with an object, or with the range in the parameters from and length.
func (s *Server) object(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	body, size, err := s.bucket.Open(r.Context(), q.Get("key"))
	if err != nil {
		fail(w, err)
		return
	}
	defer body.Close()
	if q.Has("length") {
		if size, err = skip(body, size, q); err != nil {
			fail(w, err)
			return
		}
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	// A truncated body closes the connection, which the client detects.
	_, _ = io.CopyN(&patientWriter{w, http.NewResponseController(w)}, body, size)
}

// skip advances body to the start of a range, and returns the length of the range.
func skip(body io.Reader, size int64, q url.Values) (int64, error) {
	from, err := strconv.ParseInt(q.Get("from"), 10, 64)
	length, err2 := strconv.ParseInt(q.Get("length"), 10, 64)
	if err = errors.Join(err, err2); err != nil || from < 0 || length <= 0 || from > size-length {
		return 0, &storage.Error{Kind: storage.ErrRefused, Err: fmt.Errorf("object of %d bytes has no range of %.20q bytes at %.20q", size, q.Get("length"), q.Get("from"))}
	}
	if s, ok := body.(io.Seeker); ok {
		_, err = s.Seek(from, io.SeekStart)
	} else {
		_, err = io.CopyN(io.Discard, body, from)
	}
	return length, err
}

// patientWriter sets a new deadline for each write.
type patientWriter struct {
	w        io.Writer
	deadline *http.ResponseController
}

// Write implements io.Writer.
func (p *patientWriter) Write(b []byte) (int, error) {
	if err := p.deadline.SetWriteDeadline(time.Now().Add(stall)); err != nil {
		return 0, err
	}
	return p.w.Write(b)
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	limit, err := strconv.Atoi(q.Get("limit"))
	if err != nil {
		fail(w, &storage.Error{Kind: storage.ErrRefused, Err: fmt.Errorf("invalid limit %.20q: not a number", q.Get("limit"))})
		return
	}
	page, err := s.bucket.List(r.Context(), storage.ListQuery{Prefix: q.Get("prefix"), After: q.Get("after"), Limit: limit, Delimiter: q.Get("delimiter")})
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(page) // The client may have disconnected.
}

// statuses maps the kinds of read errors to statuses; others are StatusServiceUnavailable.
var statuses = map[error]int{storage.ErrNotFound: http.StatusNotFound, storage.ErrRefused: http.StatusBadRequest}

// fail answers with the kind of an error as the status and its cause as the body.
func fail(w http.ResponseWriter, err error) {
	status, cause := http.StatusServiceUnavailable, err
	if e, ok := errors.AsType[*storage.Error](err); ok {
		if cause = e.Err; statuses[e.Kind] != 0 {
			status = statuses[e.Kind]
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set(versionHeader, version)
	w.WriteHeader(status)
	if cause != nil {
		_, _ = io.WriteString(w, cause.Error())
	}
}
