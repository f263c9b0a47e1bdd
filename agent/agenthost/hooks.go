package agenthost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agent/internal/seam"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/contain"
)

// ErrNoOutput is returned if the model ended a response without the result of [agent.Agent.Output]
// after a reminder.
var ErrNoOutput = errors.New("the model has not given its output")

// Reminder is the advisory for a model that ended its work without that result.
const Reminder = "The answer is still missing. Give it by calling the tool " + agent.FinishTool + ", with everything that was asked for."

// StartDelivery calls the hook DeliveryStarted. The error is the author's, a [*agent.PanicError] or an
// [*agent.ExitError], as for every other hook.
func StartDelivery(ctx context.Context, a *agent.Agent, t *agent.Turn) error {
	if a.Hooks.DeliveryStarted == nil {
		return nil
	}
	return contain.Run(hook(a, "DeliveryStarted"), func() error {
		return a.Hooks.DeliveryStarted(during(ctx, t, "DeliveryStarted"), t)
	})
}

// StartResponse calls the hook ResponseStarted and returns its metadata as a JSON object, nil if there
// is none. Metadata without a JSON form are an error too.
func StartResponse(ctx context.Context, a *agent.Agent, t *agent.Turn) (json.RawMessage, error) {
	if a.Hooks.ResponseStarted == nil {
		return nil, nil
	}
	desc := hook(a, "ResponseStarted")
	m, err := contain.Do(desc, func() (map[string]any, error) {
		return a.Hooks.ResponseStarted(during(ctx, t, "ResponseStarted"), t)
	})
	return metadata(desc, m, err)
}

// BeforeStop calls the hook WouldStop and returns the advisory with which the model continues, empty
// if the response may end. If the agent requires a result and has none, the advisory is [Reminder].
// The error may also be [ErrNoOutput], or an advisory that is too long.
func BeforeStop(ctx context.Context, a *agent.Agent, r *agent.Response) (again string, err error) {
	if a.Output != nil && r.Output == nil {
		if r.Continuations > 0 {
			return "", ErrNoOutput
		}
		return Reminder, nil
	}
	if a.Hooks.WouldStop == nil {
		return "", nil
	}
	again, err = contain.Do(hook(a, "WouldStop"), func() (string, error) {
		return a.Hooks.WouldStop(during(ctx, &r.Turn, fmt.Sprintf("WouldStop/%d", r.Continuations)), r)
	})
	switch {
	case err != nil || strings.TrimSpace(again) == "":
		return "", err
	case len(again) > conversation.MaxPayloadBytes:
		return "", fmt.Errorf("text of WouldStop has %d bytes, at most %d are taken", len(again), conversation.MaxPayloadBytes)
	}
	return again, nil
}

// FinishResponse calls the hook ResponseFinished, like [StartResponse].
func FinishResponse(ctx context.Context, a *agent.Agent, r *agent.Response) (json.RawMessage, error) {
	if a.Hooks.ResponseFinished == nil {
		return nil, nil
	}
	desc := hook(a, "ResponseFinished")
	m, err := contain.Do(desc, func() (map[string]any, error) {
		return a.Hooks.ResponseFinished(during(ctx, &r.Turn, "ResponseFinished"), r)
	})
	return metadata(desc, m, err)
}

// AfterSettlement calls the hook Settled.
func AfterSettlement(ctx context.Context, a *agent.Agent, s *agent.Settlement) error {
	if a.Hooks.Settled == nil {
		return nil
	}
	return contain.Run(hook(a, "Settled"), func() error {
		return a.Hooks.Settled(seam.WithReadOnly(during(ctx, &agent.Turn{Submission: s.Submission, InitialData: s.InitialData}, "Settled")), s)
	})
}

// during returns the context of a hook, with the origin of its messages and the initial data.
func during(ctx context.Context, t *agent.Turn, name string) context.Context {
	return withInitialData(seam.WithOrigin(ctx, string(t.Submission)+"/"+name, ""), t.InitialData)
}

// hook returns the name of a hook for errors.
func hook(a *agent.Agent, name string) string { return "hook " + name + " of agent " + a.Name }

// metadata encodes the result of a hook, named what, as JSON; nil if it is empty.
func metadata(desc string, m map[string]any, err error) (json.RawMessage, error) {
	if err != nil || len(m) == 0 {
		return nil, err
	}
	raw, err := contain.Encode(desc, m)
	if err != nil {
		return nil, fmt.Errorf("encode metadata: %w", err)
	}
	return raw, nil
}
