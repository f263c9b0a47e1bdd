// Package agenttest runs agents in a test: the real runtime over memory, models that say what the
// test wants, and no network.
//
// Authors of agents call it from their tests. It calls actors, http and client, and what they need.
//
//	func TestConcierge(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			model := agenttest.NewModel(
//				agenttest.Call("weather", map[string]string{"city": "Kiel"}),
//				agenttest.Say("Take an umbrella."),
//			)
//			h := agenttest.New(t, []*agent.Agent{concierge}, &agenttest.Options{Model: model})
//			reply := h.Conversation("concierge", "room-7").Ask("Shall we walk?")
//			if reply.Text != "Take an umbrella." {
//				t.Error(reply.Text)
//			}
//		})
//	}
//
// Guarantees:
//
//  1. A conversation is that of a server: admitted, recorded, settled once. It is a
//     [client.Conversation], whose requests reach the HTTP handler without a connection.
//  2. Inside of a bubble of testing/synctest time is virtual: a tool that sleeps for three days
//     takes no time, and deadlines pass as they would. Outside of one time is what it is.
//  3. After [Host.Crash] nothing is written by what ran before. What was acknowledged is there, and
//     goes on in the next process, which has begun when Crash returns.
//  4. Nothing that a Host has started is left when its test ends.
//
// A Host and its models are safe for concurrent use. Methods that have no error fail the test.
package agenttest
