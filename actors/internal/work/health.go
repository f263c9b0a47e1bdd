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
	// restOfModel is for how long a model that has failed is asked after others. A vendor
	// that says when to come back is believed, up to maxRestOfModel.
	restOfModel, maxRestOfModel = 5 * time.Minute, time.Hour
	// maxResting bounds how many models are remembered to have failed.
	maxResting = 1 << 10
)

// health is which models have failed of late: a submission need not find out anew that one
// does not answer. It is a node's own and is forgotten with it. The zero value is that of a
// node where none has failed. It is safe for concurrent use.
type health struct {
	mu      sync.Mutex
	resting map[string]rest // by model
}

// rest is why a model has failed, and until when others are asked before it.
type rest struct {
	until time.Time
	why   *conversation.SettlementError
}

// choose returns the first model of a set-up that has not failed in the work under way,
// one that has not failed of late before others, the one that would have been asked
// otherwise, and whether there is another one.
func (h *health) choose(setup *agent.Setup, avoid []string) (model string, passed *machine.Replaced, more bool) {
	left := slices.DeleteFunc(append([]string{setup.Model}, setup.Fallbacks...), func(m string) bool { return slices.Contains(avoid, m) })
	if len(left) == 0 { // the author names them again
		return setup.Model, nil, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	well := slices.IndexFunc(left, func(m string) bool { return !time.Now().Before(h.resting[m].until) })
	if well > 0 {
		passed = &machine.Replaced{Name: left[0], Why: h.resting[left[0]].why}
	}
	return left[max(well, 0)], passed, len(left) > 1
}

// failed notes why a model has not answered, if that is likely to last.
func (h *health) failed(model string, err error) {
	after := restOfModel
	var vendor *providers.Error
	switch {
	case errors.As(err, &vendor):
		switch vendor.Kind {
		case providers.KindAuth, providers.KindQuota, providers.KindRateLimit, providers.KindOverloaded, providers.KindNetwork, providers.KindSilent:
			after = max(after, min(vendor.RetryAfter, maxRestOfModel))
		default:
			return
		}
	default:
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.resting) >= maxResting {
		clear(h.resting)
	}
	if h.resting == nil {
		h.resting = map[string]rest{}
	}
	h.resting[model] = rest{time.Now().Add(after), settlementError(err)}
}

// answered notes that a model has.
func (h *health) answered(model string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.resting, model)
}
