package contain

import (
	"fmt"
	"runtime/debug"
)

// Do calls an author's function and returns its result. what names the function in errors ("tool
// label"). The error is a [*PanicError], an [*ExitError], or has the text of the function's own error
// and supports errors.Is and errors.As.
func Do[T any](desc string, fn func() (T, error)) (T, error) {
	out := &outcome[T]{err: &ExitError{Op: desc}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		out.run(desc, fn)
	}()
	<-done
	return out.value, out.err
}

// Run is [Do] for a function without a result.
func Run(desc string, fn func() error) error {
	_, err := Do(desc, func() (struct{}, error) { return struct{}{}, fn() })
	return err
}

// outcome is the result of a call. Until the call ends, it is the error of a call that never returns.
type outcome[T any] struct {
	value T
	err   error
}

func (o *outcome[T]) run(desc string, fn func() (T, error)) {
	defer func() {
		if v := recover(); v != nil {
			crash := &PanicError{Op: desc, Value: fmt.Sprintf("%T", v), Stack: debug.Stack()}
			o.err = crash // taking the text of v may end the goroutine
			crash.take(v)
		}
	}()
	value, err := fn()
	if err != nil {
		err = freeze(err)
	}
	o.value, o.err = value, err
}
