package machine

import "fmt"

// CheckSums compares the machine's running sums with recomputed ones.
func (m *Machine) CheckSums() error {
	flying, pending := 0, 0
	if m.inflight != nil {
		for _, r := range m.inflight.Records {
			flying += perRecord + weight(r)
		}
	}
	for _, b := range m.pending.batches {
		pending += len(b.text)
		for _, r := range b.records {
			pending += weight(r)
		}
	}
	if m.inflightBytes != flying || m.pending.bytes != pending {
		return fmt.Errorf("bytes in flight and pending: got %d and %d, want %d and %d", m.inflightBytes, m.pending.bytes, flying, pending)
	}
	return nil
}
