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
// # Definition
//
// An [Agent] is fields for what stays the same and functions for what does not.
// Before every model call its fields are put into a [Setup], [Agent.InstructionsFunc]
// computes the prompt if it depends on the [Turn], and [Agent.Prepare] may change
// anything: another model for a hard delivery, a tool for some callers only.
// [Agent.Fallbacks] are asked when a model fails for good. [Agent.Validate] lists
// every mistake at once; it runs when the program starts, and fits in a test.
//
// # Tools
//
// [NewTool] makes a tool from a function; the schema the model sees comes from the
// input type. What does not fit never reaches the function: the model is told what
// to correct. Calls of one turn run in parallel, up to [Agent.ToolConcurrency]. An
// error is shown to the model and does not end the submission. A tool that returns
// a [Result] can end the response or show images. A [DataWriter] shows clients
// structured data beside the text.
//
// # Initial data
//
// [NewInitialData] names the Go type that a conversation begins with: what the first message brings along
// is checked against its schema, else refused, and tools, prompts and hooks read it by their context.
//
// # State
//
// [NewState] names a value that each conversation keeps. Tools and hooks read and
// write it through their context, and a write becomes durable together with the
// outcome of the call or hook that made it: both are there after a crash, or
// neither. See [State] for the rule.
//
// # Durable tools
//
// A call that a crash interrupts is not run again, because nobody knows how far it
// came: the model is told that its outcome is unknown. With [ToolOptions.Durable]
// it runs again from the start, and every [Step] that was recorded gives its result
// without running. [Dispatch] from such a tool sends no message twice. With [Sleep] it
// waits, for days if need be, and costs nothing meanwhile.
//
// # Hooks
//
// [Hooks] are called at moments of a submission: when a delivery is taken up, when
// its response starts, when it would stop (and may be told to go on), when it is
// finished, and when its settlement is durable.
//
// # Subagents
//
// [Agent.Subagents] are agents the model may hand a task to. Each task runs in a
// conversation of its own, and what it says last is the result.
//
// # Testing your tools
//
// Package agenttest runs an agent with a model that says what the test wants. A tool
// alone is called like a function: [Tool.Run] with a JSON input. What the runtime puts
// into the context a test puts there by package agenthost, which also calls prompts and hooks
// as the runtime does. [NewSetup] is what [Agent.Prepare] is handed.
//
// # Guarantees
//
// Package actors calls what is named above, and nothing else is called. The package
// imports the ground, the containment of authors' code, and the JSON-schema library, which stays behind [Schema].
//
//  1. The input schema a model sees is the schema its input is checked against,
//     and what was checked is what the function receives: duplicate members and
//     numbers such as 3.0 are resolved once, before both.
//  2. A function of an author runs only with valid input. Everything else is an
//     [*InputError] that names each place and problem, for the model to act on.
//  3. A schema of a Go type lets through what package encoding/json writes of its values,
//     and nothing that it cannot read. A type for which that cannot hold is a mistake
//     at construction.
//  4. No integer loses digits on its way in or out.
//  5. A panic in a tool, a step, an update of state, a hook, Prepare or an instructions function is a
//     [*PanicError]; its text never shows the value or the stack, which are for logs. A function
//     that calls runtime.Goexit, as FailNow of a test does, is an [*ExitError]. The same holds for
//     the methods of values: Error, Unwrap, Is and As of an error, MarshalJSON, UnmarshalJSON,
//     MarshalText, LogValue. Four mistakes end the process, because the Go runtime allows
//     nothing else: concurrent writes of a map, a stack without end (such as a String method that
//     prints its own receiver), memory without end, and a panic on a goroutine that the function
//     has started itself.
//  6. A schema never reads a file or the network, whatever its "$ref" says.
//  7. What is read from state fits its type, or is a [*StateError].
//  8. A step's function is not called where its result is recorded.
//
// An Agent and its tools are read-only once handed to the runtime, and are then
// used by many conversations at the same time: functions of an author must be
// safe for concurrent use. The package starts no goroutine that outlives its call: it runs each
// function of an author on one of its own and waits for it.
//
// The package itself keeps nothing, so after a crash the runtime may ask again for
// what it had asked before: a model call that is made again is set up again, and a
// hook whose end was not recorded is called again. [Hooks.Settled] alone is not.
package agent
