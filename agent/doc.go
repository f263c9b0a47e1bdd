// Package agent is the author's API: an agent is defined by data and functions. Definitions depend
// neither on the runtime nor on a model vendor; the model is a name that the program resolves at
// start.
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
// An [Agent] has fields for constant properties and functions for those that vary. Before every model
// call, its fields are copied into a [Setup], [Agent.InstructionsFunc] computes the prompt if it
// depends on the [Turn], and [Agent.Prepare] may change the setup: another model for a hard delivery,
// a tool for some callers only. [Agent.Fallbacks] are called when a model fails permanently.
// [Agent.Validate] lists all mistakes at once; it runs when the program starts and can be called in a
// test.
//
// # Tools
//
// [NewTool] makes a tool from a function; the schema the model sees comes from the input type. Invalid
// input never reaches the function; the model gets the list of violations. Calls of one turn run
// concurrently, up to [Agent.ToolConcurrency]. An error is returned to the model and does not end the
// submission. A tool that returns a [Result] can end the response or show images. A [DataWriter] shows
// clients structured data in addition to the text.
//
// # Initial data
//
// [NewInitialData] defines the Go type of a conversation's initial data. The data of the first message
// is validated against its schema, and tools, prompts and hooks read it from their context.
//
// # State
//
// [NewState] defines a value that each conversation stores. Tools and hooks read and write it through
// their context. A write becomes durable atomically with the outcome of the call or hook that made it.
// See [State].
//
// # Durable tools
//
// A call that was interrupted by a crash is not run again, because its progress is unknown; the model
// gets "outcome unknown". With [ToolOptions.Durable] the call runs again from the start, and each
// recorded [Step] returns its result without running. [Dispatch] from such a tool sends each message
// once. [Sleep] and [Wait] suspend it, for days if necessary; a suspended conversation costs only
// storage.
//
// # Hooks
//
// [Hooks] are called when work on a delivery begins, when its response starts, and when it would stop
// (and may be continued). They are also called when it is finished, and when its settlement is
// durable.
//
// # Subagents
//
// [Agent.Subagents] are agents to which the model may delegate a task. Each task runs in a
// conversation of its own, and its last text is the result.
//
// # Testing your tools
//
// Package agenttest runs an agent with a scripted model. [Tool.Run] calls one tool with a JSON input.
// Package agenthost sets the values that the runtime puts into the context and calls prompts and hooks
// as the runtime does. [NewSetup] returns the setup that [Agent.Prepare] gets.
//
// # Guarantees
//
// //  1. The schema that a model sees is the schema that validates its input, and the
//
//	   function receives the validated value: duplicate members and numbers such as 3.0
//	   are normalized before validation.
//	2. A function of an author runs only with valid input. Invalid input is an
//	   [*InputError] that names each place and violation.
//	3. A schema of a Go type accepts what package encoding/json writes for its values,
//	   and nothing that it cannot read. A type for which this cannot hold is a mistake
//	   at construction.
//	4. Integers keep all digits in both directions.
//	5. A panic in a tool, a step, an update of state, a hook, Prepare or an instructions function is
//	   a
//	   [*PanicError]; its text has neither the value nor the stack, which are for logs. A function
//	   that calls runtime.Goexit, as FailNow of a test does, is an [*ExitError]. The same holds for
//	   the methods of values: Error, Unwrap, Is and As of an error, MarshalJSON, UnmarshalJSON,
//	   MarshalText, LogValue. Four mistakes still end the process, because the Go runtime
//	   cannot recover from them: concurrent map writes, stack overflow (such as a String method
//	   that prints its own receiver), memory exhaustion, and a panic on a goroutine that the
//	   function has started itself.
//	6. A schema never reads a file or the network, whatever its "$ref" is.
//	7. A value read from state fits its type, or the read returns a [*StateError].
//	8. The function of a recorded step is not called again.
//
// An Agent and its tools must not change after they are registered with a runtime, and many
// conversations use them concurrently: functions of an author must be safe for concurrent use. Each
// function of an author runs on a goroutine of its own, and the caller waits for it.
//
// After a crash the runtime repeats calls whose outcome was not recorded: a repeated model call is set
// up again, and a hook is called again. [Hooks.Settled] is never repeated.
package agent
