package memory

import (
	"context"
	"slices"
)

// waiter is a claim that waits for memory.
type waiter struct {
	account *Account
	bytes   int64
	granted chan struct{} // closed under the budget's lock once the bytes are reserved
}

// Wait reserves n bytes as [Account.Take] does, and waits for memory in order of arrival. Claims of up
// to 64 KiB do not wait behind larger ones. An account that holds nothing gets any claim, so that one
// at a time always proceeds. If ctx ends first, Wait returns its error and reserves nothing.
func (a *Account) Wait(ctx context.Context, n int64) error {
	if a == nil {
		return nil
	}
	b := a.budget
	b.mu.Lock()
	w := &waiter{account: a, bytes: n, granted: make(chan struct{})}
	b.waiters = append(b.waiters, w)
	b.grant()
	b.mu.Unlock()
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.waiters, w)
	if i < 0 {
		return nil // granted concurrently
	}
	b.waiters = slices.Delete(b.waiters, i, i+1)
	b.grant() // smaller claims may have waited behind it
	return ctx.Err()
}

// grant reserves bytes for the claims that fit. The caller holds the budget's lock.
func (b *Budget) grant() {
	blocked := map[*Account]bool{} // by an earlier, larger claim
	b.waiters = slices.DeleteFunc(b.waiters, func(w *waiter) bool {
		a := w.account
		if blocked[a] && w.bytes > smallClaim || a.used > 0 && a.full(w.bytes) != nil {
			blocked[a] = true
			return false
		}
		a.used += w.bytes
		b.used += w.bytes
		close(w.granted)
		return true
	})
}

// Waiters returns the number of the account's claims that wait for memory.
func (a *Account) Waiters() (n int64) {
	if a == nil {
		return 0
	}
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	for _, w := range a.budget.waiters {
		if w.account == a {
			n++
		}
	}
	return n
}
