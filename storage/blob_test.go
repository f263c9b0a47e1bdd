package storage_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"testing"
	"testing/synctest"

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
		got, err := storage.GetBlob(t.Context(), b, conv, digest)
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("get: %d bytes, %v", len(got), err)
		}
		if _, err = storage.GetBlob(t.Context(), b, keyOf("y"), digest); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("get from another conversation: %v, want not found", err)
		}
		if err := b.Put(t.Context(), storage.BlobKey(conv, digest), storage.Bytes([]byte("damaged"))); err != nil {
			t.Fatal(err)
		}
		var damaged *storage.IntegrityError
		if _, err = storage.GetBlob(t.Context(), b, conv, digest); !errors.As(err, &damaged) || damaged.Want != digest || damaged.Got == digest {
			t.Errorf("get of a damaged one: %v", err)
		}
	})
}

func TestBlobRefuses(t *testing.T) {
	b := bucket(t, memory(t))
	if err := storage.PutBlob(t.Context(), b, keyOf("x"), storage.Bytes(nil)); !errors.Is(err, storage.ErrRefused) {
		t.Errorf("empty: %v", err)
	}
	if err := storage.PutBlob(t.Context(), b, "x", storage.Bytes([]byte("x"))); !errors.Is(err, storage.ErrRefused) {
		t.Errorf("no conversation: %v", err)
	}
	if _, err := storage.GetBlob(t.Context(), b, "../../../etc", storage.Digest{}); !errors.Is(err, storage.ErrRefused) {
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
