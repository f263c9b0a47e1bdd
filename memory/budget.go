package memory

import (
	"errors"
	"fmt"
	"sync"
)

// smallClaim is the most, in bytes, that is taken of the last quarter of a budget at a
// time: what a short message or page needs, so that large ones do not keep those out.
const smallClaim = 64 << 10

// ErrFull is matched by every [*FullError].
var ErrFull = errors.New("memory budget is used up")

// FullError says which bound keeps new work out. What is refused may be tried again.
type FullError struct {
	Account string // who asked
	Asked   int64  // bytes, 0 if any would have been too many
	Used    int64  // bytes held under the bound that refused
	Limit   int64  // bytes
	Shared  bool   // the bound is the node's, not the account's own
}

// Error implements error.
func (e *FullError) Error() string {
	whose := "of this node"
	if !e.Shared {
		whose = "of " + e.Account
	}
	if e.Asked == 0 {
		return fmt.Sprintf("%d of the %d bytes of memory %s are in use", e.Used, e.Limit, whose)
	}
	return fmt.Sprintf("take %d bytes for %s: %d of the %d bytes %s are in use", e.Asked, e.Account, e.Used, e.Limit, whose)
}

// Is makes the error match [ErrFull].
func (e *FullError) Is(target error) bool { return target == ErrFull }

// Budget is the memory of one node.
type Budget struct {
	limit int64
	turns *turns

	mu       sync.Mutex
	used     int64
	accounts []*Account
	waiters  []*waiter // in the order of their callers
}

// New returns a budget of limit bytes; 0 or less bounds nothing and still counts.
func New(limit int64) *Budget { return &Budget{limit: limit, turns: newTurns()} }

// Account opens an account that may hold at most share bytes by [Account.Take]; 0 means
// as many as the budget has.
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

// Limit returns the bound in bytes, 0 for none.
func (b *Budget) Limit() int64 {
	if b == nil {
		return 0
	}
	return max(b.limit, 0)
}

// Usage is what one account holds.
type Usage struct {
	Account string
	Used    int64 // bytes
	Refused int64 // how often new work was refused
}

// Usage returns what each account holds, in the order they were opened.
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

// Share returns the most bytes that the account may hold by [Account.Take], 0 if it has no bound of its own.
func (a *Account) Share() int64 {
	if a == nil {
		return 0
	}
	return a.share
}

// open returns how many bytes may be in use with a claim of n.
func (b *Budget) open(n int64) int64 {
	if n > smallClaim {
		return b.limit - b.limit/4
	}
	return b.limit
}

// Take reserves n bytes for new work, or returns a [*FullError] and reserves nothing.
// More than 64 KiB at a time are not taken of the last quarter of the budget.
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

// Room reports whether n bytes could be taken. It is for those who can make room first,
// and no refusal.
func (a *Account) Room(n int64) bool {
	if a == nil {
		return true
	}
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	return a.full(n) == nil
}

// full returns why n bytes cannot be taken, nil if they can. The budget's lock is held.
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

// Add counts n bytes of work that goes on whatever the budget says. A negative n gives
// bytes back.
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

// Full returns a [*FullError] while not one byte can be taken.
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

// tight reports whether half of the budget is in use. What is held only so that something
// comes sooner is to be given back then.
func (b *Budget) tight() bool {
	if b == nil || b.limit <= 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used >= b.limit/2
}

// Used returns the bytes held.
func (a *Account) Used() int64 {
	if a == nil {
		return 0
	}
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	return a.used
}
