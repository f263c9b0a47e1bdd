// Command research serves an agent that answers questions by handing parts of them to
// others: a reader, who looks things up with the lead's own model, and a critic, who
// has another one. Tasks of one step run side by side, and whoever reads the
// conversation sees the tasks and their results, but nothing of the work on them.
//
//	go run ./examples/research
//	curl http://127.0.0.1:8080/agents/research/1 -H 'Content-Type: application/json' \
//	  -d '{"kind":"user","body":"Should we serve tea or coffee?"}'
//	curl http://127.0.0.1:8080/agents/research/1
//
// It keeps its conversations in ./research-data and needs two vendors: one speaks the
// chat-completions format, with OPENAI_API_KEY and, for another endpoint,
// OPENAI_BASE_URL; the other the messages format, with ANTHROPIC_API_KEY and
// ANTHROPIC_BASE_URL. When the first fails for good, the lead goes on with the second.
package main
