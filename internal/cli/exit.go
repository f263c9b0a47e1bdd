package cli

import (
	"fmt"

	"github.com/parleyrun/parley/conversation"
)

// Exit codes beside 0 for success and 1 for whatever has none of its own.
const (
	// ExitFailed and ExitAborted are outcomes of a submission.
	ExitFailed  = 2
	ExitAborted = 3
	// ExitUnknown is that of a command on stored data that could not find out what it was
	// asked.
	ExitUnknown = 3
	// ExitRefused is that of a node that another one keeps from serving the bucket;
	// starting it again later may help (EX_TEMPFAIL).
	ExitRefused = 75
	// ExitInterrupted is that of a command that a signal ended before its work was done.
	ExitInterrupted = 130
)

// ExitError ends the process with a code; the text, if any, is for the user.
type ExitError struct {
	Code int
	Err  error
}

// Error implements error.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *ExitError) Unwrap() error { return e.Err }

// ExitOf is the exit code of an outcome, as an error unless it is 0.
func ExitOf(outcome conversation.Outcome) error {
	switch outcome {
	case conversation.OutcomeFailed:
		return &ExitError{Code: ExitFailed}
	case conversation.OutcomeAborted:
		return &ExitError{Code: ExitAborted}
	}
	return nil
}
