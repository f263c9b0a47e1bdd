package providers

import (
	"cmp"
	"fmt"
)

// Defaults of [Limits].
const (
	DefaultReplyBytes    = 16 << 20
	DefaultArgumentBytes = 4 << 20
	DefaultCalls         = 128
)

// partBytes is what a part of a reply counts beside its text: that is about what it
// takes to keep it, however short it is.
const partBytes = 256

// Limits bound one reply of a model, which ends with a *LimitError beyond them. Zero
// fields mean the defaults.
type Limits struct {
	// ReplyBytes bounds all that a reply says: text, reasoning, signatures and the
	// arguments of calls. Every part counts 256 bytes more. Zero is 16 MiB.
	ReplyBytes int
	// ArgumentBytes bounds the arguments of one call. Zero is 4 MiB.
	ArgumentBytes int
	// Calls bounds the calls. Zero is 128.
	Calls int
}

func (l Limits) withDefaults() Limits {
	l.ReplyBytes = cmp.Or(l.ReplyBytes, DefaultReplyBytes)
	l.ArgumentBytes = cmp.Or(l.ArgumentBytes, DefaultArgumentBytes)
	l.Calls = cmp.Or(l.Calls, DefaultCalls)
	return l
}

// Limited is what [Limits] bound.
type Limited string

// What a reply may have too much of.
const (
	LimitedReply     Limited = "bytes in a reply"
	LimitedArguments Limited = "bytes of arguments in a call"
	LimitedCalls     Limited = "calls in a reply"
)

// LimitError says that a reply has more of something than it may. What came until
// then was passed on; the rest was not read.
type LimitError struct {
	What  Limited
	Limit int
	Got   int // until reading ended
}

// Error names the limit.
func (e *LimitError) Error() string {
	return fmt.Sprintf("read reply: %d %s, at most %d are taken", e.Got, e.What, e.Limit)
}
