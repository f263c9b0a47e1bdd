package server

import (
	"fmt"
	"maps"

	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/outbox"
	"github.com/parleyrun/parley/outbox/webhook"
)

// outboxOf returns the targets of posts, of the file and of the program, whose names must differ. end
// closes their idle connections.
func outboxOf(w config.Webhooks, own map[string]outbox.Target) (routes outbox.Routes, end func(), err error) {
	public, private := webhook.New(nil), webhook.New(&webhook.Options{Private: true})
	end = func() { public.Close(); private.Close() }
	routes.Targets = map[string]outbox.Target{}
	for name, t := range w.Targets {
		if own[name] != nil {
			return routes, end, fmt.Errorf("webhooks.targets.%s: the program has a target of that name; rename one of them", name)
		}
		secrets, err := parseSecrets(t.Secrets)
		if err != nil {
			return routes, end, fmt.Errorf("webhooks.targets.%s: %w", name, err)
		}
		caller := public
		if t.Private {
			caller = private
		}
		if routes.Targets[name], err = caller.Target(t.URL, secrets...); err != nil {
			return routes, end, fmt.Errorf("webhooks.targets.%s: invalid URL: %w", name, err)
		}
	}
	maps.Copy(routes.Targets, own)
	if len(w.Allow) > 0 {
		secrets, err := parseSecrets(w.Secrets)
		if err != nil {
			return routes, end, fmt.Errorf("webhooks: %w", err)
		}
		routes.URLs = public.URLs(w.Allow, secrets...)
	}
	return routes, end, nil
}

func parseSecrets(texts []string) (secrets []webhook.Secret, err error) {
	for _, text := range texts {
		s, err := webhook.ParseSecret(text)
		if err != nil {
			return nil, err
		}
		secrets = append(secrets, s)
	}
	return secrets, nil
}
