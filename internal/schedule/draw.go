package schedule

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"sync"
	"time"
)

// Draw returns 64 bits that depend only on its arguments.
func Draw(seed uint64, desc ...any) uint64 {
	h := fnv.New64a()
	h.Write(binary.BigEndian.AppendUint64(nil, seed))
	fmt.Fprintln(h, desc...)
	return mix(h.Sum64()) // FNV leaves the high bits of similar inputs similar.
}

func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Share maps a draw to a number in [0, 1).
func Share(x uint64) float64 { return float64(x>>11) / (1 << 53) }

// Between maps a draw to a duration in [from, to).
func Between(x uint64, from, to time.Duration) time.Duration {
	return from + time.Duration(Share(x)*float64(to-from))
}

// Sleep waits in virtual time.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return ctx.Err()
}

// Dice is a sequence of draws.
type Dice uint64

// DiceOf returns dice that depend only on its arguments.
func DiceOf(seed uint64, n int, names ...string) *Dice {
	h := fnv.New64a()
	h.Write(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, seed), uint64(n)))
	for _, name := range names {
		io.WriteString(h, name)
		h.Write([]byte{0})
	}
	d := Dice(h.Sum64())
	return &d
}

// Uint64 returns the next draw.
func (d *Dice) Uint64() uint64 {
	*d += 0x9e3779b97f4a7c15
	return mix(uint64(*d))
}

// Share is [Share] of the next draw.
func (d *Dice) Share() float64 { return Share(d.Uint64()) }

// Between is [Between] of the next draw.
func (d *Dice) Between(from, to time.Duration) time.Duration { return Between(d.Uint64(), from, to) }

// Counter counts by key. The zero value is empty.
type Counter[K comparable] struct {
	mu sync.Mutex
	n  map[K]int
}

// Next counts a key and returns its previous count.
func (c *Counter[K]) Next(k K) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[K]int{}
	}
	c.n[k]++
	return c.n[k] - 1
}

// Count returns the count of a key.
func (c *Counter[K]) Count(k K) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[k]
}
