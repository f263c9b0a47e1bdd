package s3_test

import (
	"crypto/sha256"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"testing"

	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/s3"
)

// zeros is a body of size bytes that takes no memory.
type zeros struct{ size, at int64 }

// Read implements io.Reader.
func (z *zeros) Read(p []byte) (int, error) {
	n := min(int64(len(p)), z.size-z.at)
	if n == 0 {
		return 0, io.EOF
	}
	clear(p[:n])
	z.at += n
	return int(n), nil
}

// Seek implements io.Seeker, to the start.
func (z *zeros) Seek(int64, int) (int64, error) {
	z.at = 0
	return 0, nil
}

// TestLargeObjectIsNeverInMemory bounds the memory allocated while an object is stored and read, on
// both sides of the connection.
func TestLargeObjectIsNeverInMemory(t *testing.T) {
	const size = 32 << 20
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"any"`)
		if r.Method == http.MethodPut {
			if n, err := io.Copy(io.Discard, r.Body); err != nil || n != size {
				t.Errorf("stored %d bytes, %v", n, err)
			}
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(size))
		w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
		_, _ = io.Copy(w, &zeros{size: size})
	}))
	defer server.Close()
	network := s3.NewTransport()
	defer network.CloseIdleConnections()
	b, err := s3.New(&s3.Options{
		Endpoint: server.Listener.Addr().String(), Bucket: "b-1", PathStyle: true, AccessKey: "id", SecretKey: "secret", Transport: network,
	})
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, &zeros{size: size}); err != nil {
		t.Fatal(err)
	}
	body := storage.Body{Reader: &zeros{size: size}, Size: size, SHA256: storage.Digest(sum.Sum(nil))}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := b.Create(t.Context(), "blob", body); err != nil {
		t.Fatal(err)
	}
	r, n, err := b.Open(t.Context(), "blob")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	read, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, r, make([]byte, 32<<10))
	runtime.ReadMemStats(&after)
	if err != nil || n != size || read != size {
		t.Errorf("read %d bytes of %d, %v", read, n, err)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 2<<20 {
		t.Errorf("allocated %d bytes", got)
	}
}
