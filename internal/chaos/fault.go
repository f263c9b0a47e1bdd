package chaos

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"time"
)

// fate is what happens to one request.
type fate int

const (
	delivered   fate = iota
	lostAnswer       // it lands; the connection is reset before the answer
	delayed          // a time-out is answered; it lands much later
	duplicated       // it lands and is answered; a copy lands later
	errorBefore      // 503 is answered; it never lands
	errorAfter       // it lands; 500 is answered
	dropped          // it never lands, and no answer comes
	slow             // it is under way for longer than its sender waits
	fates
)

func (f fate) String() string {
	return [fates]string{"delivered", "lost answer", "delayed", "duplicated", "error before", "error after", "dropped", "slow"}[f]
}

// reads returns what a fate means for a request that changes nothing.
func (f fate) reads() fate {
	switch f {
	case delayed:
		return dropped
	case duplicated:
		return delivered
	}
	return f
}

// draw returns 64 bits that depend on its arguments only.
func draw(seed uint64, what ...any) uint64 {
	h := fnv.New64a()
	h.Write(binary.BigEndian.AppendUint64(nil, seed))
	fmt.Fprintln(h, what...)
	// FNV leaves the high bits of similar inputs similar; mix them.
	x := h.Sum64()
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// share turns a draw into a number in [0, 1).
func share(x uint64) float64 { return float64(x>>11) / (1 << 53) }

// between turns a draw into a duration in [from, to).
func between(x uint64, from, to time.Duration) time.Duration {
	return from + time.Duration(share(x)*float64(to-from))
}

// course is when a request arrives, how long its answer takes, and its fate.
type course struct {
	fate        fate
	there, back time.Duration
	late        time.Duration // until a delayed request, or a copy, lands
}

// plan decides the course of a request.
func plan(seed uint64, rate float64, o op) course {
	id := o.id()
	c := course{
		there: between(draw(seed, "there", id), time.Millisecond, 40*time.Millisecond),
		back:  between(draw(seed, "back", id), time.Millisecond, 40*time.Millisecond),
		late:  between(draw(seed, "late", id), 0, 25*time.Second),
	}
	if d := draw(seed, "fate", id); share(d) < rate {
		c.fate = 1 + fate(draw(seed, "which", id)%uint64(fates-1))
	}
	if !o.writes() {
		c.fate = c.fate.reads()
	}
	if c.fate == slow {
		c.there = between(draw(seed, "slow", id), 500*time.Millisecond, 6*time.Second)
	}
	return c
}
