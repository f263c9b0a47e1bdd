package storage_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"testing"
	"testing/synctest"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/storagetest"
)

func TestBlob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counter := storagetest.NewCounter(memory(t))
		b := bucket(t, faults(counter, "PUT", storagetest.ErrorAfter))
		conv, content := keyOf("x"), bytes.Repeat([]byte("image"), 1000)
		digest := storage.Digest(sha256.Sum256(content))
		for range 2 { // The second time it is there already.
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
		damaged := bytes.Replace(content, []byte("image"), []byte("damag"), 1)
		for _, stored := range [][]byte{damaged, content[1:]} {
			if err := b.Put(t.Context(), storage.BlobKey(conv, digest), storage.Bytes(stored)); err != nil {
				t.Fatal(err)
			}
			_, err := read(conv)
			var integrity *storage.IntegrityError
			switch {
			case err == nil || errors.Is(err, storage.ErrUnavailable):
				t.Errorf("%d bytes that are others: %v", len(stored), err)
			case !errors.As(err, &integrity) || integrity.Want != digest:
				t.Errorf("a damaged one: %v", err)
			case len(stored) == len(content) && (integrity.Got == digest || integrity.Reason() != "digest"),
				len(stored) != len(content) && (integrity.Size != int64(len(stored)) || integrity.Reason() != "size"):
				t.Errorf("%d bytes: %v", len(stored), err)
			}
			if err := storage.PutBlob(t.Context(), b, conv, storage.Bytes(content)); !errors.As(err, &integrity) {
				t.Errorf("put where %d other bytes stand: %v", len(stored), err)
			}
		}
	})
}

// TestOpenBlobAsksAgain while the bucket gives no answer, but not for ever.
func TestOpenBlobAsksAgain(t *testing.T) {
	for _, tt := range []struct {
		failures int
		want     error
	}{{1, nil}, {3, nil}, {4, storage.ErrUnavailable}} {
		synctest.Test(t, func(t *testing.T) {
			content := []byte("image")
			outage := &outage{Bucket: bucket(t, memory(t)), left: tt.failures}
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

// outage is a bucket that does not answer a number of times.
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
	b := bucket(t, memory(t))
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
