package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
)

// rawBody is a raw object: about as large as a small batch.
func rawBody() []byte { return bytes.Repeat([]byte("abcdefghijklmnopqrstuvwxyz"), 12)[:300] }

// rawSyncs times the lower bound of a durable write: append to an open file next to the server's
// folder, and fsync.
func rawSyncs(ctx context.Context, j *job) (err error) {
	f, err := os.Create(filepath.Join(j.dir, "raw-fsync"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	body := rawBody()
	return j.measure(ctx, 1, warmUps.of(&j.o), func(context.Context, int) (time.Duration, error) {
		return clocked(func() error {
			if _, err := f.Write(body); err != nil {
				return err
			}
			return f.Sync()
		})
	})
}

// rawPuts times conditional PUTs into a folder next to the server's, with the same bucket
// implementation.
func rawPuts(writers int) func(context.Context, *job) error {
	return func(ctx context.Context, j *job) (err error) {
		store, err := local.Open(filepath.Join(j.dir, fmt.Sprintf("raw-%d", writers)), nil)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, store.Close()) }()
		body := rawBody()
		err = j.measure(ctx, writers, max(writers, warmUps.of(&j.o)), func(ctx context.Context, i int) (time.Duration, error) {
			return clocked(func() error { return store.Create(ctx, fmt.Sprintf("raw/%08d", i), storage.Bytes(body)) })
		})
		if err == nil && writers == 1 {
			j.rawPut = j.Latency.P50
		}
		return err
	}
}
