package memory

import (
	"errors"
	"fmt"
	"sync"
)

// smallClaim is the largest claim, in bytes, on the last quarter of a budget. It fits a short message
// or page, so that large claims do not starve those.
const smallClaim = 64 << 10

// ErrFull is matched by every [*FullError].
var ErrFull = errors.New("memory budget is used up")

// FullError names the limit that rejects new work. The caller may retry.
type FullError struct {
	Account string // account of the claim
	Asked   int64  // bytes; 0 if any claim would be rejected
	Used    int64  // bytes held under the limit
	Limit   int64  // bytes
	Shared  bool   // the limit is the node's, not the account's own
}

// Error implements error.
func (e *FullError) Error() string {
	scope := "of this node"
	if !e.Shared {
		scope = "of " + e.Account
	}
	if e.Asked == 0 {
		return fmt.Sprintf("%d of the %d bytes of memory %s are in use", e.Used, e.Limit, scope)
	}
	return fmt.Sprintf("take %d bytes for %s: %d of the %d bytes %s are in use", e.Asked, e.Account, e.Used, e.Limit, scope)
}

// Is makes the error match [ErrFull].
func (e *FullError) Is(target error) bool { return target == ErrFull }

// Budget is the memory limit of one node.
type Budget struct {
	limit int64
	turns *turns

	mu       sync.Mutex
	used     int64
	accounts []*Account
	waiters  []*waiter // in order of arrival
}

// New returns a budget of limit bytes. If limit is 0 or less, it only counts.
func New(limit int64) *Budget { return &Budget{limit: limit, turns: newTurns()} }

// Account opens an account that holds at most share bytes by [Account.Take]. 0 means the whole budget.
func (b *Budget) Account(name string, share int64) *Account {
	if b == nil {
		return nil
	}
	a := &Account{budget: b, name: name, share: share}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.accounts = append(b.accounts, a)
	return a
}

// Limit returns the limit in bytes, 0 for none.
func (b *Budget) Limit() int64 {
	if b == nil {
		return 0
	}
	return max(b.limit, 0)
}

// Usage is the usage of one account.
type Usage struct {
	Account string
	Used    int64 // bytes
	Refused int64 // number of rejections
}

// Usage returns the usage of each account, in the order of opening.
func (b *Budget) Usage() []Usage {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]Usage, 0, len(b.accounts))
	for _, a := range b.accounts {
		out = append(out, Usage{Account: a.name, Used: a.used, Refused: a.refused})
	}
	return out
}

// Account is one consumer's part of a [Budget].
type Account struct {
	budget *Budget
	name   string
	share  int64

	used, refused int64 // under the budget's lock
}

// Share returns the limit of [Account.Take] in bytes, 0 if the account has none of its own.
func (a *Account) Share() int64 {
	if a == nil {
		return 0
	}
	return a.share
}

// open returns the number of bytes that may be in use with a claim of n.
func (b *Budget) open(n int64) int64 {
	if n > smallClaim {
		return b.limit - b.limit/4
	}
	return b.limit
}

// Take reserves n bytes for new work, or returns a [*FullError] and reserves nothing. Claims above 64
// KiB cannot use the last quarter of the budget.
func (a *Account) Take(n int64) error {
	if a == nil {
		return nil
	}
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	if full := a.full(n); full != nil {
		a.refused++
		return full
	}
	a.used += n
	a.budget.used += n
	return nil
}

// Room reports whether Take(n) would succeed. It does not count as a rejection, for callers that can
// free memory first.
func (a *Account) Room(n int64) bool {
	if a == nil {
		return true
	}
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	return a.full(n) == nil
}

// full returns why n bytes cannot be reserved, nil if they can. The caller holds the budget's lock.
func (a *Account) full(n int64) *FullError {
	b := a.budget
	switch {
	case a.share > 0 && a.used+n > a.share:
		return &FullError{Account: a.name, Asked: n, Used: a.used, Limit: a.share}
	case b.limit > 0 && b.used+n > b.open(n):
		return &FullError{Account: a.name, Asked: n, Used: b.used, Limit: b.open(n), Shared: true}
	}
	return nil
}

// Add counts n bytes of accepted work without a limit. A negative n returns bytes.
func (a *Account) Add(n int64) {
	if a == nil {
		return
	}
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	a.used += n
	a.budget.used += n
	if a.used < 0 {
		panic(fmt.Sprintf("memory: %s gave back %d bytes more than it held", a.name, -a.used))
	}
	if n < 0 && len(a.budget.waiters) > 0 {
		a.budget.grant()
	}
}

// Full returns a [*FullError] while no byte can be reserved.
func (a *Account) Full() error {
	err := a.Take(1)
	var full *FullError
	if errors.As(err, &full) {
		full.Asked = 0
		return full
	}
	a.Add(-1)
	return nil
}

// Ample reports whether less than a quarter of the budget is in use.
func (a *Account) Ample() bool {
	if a == nil || a.budget.limit <= 0 {
		return true
	}
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	return a.budget.used < a.budget.limit/4
}

// tight reports whether half of the budget is in use. Caches must shrink then.
func (b *Budget) tight() bool {
	if b == nil || b.limit <= 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used >= b.limit/2
}

func (a *Account) Used() int64 {
	if a == nil {
		return 0
	}
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	return a.used
}
