// Package agenthost is what a host of agents needs beside their definitions: it gives tools and hooks where
// calls, state, steps, data, messages and logs go, and calls what an author wrote beside tools: prompts,
// setups, hooks, the check of initial data.
//
// The runtime calls it, and tests that call a tool or a hook without one; authors of agents do not need
// it, and package agenttest has the runtime for their tests. It calls package agent, which finds what was
// put into a context here, and functions of authors, whose panics it contains.
//
// Every function may be called from any goroutine. Nothing here keeps anything, so after a crash the host
// calls again what it has no record of.
package agenthost
