package main

import (
	"log/slog"

	"github.com/parleyrun/parley"
)

func main() { parley.Main(newAgent("openai/gpt-5-mini", newStock(), slog.Default())) }
