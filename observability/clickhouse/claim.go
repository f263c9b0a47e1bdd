package clickhouse

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/parleyrun/parley/storage"
)

// claim is an object in the bucket that names the node that runs a migration. It saves work and log
// lines only: running a migration twice is harmless.
type claim struct {
	db     *Database
	bucket storage.Bucket // Nil if there is nothing to release.
	key    string
}

const (
	claimPoll    = 100 * time.Millisecond
	claimRelease = 10 * time.Second
)

// claim waits until this node may run a version: it holds the claim, the claim is unavailable, or its
// holder did not finish in time. The version may have been run by then.
func (d *Database) claim(ctx context.Context, bucket storage.Bucket, node string, version int) (_ *claim, err error) {
	c := &claim{db: d, key: storage.MigrationKey(d.identity(), version)}
	if bucket == nil {
		return c, nil
	}
	nonce := rand.Text()
	body, err := json.Marshal(struct {
		Version int       `json:"version"`
		Node    string    `json:"node"`
		Nonce   string    `json:"nonce"`
		At      time.Time `json:"at"`
	}{version, node, nonce, time.Now().UTC()})
	if err != nil {
		return nil, err
	}
	// The wait may exceed the caller's deadline; the caller then retries.
	since, _ := d.waiting.LoadOrStore(c.key, time.Now())
	defer func() {
		if err == nil {
			d.waiting.Delete(c.key)
		}
	}()
	late := time.NewTimer(d.opts.ClaimWait - time.Since(since.(time.Time)))
	defer late.Stop()
	tick := time.NewTicker(claimPoll)
	defer tick.Stop()
	for {
		err := bucket.Create(ctx, c.key, storage.Bytes(body))
		switch {
		case err == nil:
			c.bucket = bucket
			return c, nil
		case errors.Is(err, storage.ErrExists):
			if held, err := bucket.Get(ctx, c.key); err == nil && strings.Contains(string(held), nonce) {
				c.bucket = bucket // An attempt of this node whose answer was lost.
				return c, nil
			}
			if have, err := d.schema(ctx); err == nil && have.version >= version {
				return c, nil
			}
		case errors.Is(err, storage.ErrRefused):
			d.opts.Logger.Warn("migration not claimed", "key", c.key, "err", err)
			return c, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-late.C:
			d.opts.Logger.Warn("claim of a migration skipped", "key", c.key, "err", err)
			c.bucket = bucket
			return c, nil
		case <-tick.C:
		}
	}
}

// release deletes the claim. From then on the table shows that the version is done, or the next node
// tries.
func (c *claim) release(ctx context.Context) {
	if c.bucket == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimRelease)
	defer cancel()
	if err := c.bucket.Delete(ctx, c.key); err != nil {
		c.db.opts.Logger.Warn("claim of a migration left", "key", c.key, "err", err)
	}
}

// identity returns the identity of the database for claims.
func (d *Database) identity() string {
	sum := sha256.Sum256([]byte(strings.Join(slices.Sorted(slices.Values(d.opts.Addresses)), "\x00") + "\x00" + d.opts.Database))
	return hex.EncodeToString(sum[:16])
}
