package machine

import (
	"fmt"

	"github.com/parleyrun/parley/conversation"
)

// keptClaims bounds the remembered claims. A probe about an older writer is answered by a claim batch
// instead.
const keptClaims = 64

// largeState is the size in bytes above which a checkpoint waits for more growth, because a large
// state is costly to write.
const largeState = 1 << 20

// grown counts the growth of the log since the last checkpoint. While work is under way, the next
// checkpoint waits for due bytes: a quarter of what the last state had beyond largeState.
type grown struct{ batches, bytes, due int }

func (g *grown) add(bytes int) {
	g.batches++
	g.bytes += bytes
}

// perRecord estimates the size of a record without its payload, in bytes.
const perRecord = 100

// checkpoint emits [Checkpoint] if the log has grown enough and the whole state is durable. During a
// stream it is not durable; the next append tries again.
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
