package storage_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/s3server"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
	"github.com/parleyrun/parley/storage/storagetest"
)

func TestBlob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counter := storagetest.NewCounter()
		b := faults(counter.Bucket(memory(t)), "PUT", storagetest.ErrorAfter)
		conv, content := keyOf("x"), bytes.Repeat([]byte("image"), 1000)
		digest := storage.Digest(sha256.Sum256(content))
		for range 2 { // The second put finds the object.
			if err := storage.PutBlob(t.Context(), b, conv, storage.Bytes(content)); err != nil {
				t.Fatal(err)
			}
		}
		if n := counter.Counts()[storagetest.Request{Method: "PUT", Class: storagetest.Blob}]; n != 3 {
			t.Errorf("%d requests, want the lost answer, its retry, and one more", n)
		}
		read := func(conv conversation.Key) ([]byte, error) {
			r, err := storage.OpenBlob(t.Context(), b, conv, digest, int64(len(content)))
			if err != nil {
				return nil, err
			}
			defer r.Close()
			return io.ReadAll(r)
		}
		if got, err := read(conv); err != nil || !bytes.Equal(got, content) {
			t.Errorf("read %d bytes, %v", len(got), err)
		}
		if _, err := read(keyOf("y")); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("from another conversation: %v, want not found", err)
		}
		corrupt := bytes.Replace(content, []byte("image"), []byte("damag"), 1)
		for _, stored := range [][]byte{corrupt, content[1:]} {
			if err := b.Put(t.Context(), storage.BlobKey(conv, digest), storage.Bytes(stored)); err != nil {
				t.Fatal(err)
			}
			_, err := read(conv)
			var integrity *storage.IntegrityError
			switch {
			case err == nil || errors.Is(err, storage.ErrUnavailable):
				t.Errorf("%d different bytes: got %v", len(stored), err)
			case !errors.As(err, &integrity) || integrity.Want != digest:
				t.Errorf("corrupt object: got %v", err)
			case len(stored) == len(content) && (integrity.Got == digest || integrity.Reason() != "digest"),
				len(stored) != len(content) && (integrity.Size != int64(len(stored)) || integrity.Reason() != "size"):
				t.Errorf("%d bytes: %v", len(stored), err)
			}
			if err := storage.PutBlob(t.Context(), b, conv, storage.Bytes(content)); !errors.As(err, &integrity) {
				t.Errorf("put over %d other bytes: got %v", len(stored), err)
			}
		}
	})
}

// pattern is a body of size bytes that takes no memory. Byte flip is inverted; -1 flips none.
type pattern struct{ size, flip, at int64 }

// Read implements io.Reader.
func (p *pattern) Read(b []byte) (int, error) {
	n := min(int64(len(b)), p.size-p.at)
	if n == 0 {
		return 0, io.EOF
	}
	for i := range n {
		b[i] = byte((p.at + i) >> 8)
		if p.at+i == p.flip {
			b[i] ^= 1
		}
	}
	p.at += n
	return int(n), nil
}

// Seek implements io.Seeker, to the start.
func (p *pattern) Seek(int64, int) (int64, error) {
	p.at = 0
	return 0, nil
}

// bodyOf returns a body whose digest matches its content.
func bodyOf(t *testing.T, size, flip int64) storage.Body {
	t.Helper()
	sum := sha256.New()
	if _, err := io.Copy(sum, &pattern{size: size, flip: flip}); err != nil {
		t.Fatal(err)
	}
	return storage.Body{Reader: &pattern{size: size, flip: flip}, Size: size, SHA256: [32]byte(sum.Sum(nil))}
}

// onBuckets runs a test over a folder and over a server, each behind a request counter.
func onBuckets(t *testing.T, test func(t *testing.T, b storage.Bucket, sent *storagetest.Counter)) {
	t.Run("folder", func(t *testing.T) {
		store, err := local.Open(t.TempDir(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		counter := storagetest.NewCounter()
		test(t, counter.Bucket(store), counter)
	})
	t.Run("versitygw", func(t *testing.T) {
		counter := storagetest.NewCounter()
		test(t, counter.Bucket(onServer(t, s3server.Versitygw(t))), counter)
	})
}

// TestLargeBlob stores more bytes than S3 clients send in one part, because a multipart upload would
// lose the condition. It bounds the memory used. A changed object is detected at its end.
func TestLargeBlob(t *testing.T) {
	const allowed = 4 << 20
	size := sample.Of[int64](32<<20, 8<<20)
	good, flipped := bodyOf(t, size, -1), bodyOf(t, size, size-size/3)
	onBuckets(t, func(t *testing.T, b storage.Bucket, sent *storagetest.Counter) {
		read := func() (int64, error) {
			r, err := storage.OpenBlob(t.Context(), b, keyOf("x"), good.SHA256, size)
			if err != nil {
				return 0, err
			}
			defer r.Close()
			return io.CopyBuffer(struct{ io.Writer }{io.Discard}, r, make([]byte, 32<<10))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 2 { // The second put finds the object and reads it.
			if err := storage.PutBlob(t.Context(), b, keyOf("x"), good); err != nil {
				t.Fatal(err)
			}
		}
		n, err := read()
		runtime.ReadMemStats(&after)
		if err != nil || n != size {
			t.Errorf("read %d bytes, %v", n, err)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > allowed {
			t.Errorf("allocated %d bytes in all", got)
		}
		for r, n := range sent.Counts() {
			if r.Class != storagetest.Blob || r.Method != "PUT" && r.Method != "GET" || n != 2 {
				t.Errorf("%d requests %v", n, r)
			}
		}
		key := storage.BlobKey(keyOf("x"), good.SHA256)
		for reason, other := range map[string]storage.Body{"digest": flipped, "size": bodyOf(t, size-1, -1)} {
			if err := b.Put(t.Context(), key, other); err != nil {
				t.Fatal(err)
			}
			_, readErr := read()
			for _, err := range []error{readErr, storage.PutBlob(t.Context(), b, keyOf("x"), good)} {
				var integrity *storage.IntegrityError
				if !errors.As(err, &integrity) || integrity.Reason() != reason {
					t.Errorf("wrong %s: got %v", reason, err)
				}
			}
		}
	})
}

// TestPutBlobVerifies checks that a body that does not match its digest is detected before the store
// has all of it, and is not retried.
func TestPutBlobVerifies(t *testing.T) {
	const size = 300 << 10
	good := bodyOf(t, size, -1)
	onBuckets(t, func(t *testing.T, b storage.Bucket, sent *storagetest.Counter) {
		for name, tt := range map[string]struct {
			source *pattern
			reason string
			size   int64
		}{
			"too short":      {&pattern{size: size - 1, flip: -1}, "size", size - 1},
			"too long":       {&pattern{size: size + 5, flip: -1}, "size", size + 5},
			"nothing":        {&pattern{}, "size", 0},
			"a flipped byte": {&pattern{size: size, flip: 7}, "digest", size},
			"the last byte":  {&pattern{size: size, flip: size - 1}, "digest", size},
		} {
			sent.Reset()
			err := storage.PutBlob(t.Context(), b, keyOf("x"), storage.Body{Reader: tt.source, Size: size, SHA256: good.SHA256})
			var integrity *storage.IntegrityError
			if !errors.As(err, &integrity) || integrity.Reason() != tt.reason || integrity.Size != tt.size || integrity.WantSize != size || integrity.Want != good.SHA256 {
				t.Errorf("%s: %v, want another %s", name, err, tt.reason)
			}
			if n := sent.Counts()[storagetest.Request{Method: "PUT", Class: storagetest.Blob}]; n > 1 {
				t.Errorf("%s: sent %d times", name, n)
			}
			if _, err := b.Get(t.Context(), storage.BlobKey(keyOf("x"), good.SHA256)); !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("%s: stored: %v", name, err)
			}
		}
		lost := &failing{}
		if err := storage.PutBlob(t.Context(), b, keyOf("x"), storage.Body{Reader: lost, Size: size, SHA256: good.SHA256}); !errors.Is(err, errDisk) {
			t.Errorf("unreadable body: got %v", err)
		}
		if err := storage.PutBlob(t.Context(), b, keyOf("x"), good); err != nil {
			t.Errorf("correct body: got %v", err)
		}
	})
}

var errDisk = errors.New("disk is gone")

// failing is a body whose reads fail.
type failing struct{}

// Read implements io.Reader.
func (f *failing) Read([]byte) (int, error) { return 0, errDisk }

// Seek implements io.Seeker.
func (f *failing) Seek(int64, int) (int64, error) { return 0, nil }

// TestBlobCutOff checks that a truncated download fails.
func TestBlobCutOff(t *testing.T) {
	b := behindS3(t, cutOff{memory(t)})
	body := bodyOf(t, 5000, -1)
	if err := storage.PutBlob(t.Context(), b, keyOf("x"), body); err != nil {
		t.Fatal(err)
	}
	r, err := storage.OpenBlob(t.Context(), b, keyOf("x"), body.SHA256, body.Size)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if n, err := io.Copy(io.Discard, r); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("read %d bytes, %v; want no answer", n, err)
	}
}

// cutOff is a bucket whose downloads are truncated.
type cutOff struct{ storage.Bucket }

// Open implements storage.Bucket.
func (c cutOff) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	r, size, err := c.Bucket.Open(ctx, key)
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(r, 1000), r}, size, err
}

// TestOpenBlobAsksAgain checks that OpenBlob retries a bucket without an answer a limited number of
// times.
func TestOpenBlobAsksAgain(t *testing.T) {
	for _, tt := range []struct {
		failures int
		want     error
	}{{1, nil}, {3, nil}, {4, storage.ErrUnavailable}} {
		synctest.Test(t, func(t *testing.T) {
			content := []byte("image")
			outage := &outage{Bucket: memory(t), left: tt.failures}
			if err := storage.PutBlob(t.Context(), outage, keyOf("x"), storage.Bytes(content)); err != nil {
				t.Fatal(err)
			}
			r, err := storage.OpenBlob(t.Context(), outage, keyOf("x"), sha256.Sum256(content), int64(len(content)))
			if !errors.Is(err, tt.want) {
				t.Errorf("after %d failures: %v, want %v", tt.failures, err, tt.want)
			}
			if err == nil {
				r.Close()
			}
		})
	}
}

// outage is a bucket whose first requests get no answer.
type outage struct {
	storage.Bucket
	left int
}

// Open implements storage.Bucket.
func (o *outage) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	if o.left > 0 {
		o.left--
		return nil, 0, &storage.Error{Op: "open", Key: key, Kind: storage.ErrUnavailable, Status: 503}
	}
	return o.Bucket.Open(ctx, key)
}

func TestBlobRefuses(t *testing.T) {
	b := memory(t)
	if err := storage.PutBlob(t.Context(), b, keyOf("x"), storage.Bytes(nil)); !errors.Is(err, storage.ErrRefused) {
		t.Errorf("empty: %v", err)
	}
	if err := storage.PutBlob(t.Context(), b, "x", storage.Bytes([]byte("x"))); !errors.Is(err, storage.ErrRefused) {
		t.Errorf("no conversation: %v", err)
	}
	if _, err := storage.OpenBlob(t.Context(), b, "../../../etc", storage.Digest{}, 1); !errors.Is(err, storage.ErrRefused) {
		t.Errorf("no conversation: %v", err)
	}
}

func TestTextForms(t *testing.T) {
	var d storage.Digest
	for _, s := range []string{"", "00", storage.Digest{1}.String() + "0", "G" + storage.Digest{}.String()[1:], "AB" + storage.Digest{}.String()[2:]} {
		if err := d.UnmarshalText([]byte(s)); err == nil {
			t.Errorf("digest %q is accepted", s)
		}
	}
	want := storage.Digest(sha256.Sum256([]byte("x")))
	if err := d.UnmarshalText([]byte(want.String())); err != nil || d != want {
		t.Errorf("digest %s, %v; want %s", d, err, want)
	}
}
