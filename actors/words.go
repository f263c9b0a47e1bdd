package actors

// What the shell says to models and, in settlements, to people.
const (
	sayModelFailed    = "The model could not complete the reply."
	sayNoInstructions = "The agent could not prepare the reply."
	sayOutputRefused  = "The tool ran, but its output is left out: it %v."
	sayUnknownTool    = "There is no tool named %q. Use one of the tools you were given."
)
