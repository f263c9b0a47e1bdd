package schedule

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"time"
)

// Draw returns 64 bits that depend on its arguments only.
func Draw(seed uint64, what ...any) uint64 {
	h := fnv.New64a()
	h.Write(binary.BigEndian.AppendUint64(nil, seed))
	fmt.Fprintln(h, what...)
	return mix(h.Sum64()) // FNV leaves the high bits of similar inputs similar.
}

func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Share turns a draw into a number in [0, 1).
func Share(x uint64) float64 { return float64(x>>11) / (1 << 53) }

// Between turns a draw into a duration in [from, to).
func Between(x uint64, from, to time.Duration) time.Duration {
	return from + time.Duration(Share(x)*float64(to-from))
}

// Sleep lets virtual time pass.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Dice are as many draws as one asks for.
type Dice uint64

// DiceOf returns dice that depend on their arguments only.
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
