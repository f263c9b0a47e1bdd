package readsocket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"github.com/parleyrun/parley/storage"
)

const (
	// connectionsOfClient limits the connections of one command. An open stream holds one.
	connectionsOfClient = 8
	// answerWithin bounds the wait for the beginning of an answer.
	answerWithin = 30 * time.Second
	// maxPage exceeds the size of 1,000 keys of 1 KiB; maxCause limits the cause of an error. In
	// bytes.
	maxPage, maxCause = 16 << 20, 64 << 10
)

// ErrNotServed reports that no process offers the data folder to readers.
var ErrNotServed = errors.New("no process serves the data folder to readers")

// errReads is the error of every write.
var errReads = errors.New("the data folder is read-only next to the process that serves it")

// Bucket reads the bucket of a process that serves a data folder.
type Bucket struct {
	client *http.Client
}

var _ storage.Bucket = (*Bucket)(nil)

// Open connects to the process that serves the data folder dir. It fails with ErrNotServed if
// there is none. The caller must Close the Bucket.
func Open(dir string) (*Bucket, error) {
	socket, err := socketOf(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !filepath.IsAbs(socket) {
		return nil, ErrNotServed
	}
	if err != nil {
		return nil, fmt.Errorf("open read socket: %w", err)
	}
	dialer := &net.Dialer{Timeout: brief}
	b := &Bucket{&http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", socket)
		},
		MaxConnsPerHost: connectionsOfClient, MaxIdleConnsPerHost: connectionsOfClient, ResponseHeaderTimeout: answerWithin, DisableCompression: true,
	}}}
	if err := b.handshake(); err != nil {
		_ = b.Close()
		if absent(err) {
			return nil, ErrNotServed
		}
		return nil, fmt.Errorf("open read socket %s: %w", socket, err)
	}
	return b, nil
}

// absent reports whether there is no listener. A hanging process has one, and so may one of another
// user.
func absent(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial" && !op.Timeout() && !errors.Is(err, fs.ErrPermission)
}

// handshake checks that the peer is a server of this version.
func (b *Bucket) handshake() error {
	ctx, cancel := context.WithTimeout(context.Background(), brief)
	defer cancel()
	resp, err := b.ask(ctx, "/", nil)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if got := resp.Header.Get(versionHeader); resp.StatusCode != http.StatusNoContent || got != version {
		return fmt.Errorf("status %d, version %q of the protocol, want %q: use the program that serves the folder", resp.StatusCode, got, version)
	}
	return nil
}

func (b *Bucket) ask(ctx context.Context, path string, query url.Values) (*http.Response, error) {
	u := url.URL{Scheme: "http", Host: "parley", Path: path, RawQuery: query.Encode()}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	return b.client.Do(r)
}

// Close closes the connections.
func (b *Bucket) Close() error {
	b.client.CloseIdleConnections()
	return nil
}

// Create implements storage.Bucket. It returns an error.
func (b *Bucket) Create(ctx context.Context, key string, _ storage.Body) error {
	return refuse(ctx, storage.OpCreate, key)
}

// Put implements storage.Bucket. It returns an error.
func (b *Bucket) Put(ctx context.Context, key string, _ storage.Body) error {
	return refuse(ctx, storage.OpPut, key)
}

// Delete implements storage.Bucket. It returns an error.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	return refuse(ctx, storage.OpDelete, key)
}

func refuse(ctx context.Context, op, key string) error {
	if ctx.Err() != nil {
		return &storage.Error{Op: op, Key: key, Err: context.Cause(ctx)}
	}
	return &storage.Error{Op: op, Key: key, Kind: storage.ErrRefused, Err: errReads}
}

// Get implements storage.Bucket.
func (b *Bucket) Get(ctx context.Context, key string) ([]byte, error) {
	return b.get(ctx, key, url.Values{"key": {key}})
}

// GetRange implements storage.Bucket.
func (b *Bucket) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	return b.get(ctx, key, url.Values{"key": {key}, "from": {strconv.FormatInt(offset, 10)}, "length": {strconv.FormatInt(length, 10)}})
}

func (b *Bucket) get(ctx context.Context, key string, query url.Values) ([]byte, error) {
	resp, err := b.read(ctx, storage.OpGet, key, "/object", query)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, &storage.Error{Op: storage.OpGet, Key: key, Kind: storage.ErrUnavailable, Err: err}
	}
	return data, nil
}

// Open implements storage.Bucket. ctx must stay valid until the reader is closed.
func (b *Bucket) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	resp, err := b.read(ctx, storage.OpOpen, key, "/object", url.Values{"key": {key}})
	if err != nil {
		return nil, 0, err
	}
	return &objectReader{resp.Body, key}, resp.ContentLength, nil
}

// objectReader streams one object. The transport reports a truncated body.
type objectReader struct {
	io.ReadCloser
	key string
}

// Read implements io.Reader.
func (r *objectReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = &storage.Error{Op: storage.OpOpen, Key: r.key, Kind: storage.ErrUnavailable, Err: err}
	}
	return n, err
}

// List implements storage.Bucket.
func (b *Bucket) List(ctx context.Context, q storage.ListQuery) (page storage.ListPage, err error) {
	resp, err := b.read(ctx, storage.OpList, q.Prefix, "/list", url.Values{
		"prefix": {q.Prefix}, "after": {q.After}, "limit": {strconv.Itoa(q.Limit)}, "delimiter": {q.Delimiter},
	})
	if err != nil {
		return page, err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxPage)).Decode(&page); err != nil {
		return storage.ListPage{}, &storage.Error{Op: storage.OpList, Key: q.Prefix, Kind: storage.ErrUnavailable, Err: err}
	}
	return page, nil
}

// read sends a request and returns its answer, or the error that storage.Bucket specifies.
func (b *Bucket) read(ctx context.Context, op, key, path string, query url.Values) (*http.Response, error) {
	if ctx.Err() != nil {
		return nil, &storage.Error{Op: op, Key: key, Err: context.Cause(ctx)}
	}
	resp, err := b.ask(ctx, path, query)
	if err != nil {
		return nil, &storage.Error{Op: op, Key: key, Kind: storage.ErrUnavailable, Err: err}
	}
	if resp.StatusCode == http.StatusOK && resp.ContentLength >= 0 || resp.StatusCode == http.StatusOK && op == storage.OpList {
		return resp, nil
	}
	defer resp.Body.Close()
	e := &storage.Error{Op: op, Key: key, Kind: storage.ErrUnavailable}
	switch cause, _ := io.ReadAll(io.LimitReader(resp.Body, maxCause)); {
	case resp.StatusCode == http.StatusNotFound && resp.Header.Get(versionHeader) != "":
		e.Kind = storage.ErrNotFound
	case resp.StatusCode/100 == 4:
		e.Kind, e.Err = storage.ErrRefused, errors.New(string(cause))
	case len(cause) > 0:
		e.Err = errors.New(string(cause))
	default:
		e.Err = fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil, e
}
