package machine

import (
	"fmt"

	"github.com/parleyrun/parley/conversation"
)

// keptClaims bounds the claims that are remembered. A poke about an older writer is
// answered by a batch of this one instead.
const keptClaims = 64

// grown counts what the log has grown by since the last checkpoint.
type grown struct{ batches, bytes int }

func (g *grown) add(b *conversation.Batch) {
	g.batches++
	for _, r := range b.Records {
		g.bytes += 100 + weight(r)
	}
}

// checkpoint asks to store what the log folds to, if it has grown by enough and
// everything in the state is durable. In the middle of a stream that is not so; the
// next append asks again.
func (m *Machine) checkpoint(batches int) {
	if m.grown.batches < max(batches, 1) && m.grown.bytes < m.cfg.CheckpointBytes ||
		m.inflight != nil || !m.pending.empty() || !m.state.Exists() {
		return
	}
	if n := len(m.claims) - keptClaims; n > 0 {
		m.claims = append([]Claim(nil), m.claims[n:]...)
	}
	e := Checkpoint{At: m.durable, Claims: append([]Claim(nil), m.claims...)}
	var err error
	if e.Closed, err = m.state.Cut(); err == nil {
		e.State, err = conversation.EncodeState(m.state)
	}
	if err != nil {
		panic(fmt.Sprintf("machine: %v", err))
	}
	m.grown = grown{}
	m.emit(e)
}
