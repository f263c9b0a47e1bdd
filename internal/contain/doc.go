// Package contain calls functions and methods of authors so that a mistake in one is one failed call, and never
// the end of the process.
//
// Every package that calls a function of an author, or a method of a value that an author made, does so through
// here: [Do] for functions, [Handle] for handlers, [Stream] for iterators, [Encode] and [Decode] for values, [Logger] for handlers of logs.
//
//  1. A panic is a [*PanicError].
//  2. A function that ends its goroutine by runtime.Goexit, as FailNow of a test does, is an [*ExitError].
//  3. An error that a function returns leaves as a value of this package. Its text is taken once, inside the
//     containment, so that no later Error, Is, As or Unwrap runs code of the author outside of it.
//  4. A panic's value leaves as text.
//
// Functions run on a goroutine of their own, because Goexit cannot be stopped on the caller's. Do waits for it: a
// caller that cannot wait runs Do in a goroutine and leaves that behind.
//
// Faults that the Go runtime does not let a program survive end the process here, too: concurrent writes of a map, a stack
// without end, memory without end, os.Exit. So does a panic on a goroutine that an author has started.
//
// All functions are safe for concurrent use. Nothing is kept.
package contain
