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

// partBytes is added for each part of a reply, about the memory overhead of a part.
const partBytes = 256

// Limits bounds one reply of a model. A reply over a limit ends with a *LimitError. Zero fields mean
// the defaults.
type Limits struct {
	// ReplyBytes bounds the whole reply: text, reasoning, signatures and arguments of calls. Every
	// part adds 256 bytes. Zero means 16 MiB.
	ReplyBytes int
	// ArgumentBytes bounds the arguments of one call. Zero means 4 MiB.
	ArgumentBytes int
	// Calls bounds the number of calls. Zero means 128.
	Calls int
}

func (l Limits) withDefaults() Limits {
	l.ReplyBytes = cmp.Or(l.ReplyBytes, DefaultReplyBytes)
	l.ArgumentBytes = cmp.Or(l.ArgumentBytes, DefaultArgumentBytes)
	l.Calls = cmp.Or(l.Calls, DefaultCalls)
	return l
}

// Limited names a quantity that [Limits] bounds.
type Limited string

// The bounded quantities.
const (
	LimitedReply     Limited = "bytes in a reply"
	LimitedArguments Limited = "bytes of arguments in a call"
	LimitedCalls     Limited = "calls in a reply"
)

// LimitError reports that a reply exceeds a limit. The events before the limit were delivered; the
// rest was not read.
type LimitError struct {
	Quantity Limited
	Limit    int
	Got      int // when reading stopped
}

// Error returns the limit.
func (e *LimitError) Error() string {
	return fmt.Sprintf("reply limit exceeded: %d %s, limit %d", e.Got, e.Quantity, e.Limit)
}
