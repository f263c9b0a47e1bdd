// Command quickstart is the concierge of a hotel. Its agent has a tool, a schema for the initial data
// of conversations, and data for clients to render. The program adds middleware and a handler of its
// own.
//
//	go run ./examples/quickstart dev
//	curl http://127.0.0.1:5173/agents/concierge/room-7 -H 'X-Token: open-sesame' \
//	  -H 'Content-Type: application/json' -d '{"kind":"user","body":"time","initialData":{"name":"Ada"}}'
//	curl http://127.0.0.1:5173/agents/concierge/room-7 -H 'X-Token: open-sesame'
//
// The default model demo/parrot is offline and needs no key. To call a real model, set OPENAI_API_KEY
// or ANTHROPIC_API_KEY and run dev --model openai/<model> or anthropic/<model>.
package main
