package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/parleyrun/parley/conversation"
)

// Exit codes of commands. [ExitCodes] is the table of all.
const (
	ExitFailure = 1
	// ExitFailed and ExitAborted are outcomes of a submission.
	ExitFailed  = 2
	ExitAborted = 3
	// ExitRepairable, ExitCorruption and ExitUnreached are findings of a check. It has found
	// nothing worse than its code says.
	ExitRepairable = 1
	ExitCorruption = 2
	ExitUnreached  = 2
	// ExitUnknown ends a command on stored data that could not complete its check.
	ExitUnknown = 3
	// ExitUsage ends a command line that is wrong (EX_USAGE): nothing was done.
	ExitUsage = 64
	// ExitRefused ends a node, or a command, that another process keeps from the bucket;
	// another try later may help (EX_TEMPFAIL).
	ExitRefused = 75
	// ExitInterrupted ends a command that a signal ended before its work was done.
	ExitInterrupted = 130
)

// ExitCode is a row of the table of exit codes.
type ExitCode struct {
	Code    int
	Meaning string
}

// ExitCodes returns the exit codes that commands have, in ascending order. The help of a
// command names those of its own.
func ExitCodes() []ExitCode {
	return []ExitCode{
		{0, "done, and what was checked is in order"},
		{ExitFailure, "an error, or a finding that a repair mends"},
		{ExitFailed, "the submission or the run failed; a check found damage, or members that are not reached"},
		{ExitAborted, "the submission or the run was aborted; a check could not be completed"},
		{ExitUsage, "the command line is wrong: nothing was done"},
		{ExitRefused, "another process has the bucket: try again later"},
		{ExitInterrupted, "interrupted by a signal"},
	}
}

// exitCodesHelp is the table of exit codes as help prints it.
func exitCodesHelp() string {
	var b strings.Builder
	b.WriteString("Exit codes, of which the help of a command says more:\n\n")
	for _, c := range ExitCodes() {
		fmt.Fprintf(&b, "  %3d  %s\n", c.Code, c.Meaning)
	}
	return strings.TrimRight(b.String(), "\n")
}

// Usage makes an error of a wrong command line of err, and nil of nil.
func Usage(err error) error {
	var exit *ExitError
	if err == nil || errors.As(err, &exit) {
		return err
	}
	return &ExitError{Code: ExitUsage, Err: err}
}

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
