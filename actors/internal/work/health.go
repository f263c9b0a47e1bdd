package work

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
)

const (
	// failurePause is how long a failed model ranks behind others. A vendor's retry hint extends it up
	// to maxFailurePause.
	failurePause, maxFailurePause = 5 * time.Minute, time.Hour
	// maxFailures bounds the remembered failed models.
	maxFailures = 1 << 10
)

// health remembers models that failed recently, so that each submission need not call them first. It
// is kept in memory by one node. The zero value is ready. It is safe for concurrent use.
type health struct {
	mu       sync.Mutex
	failures map[string]failure // by model
}

// failure is the failure of a model and the time until which others rank before it.
type failure struct {
	until time.Time
	why   *conversation.SettlementError
}

// choose returns the first model of a set-up that is not in avoid, preferring models without a recent
// failure. passed is the model skipped for it, and more reports whether another one is left.
func (h *health) choose(setup *agent.Setup, avoid []string) (model string, passed *machine.Replaced, more bool) {
	left := slices.DeleteFunc(append([]string{setup.Model}, setup.Fallbacks...), func(m string) bool { return slices.Contains(avoid, m) })
	if len(left) == 0 { // all have failed
		return setup.Model, nil, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	healthy := slices.IndexFunc(left, func(m string) bool { return !time.Now().Before(h.failures[m].until) })
	if healthy > 0 {
		passed = &machine.Replaced{Name: left[0], Why: h.failures[left[0]].why}
	}
	return left[max(healthy, 0)], passed, len(left) > 1
}

func (h *health) failed(model string, err error) {
	after := failurePause
	var vendor *providers.Error
	switch {
	case errors.As(err, &vendor):
		switch vendor.Kind {
		case providers.KindAuth, providers.KindQuota, providers.KindRateLimit, providers.KindOverloaded, providers.KindNetwork, providers.KindSilent:
			after = max(after, min(vendor.RetryAfter, maxFailurePause))
		default:
			return
		}
	default:
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.failures) >= maxFailures {
		clear(h.failures)
	}
	if h.failures == nil {
		h.failures = map[string]failure{}
	}
	h.failures[model] = failure{time.Now().Add(after), settlementError(err)}
}

func (h *health) answered(model string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.failures, model)
}
