package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/parleyrun/parley/conversation"
)

// Exit codes of commands. [ExitCodes] returns the whole table.
const (
	ExitFailure = 1
	// ExitFailed and ExitAborted are outcomes of a submission.
	ExitFailed  = 2
	ExitAborted = 3
	// ExitRepairable, ExitCorruption and ExitUnreached are findings of a check. The code is that of
	// the worst finding.
	ExitRepairable = 1
	ExitCorruption = 2
	ExitUnreached  = 2
	// ExitUnknown reports a check of stored data that could not complete.
	ExitUnknown = 3
	// ExitUsage reports a wrong command line (EX_USAGE). The command did nothing.
	ExitUsage = 64
	// ExitRefused reports that another process uses the bucket. A later retry may succeed
	// (EX_TEMPFAIL).
	ExitRefused = 75
	// ExitInterrupted reports that a signal interrupted the command.
	ExitInterrupted = 130
)

// ExitCode is a row of the table of exit codes.
type ExitCode struct {
	Code    int
	Meaning string
}

// ExitCodes returns all exit codes in ascending order. The help of a command lists its own.
func ExitCodes() []ExitCode {
	return []ExitCode{
		{0, "success; a check found no problem"},
		{ExitFailure, "an error, or a check found repairable damage"},
		{ExitFailed, "the submission or the run failed; a check found damage, or unreachable members"},
		{ExitAborted, "the submission or the run was aborted; a check could not complete"},
		{ExitUsage, "usage error: nothing was done"},
		{ExitRefused, "another process uses the bucket: retry later"},
		{ExitInterrupted, "interrupted by a signal"},
	}
}

// exitCodesHelp formats the table of exit codes for help.
func exitCodesHelp() string {
	var b strings.Builder
	b.WriteString("Exit codes; the help of a command has the details:\n\n")
	for _, c := range ExitCodes() {
		fmt.Fprintf(&b, "  %3d  %s\n", c.Code, c.Meaning)
	}
	return strings.TrimRight(b.String(), "\n")
}

// Usage wraps err as an error of the command line, with [ExitUsage]. It returns nil for nil.
func Usage(err error) error {
	var exit *ExitError
	if err == nil || errors.As(err, &exit) {
		return err
	}
	return &ExitError{Code: ExitUsage, Err: err}
}

// ExitError ends the process with an exit code. The text of Err, if any, is printed to the user.
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

// ExitOf returns the exit code of an outcome as an error, nil for code 0.
func ExitOf(outcome conversation.Outcome) error {
	switch outcome {
	case conversation.OutcomeFailed:
		return &ExitError{Code: ExitFailed}
	case conversation.OutcomeAborted:
		return &ExitError{Code: ExitAborted}
	}
	return nil
}
