package machine

// poke answers for a writer that an old journal lists. That writer is fenced
// first: a batch of another nonce above the listed position must stand in the
// durable prefix. What this machine remembers of an idle log is no proof.
func (m *Machine) probe(in Probe) {
	if in.Nonce == m.writer || m.draining || len(m.waits) >= m.cfg.MaxWaiting {
		m.emit(Reply{in.To, Probed{Unknown: true}})
		return
	}
	if !m.shows(in) && m.inflight == nil && m.pending.empty() {
		m.enqueueClaim()
	}
	if m.ready() && listsTakeover() {
		m.takeOver()
	}
	m.waits = append(m.waits, wait{to: in.To, offset: m.state.Head(), probe: &in})
}

// takeOver has this writer listed, and known in the log where no work makes a batch: what is owed is
// parked, or a reply.
func (m *Machine) takeOver() {
	m.ensureListed()
	if !m.claimed && m.inflight == nil && m.pending.empty() {
		m.enqueueClaim()
	}
}

// shows reports whether the durable prefix holds a batch of another nonce above
// the listed position.
func (m *Machine) shows(in Probe) bool {
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

// dueProbe answers once the listed writer is fenced: settled if the log is
// durably idle, or waits for a time with its timer stored; held if this writer works on it and a landed journal says so.
func (m *Machine) dueProbe(in Probe) (Answer, bool) {
	switch {
	case !m.shows(in): // the log is shorter than the journal says: a later sweep asks again
		return Probed{Unknown: true}, true
	case m.over():
		return Probed{}, m.state.Head() == m.durable
	case !m.ready():
		return Probed{}, m.allSuspended() && m.state.Head() == m.durable
	case m.draining && !m.listed && !m.listing: // its time has come since, and nothing lists this writer any more
		return Probed{Unknown: true}, true
	default:
		return Probed{Held: true}, m.claimed && (m.listed || !holdsWhenListed() || !listsTakeover())
	}
}
