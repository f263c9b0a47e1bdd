package agent

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parleyrun/parley/internal/contain"
)

// Issue is one mistake and its place.
type Issue struct {
	// Path is a JSON pointer into a value ("/labels/0"), or a field of an [Agent] ("Tools[1]"). It is
	// empty for the value as a whole, and a long pointer is cut at its end.
	Path string
	// Problem is a phrase without a full stop.
	Problem string
}

// String returns "path: problem", or the problem alone without a path.
func (i Issue) String() string {
	if i.Path == "" {
		return i.Problem
	}
	return i.Path + ": " + i.Problem
}

// Texts go to models and callers, so their length is bounded.
const (
	maxIssues  = 10
	maxProblem = 200 // bytes
)

// joinIssues is the text of a list of issues.
func joinIssues(issues []Issue) string {
	var b strings.Builder
	for n, i := range issues {
		if n == maxIssues {
			b.WriteString("; and more")
			break
		}
		if n > 0 {
			b.WriteString("; ")
		}
		b.WriteString(shorten(i.String()))
	}
	return b.String()
}

// shorten cuts a long text at a character boundary.
func shorten(s string) string {
	if len(s) <= maxProblem {
		return s
	}
	cut := maxProblem
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// SchemaError lists where a value violates a [Schema].
type SchemaError struct{ Issues []Issue }

// Error implements error. It lists the issues, separated by "; ".
func (e *SchemaError) Error() string { return joinIssues(e.Issues) }

// InputError is returned for invalid input of a tool call. Its text is for the model, which can
// correct the input and call again.
type InputError struct {
	Tool   string
	Issues []Issue
}

// Error implements error.
func (e *InputError) Error() string {
	return fmt.Sprintf("invalid input for tool %s: %s. Correct the input and call the tool again.", e.Tool, joinIssues(e.Issues))
}

// OutputError is returned for a tool's output that cannot be encoded as JSON.
type OutputError struct {
	Tool string
	Err  error
}

// Error implements error.
func (e *OutputError) Error() string {
	return fmt.Sprintf("encode output of tool %s: %v", e.Tool, e.Err)
}

// Unwrap returns the cause.
func (e *OutputError) Unwrap() error { return e.Err }

// ResultError is returned for invalid images in a tool's [Result]. Its text is for the model, which
// may request fewer or other ones.
type ResultError struct {
	Tool   string
	Issues []Issue
}

// Error implements error.
func (e *ResultError) Error() string {
	return fmt.Sprintf("tool %s returned images that cannot be shown: %s", e.Tool, joinIssues(e.Issues))
}

// TimeoutError is returned for a tool that exceeded its time limit.
type TimeoutError struct {
	Tool  string
	Limit time.Duration
}

// Error implements error.
func (e *TimeoutError) Error() string {
	return fmt.Sprintf("tool %s did not finish within %v", e.Tool, e.Limit)
}

// PanicError is a contained panic of an author's function, or of a method of a value that it returned. Its text, "tool
// label crashed", is safe to show to a model. Value, the text of the panic's value, and Stack are for logs only.
type PanicError = contain.PanicError

// ExitError reports that an author's function, such as "tool label", ended its goroutine instead of returning: it
// called runtime.Goexit, as FailNow of a test does. Its text is safe to show to a model.
type ExitError = contain.ExitError

// crashed reports whether err is a contained panic or exit.
func crashed(err error) bool {
	var panicked *PanicError
	var exited *ExitError
	return errors.As(err, &panicked) || errors.As(err, &exited)
}

// DefinitionError lists every mistake of an agent's definition.
type DefinitionError struct {
	Agent  string
	Issues []Issue
}

// Error implements error. Unlike texts for models it is not cut.
func (e *DefinitionError) Error() string {
	lines := []string{fmt.Sprintf("define agent %q:", e.Agent)}
	for _, i := range e.Issues {
		lines = append(lines, "  "+i.String())
	}
	return strings.Join(lines, "\n")
}

// sortIssues orders issues by path and removes duplicates, so that texts are deterministic.
func sortIssues(issues []Issue) []Issue {
	slices.SortStableFunc(issues, func(a, b Issue) int {
		if c := strings.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		return strings.Compare(a.Problem, b.Problem)
	})
	return slices.Compact(issues)
}
