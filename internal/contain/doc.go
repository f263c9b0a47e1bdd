// Package contain calls functions and methods of authors so that a mistake fails one call and never
// ends the process.
//
// Every package calls author code, functions and methods of their values, through it: [Do] for
// functions, [Handle] for HTTP handlers, [Stream] for iterators, [Encode] and [Decode] for values,
// [Logger] for log handlers.
//
//  1. A panic is a [*PanicError].
//  2. A function that ends its goroutine by runtime.Goexit, as FailNow of a test does, is an [*ExitError].
//  3. A returned error is replaced by a value of this package. Its text is taken once, inside the
//     containment, so that no later Error, Is, As or Unwrap runs author code outside of it.
//  4. A panic's value is replaced by its text.
//
// Functions run on their own goroutine, because Goexit cannot be stopped on the caller's. Do waits for
// it. A caller that must not wait runs Do in a goroutine and abandons it.
//
// Faults that end every Go program end the process here, too: concurrent map writes, stack overflow,
// out of memory, os.Exit. So does a panic on a goroutine that an author has started.
//
// All functions are safe for concurrent use. The package holds no state.
package contain
