// Command support serves the agent of a support desk. It looks up a customer's orders and pays
// refunds. It shows:
//
//   - tools with typed input and access to the state of their conversation;
//   - a durable tool: a refund continues after a crash;
//   - state: the current customer and the number of refunds;
//   - data: the card of an order, for a page to render;
//   - hooks: one loads the customer before each message, one logs the outcome;
//   - setup per model call: after two refunds the instructions become strict;
//   - middleware: customers reach their own conversations only, by the customer id in the
//     conversation id.
//
// Run it, and send a message as Ada, who is customer c-1:
//
//	go run ./examples/support dev
//	curl http://127.0.0.1:5173/agents/support/c-1 -H 'Authorization: Bearer session-of-ada' \
//	  -H 'Content-Type: application/json' -d '{"kind":"user","body":"Refund my kettle, A1."}'
//	curl http://127.0.0.1:5173/agents/support/c-1 -H 'Authorization: Bearer session-of-ada'
//
// The program calls OpenAI with OPENAI_API_KEY, at OPENAI_BASE_URL if set. Without a key, run dev
// --model demo/parrot for the offline demo model.
package main
