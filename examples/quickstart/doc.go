// Command quickstart is a hotel's concierge: a program with an agent of its own, which has
// a tool, a schema for what conversations begin with, and data for clients to draw; with
// middleware before it and a handler beside it.
//
//	go run ./examples/quickstart dev
//	curl http://127.0.0.1:5173/agents/concierge/room-7 -H 'X-Token: open-sesame' \
//	  -H 'Content-Type: application/json' -d '{"kind":"user","body":"time","initialData":{"name":"Ada"}}'
//	curl http://127.0.0.1:5173/agents/concierge/room-7 -H 'X-Token: open-sesame'
//
// It needs no key: the demo model is offline. With OPENAI_API_KEY or ANTHROPIC_API_KEY set,
// dev --model openai/<model> or anthropic/<model> calls a real one.
package main
