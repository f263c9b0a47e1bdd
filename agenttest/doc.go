// Package agenttest runs agents in tests. It combines the real runtime, an in-memory store and
// scripted models, without a network.
//
// Authors of agents call it from their tests.
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
//  1. A [Conversation] behaves as on a server: submissions are admitted, recorded, and settled
//     once. Requests reach the HTTP handler without a connection.
//  2. In a bubble of testing/synctest time is virtual: a tool that sleeps for three days takes no
//     time, and deadlines expire in order. Outside of a bubble time is real.
//  3. After [Host.Crash] the crashed process writes nothing. Acknowledged work continues in the
//     next process, which has started when Crash returns.
//  4. A Host stops everything that it has started when its test ends.
//
// A [Host] and its [Model] values are safe for concurrent use. Methods without an error result fail
// the test.
package agenttest
