//go:build !attack

package server

import (
	"github.com/parleyrun/parley/agent"
)

// arm adds no tools. In a build with the tag attack it adds some to an agent of a configuration, so
// that tests can attack the real program with its own agents.
func arm(*agent.Agent) {}
