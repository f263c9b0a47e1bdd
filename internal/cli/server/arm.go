//go:build !attack

package server

import (
	"github.com/parleyrun/parley/agent"
)

// arm gives an agent of a configuration the tools that were compiled into the program:
// none. A build with the tag attack has some, so that the real program can be attacked by
// its own agents.
func arm(*agent.Agent) {}
