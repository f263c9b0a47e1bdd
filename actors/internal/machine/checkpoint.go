package machine

import (
	"fmt"

	"github.com/parleyrun/parley/conversation"
)

// keptClaims bounds the claims that are remembered. A poke about an older writer is
// answered by a batch of this one instead.
const keptClaims = 64

// largeState is from when on, in bytes, the size of a state counts: a large one is not
// written again for a few words.
const largeState = 1 << 20

// grown counts what the log has grown by since the last checkpoint. While work is under
// way another waits for due bytes, a quarter of what the last one held beyond largeState.
type grown struct{ batches, bytes, due int }

func (g *grown) add(bytes int) {
	g.batches++
	g.bytes += bytes
}

// perRecord is about what a record takes beside what it holds from outside, in bytes.
const perRecord = 100

// checkpoint asks to store what the log folds to, if it has grown by enough and
// everything in the state is durable. In the middle of a stream that is not so; the
// next append asks again.
func (m *Machine) checkpoint(batches int) {
	if m.grown.batches < max(batches, 1) && m.grown.bytes < m.cfg.CheckpointBytes || m.grown.bytes < m.grown.due && m.work != nil ||
		m.inflight != nil || !m.pending.empty() || !m.state.Exists() {
		return
	}
	if n := len(m.claims) - keptClaims; n > 0 {
		m.claims = append([]Claim(nil), m.claims[n:]...)
	}
	e := Checkpoint{At: m.durable, Of: m.state.Created().Address(), Claims: append([]Claim(nil), m.claims...)}
	page, err := m.state.Cut()
	for ; err == nil && page != nil; page, err = m.state.Cut() {
		e.Closed = append(e.Closed, page)
	}
	if err == nil {
		e.State, err = conversation.EncodeState(m.state)
	}
	if err != nil {
		panic(fmt.Sprintf("machine: %v", err))
	}
	m.size, m.grown = len(e.State), grown{due: max(len(e.State)-largeState, 0) / 4}
	m.emit(e)
}
