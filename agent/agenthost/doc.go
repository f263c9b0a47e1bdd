// Package agenthost is the host's side of package agent. Its With functions put into the context of
// tools and hooks where calls, state, steps, data, messages and logs go. Its other functions call the
// author's prompts, setups and hooks, and check initial data.
//
// The runtime uses it, and so do tests that call a tool or a hook without a runtime. Authors of agents
// do not need it; package agenttest runs their agents with the runtime. Panics of authors' functions
// are contained.
//
// Every function may be called from any goroutine. The package keeps no state, so after a crash the
// host repeats calls that it has no record of.
package agenthost
