package contain

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"
)

// PanicError is a contained panic. Models and callers may see its text; Value and Stack are for logs
// only.
type PanicError struct {
	// Op names the function: "tool label".
	Op string
	// Value is the text of the panic's value.
	Value string
	Stack []byte

	cause error // the value, if it is an error
}

// Error implements error. It has neither the value nor the stack.
func (e *PanicError) Error() string { return e.Op + " crashed" }

// Unwrap returns the panic's value, as its text, if it is an error; else nil.
func (e *PanicError) Unwrap() error { return e.cause }

// maxValue bounds the text of a panic's value, in bytes.
const maxValue = 64 << 10

// take sets the text of the value. If its methods panic again or do not return, the type is used.
func (e *PanicError) take(v any) {
	defer func() { _ = recover() }()
	text := fmt.Sprint(v)
	e.Value = text[:min(len(text), maxValue)]
	if err, ok := v.(error); ok {
		e.cause = &frozen{text: e.Value, err: err}
	}
}

// Logged returns an error for logs, which wraps err: its text adds the value and the stack of a panic.
func Logged(err error) error {
	var crash *PanicError
	if !errors.As(err, &crash) {
		return err
	}
	return fmt.Errorf("%w: panic: %s\n%s", err, crash.Value, crash.Stack)
}

// ExitError reports that a function ended its goroutine by runtime.Goexit.
type ExitError struct {
	// Op names the function.
	Op string
}

// Error implements error.
func (e *ExitError) Error() string {
	return e.Op + " ended its goroutine without returning, by runtime.Goexit or FailNow of a test; return an error instead"
}

// Freeze returns an error with the text of an author's error, whose methods run contained from now on.
// It returns nil for nil. If the text cannot be taken, it returns a [*PanicError] or an [*ExitError].
func Freeze(desc string, err error) error {
	if err == nil || settled(err) {
		return err
	}
	return Run(desc, func() error { return err })
}

// settled reports whether neither an error nor one that it wraps has methods of an author.
func settled(err error) bool {
	switch e := err.(type) {
	case *frozen:
		return true
	case *PanicError:
		return e != nil
	case *ExitError:
		return e != nil
	}
	t := reflect.TypeOf(err)
	return t == reflect.TypeOf(context.Canceled) || t == reflect.TypeOf(context.DeadlineExceeded)
}

// freeze is Freeze inside the containment.
func freeze(err error) error {
	if settled(err) {
		return err
	}
	return &frozen{text: err.Error(), err: err}
}

// frozen is an error of an author. Its text was taken once; all other methods run inside the
// containment.
type frozen struct {
	text string
	err  error
}

// Error implements error.
func (e *frozen) Error() string { return e.text }

// Is lets [errors.Is] match the error of the author and those that it wraps.
func (e *frozen) Is(target error) bool { return asked(func() bool { return errors.Is(e.err, target) }) }

// As lets [errors.As] match the error of the author and those that it wraps. The result has methods of
// its own, which run outside of the containment: callers only read its fields, or freeze it. A nil
// pointer, whose fields cannot be read, does not match.
func (e *frozen) As(target any) bool {
	// Use a copy, because an abandoned method may still write.
	found := reflect.New(reflect.TypeOf(target).Elem())
	if !asked(func() bool { return errors.As(e.err, found.Interface()) && !isNil(found.Elem()) }) {
		return false
	}
	reflect.ValueOf(target).Elem().Set(found.Elem())
	return true
}

// isNil reports whether a value is a nil pointer, or an interface that holds one.
func isNil(v reflect.Value) bool {
	if v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// askLimit is the timeout of the methods Is, As and Unwrap of an author's error.
const askLimit = 5 * time.Second

// asked returns the result of methods of an author. It returns false if they panic, do not return, or
// exceed askLimit.
func asked(question func() bool) bool {
	answer := make(chan bool, 1)
	go func() {
		ok := false
		defer func() {
			_ = recover()
			answer <- ok
		}()
		ok = question()
	}()
	limit := time.NewTimer(askLimit)
	defer limit.Stop()
	select {
	case ok := <-answer:
		return ok
	case <-limit.C:
		return false
	}
}
