package chaos

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/parleyrun/parley/storage"
)

// cached reports whether an object of a conversation is a shortcut that the log can
// do without: the head, a checkpoint or a page of closed history.
func cached(key string) bool {
	parts := strings.Split(key, "/")
	return len(parts) == 3 && parts[2] == "head" || len(parts) == 4 && (parts[2] == "ckpt" || parts[2] == "page")
}

// damage spoils some of the shortcuts, as bad disks and careless people do.
func (w *world) damage(ctx context.Context, rng *rand.Rand) {
	for c := range w.profile.conversations() {
		if rng.IntN(2) == 0 {
			continue
		}
		page, err := w.bucket.List(ctx, storage.ListQuery{Prefix: strings.TrimSuffix(storage.HeadKey(address(c).Key()), "head")})
		if err != nil {
			w.trace.Violate("", "list: %v", err)
			return
		}
		for _, k := range page.Keys {
			if cached(k.Key) && rng.IntN(3) == 0 {
				if err := w.spoil(ctx, rng, k.Key); err != nil {
					w.trace.Violate("", "spoil %s: %v", k.Key, err)
				}
			}
		}
	}
}

func (w *world) spoil(ctx context.Context, rng *rand.Rand, key string) error {
	data, err := w.bucket.Get(ctx, key)
	if err != nil {
		return fmt.Errorf("get: %w", err)
	}
	w.shown.Add(didDamage)
	how := rng.IntN(4)
	w.trace.Add("", "damage %d to %s", how, key)
	switch how {
	case 0:
		return w.bucket.Delete(ctx, key)
	case 1:
		data = data[:1+rng.IntN(len(data))/2]
	case 2:
		data[rng.IntN(len(data))] ^= 1 << rng.IntN(8)
	case 3:
		data = []byte("what is this?")
	}
	return w.bucket.Put(ctx, key, storage.Bytes(data))
}

// cacheRead counts a read of a shortcut that the bucket has answered, nil for none.
func (w *world) cacheRead(key string, body []byte) {
	sum := sha256.Sum256(body)
	_, name, _ := strings.Cut(key[strings.LastIndex(key, "/")+1:], "-")
	switch {
	case strings.HasSuffix(key, "/head"):
	case body == nil || !strings.HasPrefix(hex.EncodeToString(sum[:]), name):
		w.shown.Add(didMeetDamage)
	case strings.Contains(key, "/ckpt/"):
		w.shown.Add(didRestore)
	default:
		w.shown.Add(didPage)
	}
}
