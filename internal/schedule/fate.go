package schedule

// Fate is what happens to one request.
type Fate int

// What may happen to a request.
const (
	Delivered   Fate = iota
	LostAnswer       // it lands; the connection is reset before the answer
	Delayed          // a time-out is answered; it lands much later
	Duplicated       // it lands and is answered; a copy lands later
	ErrorBefore      // 503 is answered; it never lands
	ErrorAfter       // it lands; 500 is answered
	Dropped          // it never lands, and no answer comes
	Slow             // it is under way for longer than its sender waits
	fates
)

// String implements fmt.Stringer.
func (f Fate) String() string {
	return [fates]string{"delivered", "lost answer", "delayed", "duplicated", "error before", "error after", "dropped", "slow"}[f]
}

// Faults are all fates but Delivered.
func Faults() []Fate {
	return []Fate{LostAnswer, Delayed, Duplicated, ErrorBefore, ErrorAfter, Dropped, Slow}
}

// Fault turns a draw into one of the faults.
func Fault(x uint64) Fate { return LostAnswer + Fate(x%uint64(fates-LostAnswer)) }

// Reads returns what a fate means for a request that changes nothing.
func (f Fate) Reads() Fate {
	switch f {
	case Delayed:
		return Dropped
	case Duplicated:
		return Delivered
	}
	return f
}
