package main

import (
	"log/slog"
	"net/http"

	"github.com/parleyrun/parley"
	"github.com/parleyrun/parley/agent"
)

func main() {
	(&parley.Program{
		Agents:     []*agent.Agent{newAgent("openai/gpt-5-mini", newStock(), slog.Default())},
		Middleware: []func(http.Handler) http.Handler{demoLogin().wrap},
	}).Main()
}
