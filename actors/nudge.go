package actors

// nudge wakes who receives from ch, whose capacity is 1, unless a wake-up waits there
// already. It does not block.
func nudge(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
