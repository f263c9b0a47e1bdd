package memory

import (
	"context"
	"slices"
)

// waiter is a claim that waits for room.
type waiter struct {
	account *Account
	bytes   int64
	granted chan struct{} // closed under the budget's lock once the bytes are taken
}

// Wait reserves n bytes as [Account.Take] does, and waits for room in the order of the callers. Claims of up to
// 64 KiB do not wait behind larger ones. An account that holds nothing gets any claim, so that one at a time always
// proceeds. The error is that of ctx; then nothing is reserved.
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
		return nil // granted at the same time
	}
	b.waiters = slices.Delete(b.waiters, i, i+1)
	b.grant() // smaller ones may have waited behind it
	return ctx.Err()
}

// grant reserves bytes for the claims that have room. The budget's lock is held.
func (b *Budget) grant() {
	blocked := map[*Account]bool{} // by a larger claim that came before
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

// Waiters counts the claims of the account that wait for room.
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
