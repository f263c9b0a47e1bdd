// Command support serves the agent of a support desk. It looks up a customer's
// orders and pays refunds, and shows what an agent needs to do that safely:
//
//   - tools with typed input, which see the state of their conversation;
//   - a durable tool: a refund that a crash interrupts goes on where it was;
//   - state: who the customer is, and how many refunds were paid;
//   - data: the card of an order, for a page to draw;
//   - hooks: the customer is loaded when a message comes, the outcome is logged;
//   - set-up per model call: after two refunds the agent is told to be strict.
//
// Run it, and talk to it. The first message says who the customer is:
//
//	go run ./examples/support dev
//	curl http://127.0.0.1:5173/agents/support/1 -H 'Content-Type: application/json' \
//	  -d '{"kind":"user","body":"Refund my kettle, A1.","initialData":{"customer":"c-1"}}'
//	curl http://127.0.0.1:5173/agents/support/1
//
// The model is called with OPENAI_API_KEY, where OPENAI_BASE_URL says; without a key there
// is dev --model demo/parrot, which is offline and only repeats.
package main
