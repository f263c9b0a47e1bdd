// Command research serves an agent that delegates parts of a question to subagents. The reader
// searches notes with the lead's model, and the critic has a model of its own. Tasks of one step run
// concurrently. Readers of the conversation see the tasks and their results, but not the work in them.
//
//	go run ./examples/research dev
//	curl http://127.0.0.1:5173/agents/research/1 -H 'Content-Type: application/json' \
//	  -d '{"kind":"user","body":"Should we serve tea or coffee?"}'
//	curl http://127.0.0.1:5173/agents/research/1
//
// It calls two vendors, with OPENAI_API_KEY and ANTHROPIC_API_KEY. If the first one fails permanently,
// the lead falls back to the second. A parley.yaml may name other models;
// without keys, run dev --model demo/parrot.
package main
