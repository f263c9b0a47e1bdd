// Package agent is how an author says what an agent is: data and functions, no
// runtime. Definitions link neither the cluster nor a model vendor; the model is
// named by a string that the program resolves when it starts.
//
//	var Triage = &agent.Agent{
//		Name:         "issue-triage",
//		Model:        "anthropic/claude-opus-4-6",
//		Instructions: "Triage the issue end to end.",
//		Tools: []agent.Tool{
//			agent.NewTool("label", "Label an issue.", label, nil),
//		},
//	}
//
// Authors write values of [Agent] and build tools with [NewTool]; package actors
// calls [Agent.Validate] when it starts, [Agent.CheckInitialData] before a
// conversation is created, [Agent.InstructionsFor] before every model call,
// [Tool.Call] for every call of the model, and the [Hooks] at moments of a
// response. Tools and hooks show clients structured data through a [DataWriter]. The package imports the ground and the
// two JSON-schema libraries, which stay behind [Schema].
//
// Guarantees:
//
//  1. The input schema a model sees is the schema its input is checked against,
//     and what was checked is what the function receives: duplicate members and
//     numbers such as 3.0 are resolved once, before both.
//  2. A function of an author runs only with valid input. Everything else is an
//     [*InputError] that names each place and problem, for the model to act on.
//  3. No integer loses digits on its way in or out.
//  4. A panic in a tool, a hook or an instructions function is a [*PanicError]; its
//     text never shows the value or the stack, which are for logs.
//  5. A schema never reads a file or the network, whatever its "$ref" says.
//
// An Agent and its tools are read-only once handed to the runtime, and are then
// used by many conversations at the same time: functions of an author must be
// safe for concurrent use. The package starts no goroutine.
//
// Nothing here survives a crash, so after one the runtime may ask again for what
// it had asked before: instructions are evaluated anew, and a tool call whose
// outcome was not recorded is reported to the model as interrupted instead of
// being run twice.
package agent
