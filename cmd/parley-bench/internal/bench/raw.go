package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
)

// rawBytes is the size of a raw object: about that of a small batch.
const rawBytes = 300

func rawBody() []byte {
	body := make([]byte, rawBytes)
	for i := range body {
		body[i] = byte('a' + i%26)
	}
	return body
}

// rawSyncs times what no durable write is faster than: the bytes appended to an open
// file beside the server's folder, and fsync.
func rawSyncs(ctx context.Context, r *runner, out *Scenario) (err error) {
	f, err := os.Create(filepath.Join(r.dir, "raw-fsync"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	body := rawBody()
	op := func(context.Context, int) (time.Duration, error) {
		start := time.Now()
		if _, err := f.Write(body); err != nil {
			return 0, err
		}
		err := f.Sync()
		return time.Since(start), err
	}
	if _, err := r.loop(ctx, 1, r.c.Warmup, op); err != nil {
		return err
	}
	samples, err := r.timed(ctx, out, 1, r.c.RawPuts, op)
	if err == nil {
		out.rated(samples)
	}
	return err
}

// rawPuts times conditional PUTs into a folder beside the server's, by the
// same bucket.
func rawPuts(writers int) func(context.Context, *runner, *Scenario) error {
	return func(ctx context.Context, r *runner, out *Scenario) (err error) {
		store, err := local.Open(filepath.Join(r.dir, fmt.Sprintf("raw-%d", writers)), nil)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, store.Close()) }()
		body := rawBody()
		put := func(ctx context.Context, key string) (time.Duration, error) {
			start := time.Now()
			err := store.Create(ctx, key, storage.Bytes(body))
			return time.Since(start), err
		}
		warm := func(ctx context.Context, i int) (time.Duration, error) { return put(ctx, fmt.Sprintf("warm/%08d", i)) }
		if _, err := r.loop(ctx, writers, max(writers, r.c.Warmup), warm); err != nil {
			return err
		}
		samples, err := r.timed(ctx, out, writers, r.c.RawPuts, func(ctx context.Context, i int) (time.Duration, error) {
			return put(ctx, fmt.Sprintf("raw/%08d", i))
		})
		if err != nil {
			return err
		}
		out.rated(samples)
		if writers == 1 {
			r.rawPut = out.Latency.P50
		}
		return nil
	}
}
