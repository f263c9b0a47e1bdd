// Command research serves an agent that answers questions by handing parts of them to
// others: a reader, who looks things up with the lead's own model, and a critic, who
// has another one. Tasks of one step run side by side, and whoever reads the
// conversation sees the tasks and their results, but nothing of the work on them.
//
//	go run ./examples/research dev
//	curl http://127.0.0.1:5173/agents/research/1 -H 'Content-Type: application/json' \
//	  -d '{"kind":"user","body":"Should we serve tea or coffee?"}'
//	curl http://127.0.0.1:5173/agents/research/1
//
// It needs two vendors, by OPENAI_API_KEY and ANTHROPIC_API_KEY. When the first fails for
// good, the lead goes on with the second. A parley.yaml may name other models.
package main
