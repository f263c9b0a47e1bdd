package machine

// probe answers for a writer that an old journal lists. That writer is fenced first: the durable
// prefix must hold a batch of another nonce above the listed position. The machine's memory of an idle
// log is no proof.
func (m *Machine) probe(in Probe) {
	if in.Nonce == m.writer || m.draining || len(m.waits) >= m.cfg.MaxWaiting {
		m.emit(Reply{in.To, Probed{Unknown: true}})
		return
	}
	if !m.isFenced(in) && m.inflight == nil && m.pending.empty() {
		m.enqueueClaim()
	}
	if m.hasDueWork() && listsTakeover() {
		m.takeOver()
	}
	m.waits = append(m.waits, wait{to: in.To, offset: m.state.Head(), probe: &in})
}

// takeOver lists this writer and claims the log if no work makes a batch, because the pending work is
// suspended or a reply.
func (m *Machine) takeOver() {
	m.ensureListed()
	if !m.claimed && m.inflight == nil && m.pending.empty() {
		m.enqueueClaim()
	}
}

// isFenced reports whether the durable prefix holds a batch of another nonce above
// the listed position.
func (m *Machine) isFenced(in Probe) bool {
	if !fencesIdle(m.claimed) && len(m.state.Unsettled()) == 0 {
		return true
	}
	for i, c := range m.claims {
		end := m.durable
		if i+1 < len(m.claims) {
			end = m.claims[i+1].Seq - 1
		}
		if c.Nonce != in.Nonce && end > in.Seq && end >= c.Seq {
			return true
		}
	}
	return false
}

// probeAnswer answers once the listed writer is fenced. The answer is settled if the log is durably idle
// or waits for a stored timer. It is held if this writer works on it and a landed journal lists it.
func (m *Machine) probeAnswer(in Probe) (Answer, bool) {
	switch {
	case !m.isFenced(in): // the log ends before the journal's position: a later scan asks again
		return Probed{Unknown: true}, true
	case m.nothingPending():
		return Probed{}, m.state.Head() == m.durable
	case !m.hasDueWork():
		return Probed{}, m.allSuspended() && m.state.Head() == m.durable
	case m.draining && !m.listed && !m.listing: // it became due since, and no journal lists this writer
		return Probed{Unknown: true}, true
	default:
		return Probed{Held: true}, m.claimed && (m.listed || !holdsWhenListed() || !listsTakeover())
	}
}
