package server

import (
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/providers"
)

// warnKeys logs one line for each provider whose configured key is missing, with the source used
// instead. It also logs each provider that needs a key and has none. blank is BlankKeys of a
// configuration.
func warnKeys(log *slog.Logger, reg *providers.Registry, blank map[string]string) {
	keyless := map[string]*providers.CredentialsError{}
	for _, missing := range reg.Keyless() {
		id, _, _ := strings.Cut(missing.Spec, "/")
		keyless[id] = missing
	}
	for _, id := range slices.Sorted(maps.Keys(blank)) {
		if from := reg.CredentialsOf(id); from != "" {
			log.Warn("apiKeyEnv is blank, using another key", "provider", id, "blank", blank[id], "used", from)
		} else if keyless[id] == nil { // a server of the operator, which may need none
			log.Warn("provider has no API key", "provider", id, "blank", blank[id])
		}
	}
	for _, id := range slices.Sorted(maps.Keys(keyless)) {
		attrs := []any{"provider", id}
		if blank[id] != "" {
			attrs = append(attrs, "blank", blank[id])
		}
		if ways := keyless[id].Ways(); len(ways) > 0 {
			attrs = append(attrs, "set", strings.Join(ways, " or "))
		}
		log.Warn("provider has no API key", attrs...)
	}
}

// warnSchemas logs the parts of tool schemas that the servers of an agent's models do not support, one
// line per tool and model.
func warnSchemas(log *slog.Logger, reg *providers.Registry, a *agent.Agent) {
	for _, spec := range append([]string{a.Model}, a.Fallbacks...) {
		m, err := reg.Resolve(spec)
		if err != nil { // checkAgent reports it
			continue
		}
		for _, t := range a.Tools {
			notes := providers.CheckTool(m, providers.Tool{Name: t.Name(), InputSchema: t.InputSchema()})
			if len(notes) == 0 {
				continue
			}
			var problems []string
			for _, n := range notes {
				problems = append(problems, n.String())
			}
			log.Warn("model does not support whole schema", "agent", a.Name, "tool", t.Name(), "model", spec, "problems", strings.Join(problems, "; "))
		}
	}
	for _, sub := range a.Subagents {
		warnSchemas(log, reg, sub)
	}
}
