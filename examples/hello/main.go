// Command hello is the shortest program with a tool.
package main

import (
	"context"
	"time"

	"github.com/parleyrun/parley"
	"github.com/parleyrun/parley/agent"
)

func clock(context.Context, struct{}) (string, error) { return time.Now().Format(time.Kitchen), nil }

func main() {
	parley.Main(&agent.Agent{
		Name: "hello", Model: "demo/parrot", Instructions: "Greet people, and tell them the time.",
		Tools: []agent.Tool{agent.NewTool("time", "Tells the time.", clock, nil)},
	})
}
