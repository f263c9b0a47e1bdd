package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Bounds of one validation. Exceeding one is a [*SchemaBoundError], except MaxSchemaIssues, which cuts
// the list. Without them, a few bytes would be enough for a recursive schema with "anyOf" to exhaust
// memory and time.
const (
	// MaxSchemaSteps counts applications of schemas to values, values, and pieces of long texts. It
	// takes about a second and 100 MB to use it up.
	MaxSchemaSteps = 1_000_000
	// MaxSchemaDepth bounds nested schemas that are applied at one place.
	MaxSchemaDepth = 5_000
	// MaxSchemaIssues bounds the reported issues.
	MaxSchemaIssues = 100
	// MaxSchemaTime bounds the time, unless the context ends before.
	MaxSchemaTime = 5 * time.Second
)

// SchemaBoundError is returned for a value that is too large or too complex to be validated. It is
// unknown whether it is valid.
type SchemaBoundError struct {
	// Problem is a phrase without a full stop that names the bound, like that of an [Issue].
	Problem string
}

// Error implements error.
func (e *SchemaBoundError) Error() string { return e.Problem }

func tooLong(bound any) *SchemaBoundError {
	return &SchemaBoundError{fmt.Sprintf("takes more than %v to check against the schema; send less, or nest it less", bound)}
}

// check is one validation of a value against a schema. It evaluates the schema that the library has
// compiled. The library's own validation keeps every problem of every branch, and can neither be
// bounded nor stopped.
type check struct {
	ctx       context.Context
	err       error // the reason for an early end
	limit     int   // in steps
	steps     int
	checkedAt int  // steps at the last check of ctx
	stored    bool // members may be missing, because the value is older than the schema

	path   []token
	stack  []frame
	quiet  int // depth of branches whose issues are discarded
	issues []Issue
}

// token is one element of a path: a member's name, or the index of an item.
type token struct {
	name  string
	index int // -1 for a name
}

// frame is an applied schema.
type frame struct {
	schema *jsonschema.Schema
	deeper bool // its value is a part of the value of the frame before
}

// newCheck begins a check that also ends with ctx; done releases it.
func newCheck(ctx context.Context, steps int) (c *check, done context.CancelFunc) {
	ctx, done = context.WithTimeoutCause(ctx, MaxSchemaTime, tooLong(MaxSchemaTime))
	return &check{ctx: ctx, limit: steps}, done
}

// run parses a value and applies the schema to it. Without issues and an error it is valid. A short
// check never checks its context.
func (c *check) run(s *jsonschema.Schema, raw json.RawMessage) (any, []Issue, error) {
	if issue := syntaxIssue(raw); issue != nil {
		return nil, []Issue{*issue}, nil
	}
	r := reader{check: c, rest: string(raw)}
	v := r.value()
	if len(c.issues) == 0 && c.err == nil {
		c.apply(s, v, nil, true)
	}
	if c.err != nil {
		return nil, nil, c.err
	}
	if len(c.issues) > 0 {
		return nil, sortIssues(c.issues), nil
	}
	return v, nil, nil
}

// over returns the reason why the context has ended.
func (c *check) over() error {
	var late *SchemaBoundError
	if errors.As(context.Cause(c.ctx), &late) {
		return late
	}
	return fmt.Errorf("check against schema: %w", context.Cause(c.ctx))
}

// spend counts steps and reports whether the check continues.
func (c *check) spend(n int) bool {
	c.steps += n
	switch {
	case c.err != nil:
	case c.steps > c.limit:
		c.err = tooLong(strconv.Itoa(c.limit) + " steps")
	case c.steps-c.checkedAt >= 1024:
		c.checkedAt = c.steps
		if c.ctx.Err() != nil {
			c.err = c.over()
		}
	}
	return c.err == nil
}

// full reports whether further issues would be ignored.
func (c *check) full() bool {
	return c.err != nil || c.quiet > 0 || len(c.issues) >= MaxSchemaIssues
}

func (c *check) enter(name string) { c.path = append(c.path, token{name, -1}) }
func (c *check) enterItem(i int)   { c.path = append(c.path, token{"", i}) }
func (c *check) leave()            { c.path = c.path[:len(c.path)-1] }

// add records an issue at the current place and returns false, the result of the check.
func (c *check) add(problem string) bool {
	if !c.full() {
		c.issues = append(c.issues, Issue{Path: c.pointer(), Problem: shorten(problem)})
	}
	return false
}

// fail records an issue for an error kind of the library.
func (c *check) fail(k jsonschema.ErrorKind) bool {
	if c.full() {
		return false
	}
	return c.add(describe(k))
}

// pointer returns the JSON pointer to the value, cut to the maximum length.
func (c *check) pointer() string {
	var b strings.Builder
	for _, t := range c.path {
		if b.Len() > maxProblem {
			break
		}
		b.WriteByte('/')
		if t.index >= 0 {
			b.WriteString(strconv.Itoa(t.index))
		} else {
			b.WriteString(escapePointer(shorten(t.name)))
		}
	}
	return b.String()
}

// syntaxIssue describes text that is not one JSON value.
func syntaxIssue(raw json.RawMessage) *Issue {
	if json.Valid(raw) {
		return nil
	}
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	var first json.RawMessage
	problem := "is not valid JSON: invalid character after top-level value"
	if err := dec.Decode(&first); err != nil {
		problem = "is not valid JSON: " + err.Error()
	}
	return &Issue{Problem: problem}
}

// malformedIssue describes arguments of a model that are not JSON. They arrive as a JSON string, which
// fits no schema of a tool's input.
func malformedIssue(raw json.RawMessage) *Issue {
	var text string
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &text) != nil {
		return nil
	}
	var v json.RawMessage
	var syntax *json.SyntaxError
	if !errors.As(json.Unmarshal([]byte(text), &v), &syntax) {
		return nil
	}
	before := text[:min(max(int(syntax.Offset)-1, 0), len(text))]
	line := strings.Count(before, "\n") + 1
	column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
	return &Issue{Problem: fmt.Sprintf("is not valid JSON: %v at line %d, column %d", syntax, line, column)}
}

// pattern is a regular expression with a known cost: a step is 256 bytes of text times instructions.
type pattern struct {
	*regexp.Regexp
	instructions int
}

// newPattern implements the library's engine of regular expressions.
func newPattern(s string) (jsonschema.Regexp, error) {
	re, err := regexp.Compile(s)
	if err != nil {
		return nil, err
	}
	tree, err := syntax.Parse(s, syntax.Perl)
	if err != nil {
		return nil, err
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	return &pattern{re, len(prog.Inst)}, nil
}

// matches reports whether a pattern matches a text.
func (c *check) matches(re jsonschema.Regexp, text string) bool {
	cost := len(text)
	if p, ok := re.(*pattern); ok {
		cost *= p.instructions
	}
	return c.spend(1+cost/256) && re.MatchString(text)
}
