package machine

import (
	"github.com/oklog/ulid/v2"

	"github.com/parleyrun/parley/conversation"
)

// minter mints the ids of one step. They are ULIDs of the step's time. Their random part starts at the
// seed and counts up, so that ids of one step sort in the order of minting.
type minter struct {
	at   conversation.Time
	seed [10]byte
}

func (m *minter) next(prefix string) string {
	var id ulid.ULID
	// The only error is a time after the year 10889.
	_ = id.SetTime(uint64(m.at))
	_ = id.SetEntropy(m.seed[:])
	for i := len(m.seed) - 1; i >= 0; i-- {
		m.seed[i]++
		if m.seed[i] != 0 {
			break
		}
	}
	return prefix + id.String()
}
