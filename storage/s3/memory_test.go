package s3_test

import (
	"crypto/sha256"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
	"github.com/parleyrun/parley/storage/s3"
)

// zeros are so many bytes that take no memory.
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

// TestLargeObjectIsNeverInMemory counts all that is allocated while an object is
// stored and read again, on both sides of the wire.
func TestLargeObjectIsNeverInMemory(t *testing.T) {
	store, err := local.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	server := httptest.NewServer(store)
	defer server.Close()
	for name, o := range map[string]s3.Options{
		"in process":     {Endpoint: local.Endpoint, Transport: store},
		"over a network": {Endpoint: strings.TrimPrefix(server.URL, "http://"), Transport: s3.NewTransport(), AccessKey: "id", SecretKey: "secret"},
	} {
		t.Run(name, func(t *testing.T) {
			o.Bucket, o.Region, o.PathStyle = local.Bucket, local.Region, true
			b, err := s3.New(&o)
			if err != nil {
				t.Fatal(err)
			}
			if network, ok := o.Transport.(*http.Transport); ok {
				defer network.CloseIdleConnections()
			}
			const size = 32 << 20
			sum := sha256.New()
			if _, err := io.Copy(sum, &zeros{size: size}); err != nil {
				t.Fatal(err)
			}
			body := storage.Body{Reader: &zeros{size: size}, Size: size, SHA256: storage.Digest(sum.Sum(nil))}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if err := b.Create(t.Context(), "blob/"+name, body); err != nil {
				t.Fatal(err)
			}
			r, n, err := b.Open(t.Context(), "blob/"+name)
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
		})
	}
}
