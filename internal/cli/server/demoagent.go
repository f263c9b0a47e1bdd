package server

import (
	"context"
	"fmt"
	"time"

	"github.com/parleyrun/parley/agent"
)

// clockInput is the input of the tool "time".
type clockInput struct {
	Zone string `json:"zone,omitempty" jsonschema:"IANA time zone, for example Europe/Berlin; UTC if omitted"`
}

type clockOutput struct {
	Time string `json:"time"`
	Zone string `json:"zone"`
}

// clockPause delays the demo's tool, so that the user sees it run.
const clockPause = time.Second

func clock(ctx context.Context, in clockInput) (clockOutput, error) {
	select {
	case <-time.After(clockPause):
	case <-ctx.Done():
		return clockOutput{}, ctx.Err()
	}
	zone := in.Zone
	if zone == "" {
		zone = "UTC"
	}
	loc, err := time.LoadLocation(zone)
	if err != nil {
		return clockOutput{}, fmt.Errorf("unknown time zone %q: use an IANA name such as Europe/Berlin", zone)
	}
	return clockOutput{Time: time.Now().In(loc).Format(time.RFC3339), Zone: zone}, nil
}

// assistant returns the demo agent of "parley dev".
func assistant(model string) *agent.Agent {
	return &agent.Agent{
		Name:         "assistant",
		Description:  "A helpful assistant that can tell the time.",
		Model:        model,
		Instructions: "You are a helpful assistant. Answer briefly and to the point. Use the tool \"time\" when the user asks for the time or the date.",
		Tools:        []agent.Tool{agent.NewTool("time", "Tell the current date and time.", clock, nil)},
	}
}
