package actors

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/providers"
)

// checkModels checks every model that an agent and its subagents name, so that a wrong name fails at
// the start. A model in an unsupported format is only logged, because other models may replace it.
//
// Limits are those of the conversation's agent: a dollar limit does not count models without a price.
func checkModels(reg *providers.Registry, a *agent.Agent, limits agent.Limits, log *slog.Logger) error {
	for _, spec := range slices.Concat([]string{a.Model}, a.Fallbacks, []string{a.Compaction.Model}) {
		if spec == "" { // inherited from the parent or the conversation
			continue
		}
		err := reg.Check(spec)
		var unspoken *providers.ModelError
		if errors.As(err, &unspoken) && errors.Is(err, providers.ErrUnknownProtocol) {
			log.Warn("model format unsupported; calls will fail", "agent", a.Name, "model", spec, "api", unspoken.API)
			continue
		}
		if err != nil {
			return fmt.Errorf("agent %q: %w", a.Name, err)
		}
		if m, err := reg.Resolve(spec); err == nil && !m.Cost.Known() && (limits.PricedOnly || limits.Dollars > 0 || limits.TreeDollars > 0) {
			consequence := "limits of dollars count its calls as 0"
			if limits.PricedOnly {
				consequence = "it is not called, because of pricedOnly"
			}
			log.Warn("model has no price", "agent", a.Name, "model", spec, "consequence", consequence, "remedy", "set cost of the model below providers")
		}
	}
	for _, sub := range a.Subagents {
		if err := checkModels(reg, sub, limits, log); err != nil {
			return fmt.Errorf("agent %q: sub%w", a.Name, err)
		}
	}
	return nil
}
