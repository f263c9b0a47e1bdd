package channels

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
)

// errNoReturn reports a function of the application that ended its goroutine.
var errNoReturn = errors.New("the function ended its goroutine and did not return")

// contained calls a function of the application and waits for it. A panic is its error, and so is an end without a
// return, which would end the connection. [http.ErrAbortHandler] stays a panic.
func contained(f func() (any, error)) (result any, err error) {
	done, aborted := make(chan struct{}), false
	err = errNoReturn
	go func() {
		defer close(done)
		defer func() {
			if v := recover(); v != nil {
				aborted = v == http.ErrAbortHandler
				err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
			}
		}()
		result, err = f()
	}()
	<-done
	if aborted {
		panic(http.ErrAbortHandler)
	}
	return result, err
}

// begun is a response that knows whether it has begun.
type begun struct {
	http.ResponseWriter
	yes bool
}

// WriteHeader implements [http.ResponseWriter].
func (w *begun) WriteHeader(status int) {
	w.yes = true
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *begun) Write(b []byte) (int, error) {
	w.yes = true
	return w.ResponseWriter.Write(b)
}

// Unwrap is for [http.ResponseController].
func (w *begun) Unwrap() http.ResponseWriter { return w.ResponseWriter }
