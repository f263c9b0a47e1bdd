// Command support serves the agent of a support desk. It looks up a customer's
// orders and pays refunds, and shows what an agent needs to do that safely:
//
//   - tools with typed input, which see the state of their conversation;
//   - a durable tool: a refund that a crash interrupts goes on where it was;
//   - state: who the customer is, and how many refunds were paid;
//   - data: the card of an order, for a page to draw;
//   - hooks: the customer is loaded when a message comes, the outcome is logged;
//   - set-up per model call: after two refunds the agent is told to be strict;
//   - middleware: a customer who is logged in reaches their own conversations, and the agent takes the customer from the
//     conversation's id.
//
// Run it, and talk to it as Ada, who is customer c-1:
//
//	go run ./examples/support dev
//	curl http://127.0.0.1:5173/agents/support/c-1 -H 'Authorization: Bearer session-of-ada' \
//	  -H 'Content-Type: application/json' -d '{"kind":"user","body":"Refund my kettle, A1."}'
//	curl http://127.0.0.1:5173/agents/support/c-1 -H 'Authorization: Bearer session-of-ada'
//
// The model is called with OPENAI_API_KEY, where OPENAI_BASE_URL says; without a key there
// is dev --model demo/parrot, which is offline and only repeats.
package main
