// Command quickstart serves an agent of its own: a program that uses Parley as a
// library. It registers an agent with a tool, a schema for what conversations begin
// with, data for clients and hooks; mounts it on its own router behind its own
// middleware; and runs.
//
//	go run ./examples/quickstart
//
// It keeps its conversations in ./quickstart-data and needs no key: the demo model
// is offline. Set OPENAI_API_KEY and -model openai/<model>, or ANTHROPIC_API_KEY and
// -model anthropic/<model>, for a real one of the catalog.
package main
