package main

import "github.com/parleyrun/parley"

func main() {
	parley.Main(newTeam("openai/gpt-5", "anthropic/claude-haiku-4-5", "anthropic/claude-opus-4-6", newLibrary()))
}
