// Package agenthost is what a host of agents gives to their tools and hooks: where calls, state, steps,
// data, messages and logs go.
//
// The runtime calls it, and tests that call a tool without one; authors of agents do not need it, and
// package agenttest has the runtime for their tests. It calls package agent, which finds what was put
// into a context here.
//
// Every function returns a context that has more than the one it was given, and may be called from any
// goroutine. Nothing here keeps anything.
package agenthost
