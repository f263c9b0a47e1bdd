package conversation

import (
	"encoding/json"
	"slices"
	"time"
)

// SignalWait is the type of signals for waits. Their name is the attribute "name".
const SignalWait = "parley.wait"

// Bounds of what is kept of signals for waits.
const (
	// MaxKeptSignals bounds the signals that are kept for names nobody waits for yet.
	MaxKeptSignals = 64
	// MaxSignalBytes bounds the body of a signal for a wait.
	MaxSignalBytes = 64 << 10
	// MaxSignalName bounds the name of a wait, in bytes, as that of a step.
	MaxSignalName = 128
	// MaxWait is how long a wait may be.
	MaxWait = 30 * 24 * time.Hour

	// maxDecided bounds the names that are known to be decided.
	maxDecided = 256
	// signalsFor is how long a signal is kept, and a name known to be decided.
	signalsFor = Time(7 * 24 * time.Hour / time.Millisecond)
)

// Awaited returns the name that a delivery is a signal for. It is not ok for any other
// delivery.
func (d *Delivery) Awaited() (name string, ok bool) {
	if d.Kind != KindSignal || d.Type != SignalWait {
		return "", false
	}
	return d.Attributes["name"], true
}

// SignalFor returns the signal that says a value to who waits for a name. A text is said as it
// is, and anything else as JSON.
func SignalFor(name string, value any) (Delivery, error) {
	body, ok := value.(string)
	if !ok {
		raw, err := EncodeJSON(value)
		if err != nil {
			return Delivery{}, Errorf(CodeInvalidRequest, "The value of a signal has no JSON form: %v.", err)
		}
		body = string(raw)
	}
	return Delivery{Kind: KindSignal, Type: SignalWait, Body: body, Attributes: map[string]string{"name": name}}, nil
}

// Wait is what a call without an outcome waits for, or has waited for. Values returned by
// [State] methods are read-only.
type Wait struct {
	Call   CallID          `json:"call"`
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
	Until  Time            `json:"until"`
	Since  Time            `json:"since,omitempty"` // when it began
	// Ended is empty as long as the call waits. Signal and Value are those of EndedBySignal.
	Ended  WaitEnd         `json:"ended,omitempty"`
	At     Offset          `json:"at,omitempty"` // of the batch that says so
	Signal SubmissionID    `json:"signal,omitempty"`
	Value  json.RawMessage `json:"value,omitempty"`
}

func (w *Wait) brought() int { return PartBytes + len(w.Schema) + len(w.Value) }

// KeptSignal is a signal for a name that nobody has waited for yet.
type KeptSignal struct {
	Submission SubmissionID `json:"submission"`
	Name       string       `json:"name"`
	Body       string       `json:"body"`
	At         Time         `json:"at"`
}

// DecidedName is a name of which a wait is over.
type DecidedName struct {
	Name   string       `json:"name"`
	Signal SubmissionID `json:"signal,omitempty"` // empty if none has ended it
	At     Time         `json:"at"`
}

// Awaiting returns the oldest wait for a name that has not ended, nil if there is none.
func (s *State) Awaiting(name string) *Wait {
	i := slices.IndexFunc(s.waits, func(w *Wait) bool { return w.Name == name && w.Ended == "" })
	if i < 0 {
		return nil
	}
	return s.waits[i]
}

// Waits reports whether a call waits for a signal that has not come.
func (s *State) Waits(call CallID) bool {
	return slices.ContainsFunc(s.waits, func(w *Wait) bool { return w.Call == call && w.Ended == "" })
}

// OpenWaits returns the waits of a call that have not ended, oldest first.
func (s *State) OpenWaits(call CallID) []*Wait {
	var out []*Wait
	for _, w := range s.waits {
		if w.Call == call && w.Ended == "" {
			out = append(out, w)
		}
	}
	return out
}

// EndedWaits returns the waits of a call that have ended up to a batch, oldest first.
func (s *State) EndedWaits(call CallID, by Offset) []*Wait {
	var out []*Wait
	for _, w := range s.waits {
		if w.Call == call && w.Ended != "" && w.At <= by {
			out = append(out, w)
		}
	}
	return out
}

// WaitOf returns a wait of a call, nil if it has none of that name.
func (s *State) WaitOf(call CallID, name string) *Wait {
	i := slices.IndexFunc(s.waits, func(w *Wait) bool { return w.Call == call && w.Name == name })
	if i < 0 {
		return nil
	}
	return s.waits[i]
}

// Kept returns the signal that is kept for a name at a time, nil if there is none.
func (s *State) Kept(name string, now Time) *KeptSignal {
	i := slices.IndexFunc(s.signals, func(k *KeptSignal) bool { return k.Name == name && k.At > now-signalsFor })
	if i < 0 {
		return nil
	}
	return s.signals[i]
}

// KeptSignals counts the signals that are kept at a time.
func (s *State) KeptSignals(now Time) int {
	n := 0
	for _, k := range s.signals {
		if k.At > now-signalsFor {
			n++
		}
	}
	return n
}

// Decided returns what is known at a time of a name of which a wait is over.
func (s *State) Decided(name string, now Time) (d DecidedName, ok bool) {
	i := slices.IndexFunc(s.decided, func(d DecidedName) bool { return d.Name == name && d.At > now-signalsFor })
	if i < 0 {
		return d, false
	}
	return s.decided[i], true
}

func (s *State) foldWaitStarted(r *WaitStarted) error {
	p := s.calls[r.Call]
	switch {
	case p == nil || p.settled:
		return s.bad(r, "call %s is not open", r.Call)
	case s.WaitOf(r.Call, r.Name) != nil:
		return s.bad(r, "call %s waits for %q already", r.Call, r.Name)
	}
	if err := s.belongs(r, p.sub); err != nil {
		return err
	}
	w := &Wait{Call: r.Call, Name: r.Name, Schema: r.Schema, Until: r.Until, Since: r.At}
	s.waits = append(s.waits, w)
	p.sub.brought += w.brought()
	if r.Dropped != "" {
		s.takeKept(r.Dropped)
	}
	s.undecide(r.Name)
	s.forgetSignals(r.At)
	return nil
}

func (s *State) foldWaitEnded(r *WaitEnded) error {
	w := s.WaitOf(r.Call, r.Name)
	if w == nil || w.Ended != "" {
		return s.bad(r, "call %s does not wait for %q", r.Call, r.Name)
	}
	sub := s.calls[r.Call].sub
	if err := s.belongs(r, sub); err != nil {
		return err
	}
	w.Ended, w.At, w.Signal, w.Value = r.Reason, s.head, r.Signal, r.Value
	sub.brought += len(w.Value)
	s.takeKept(r.Signal)
	s.decide(DecidedName{Name: r.Name, Signal: r.Signal, At: r.At})
	if root := s.root(sub); root.Suspended != nil {
		root.Due = true
	}
	return nil
}

func (s *State) foldKept(r *SignalKept) error {
	s.forgetSignals(r.At)
	if s.Kept(r.Name, r.At) != nil {
		return s.bad(r, "a signal is kept for %q already", r.Name)
	}
	s.signals = append(s.signals, &KeptSignal{Submission: r.Submission, Name: r.Name, Body: r.Body, At: r.At})
	return nil
}

// endWaits forgets the waits of a call that has its outcome. Who signals a name that it
// still waited for is late.
func (s *State) endWaits(call CallID, at Time) {
	s.waits = slices.DeleteFunc(s.waits, func(w *Wait) bool {
		if w.Call != call {
			return false
		}
		if w.Ended == "" {
			s.decide(DecidedName{Name: w.Name, At: at})
		}
		s.calls[call].sub.brought -= w.brought()
		return true
	})
}

func (s *State) decide(d DecidedName) {
	s.undecide(d.Name)
	s.decided = append(s.decided, d)
	s.forgetSignals(d.At)
}

func (s *State) undecide(name string) {
	s.decided = slices.DeleteFunc(s.decided, func(d DecidedName) bool { return d.Name == name })
}

func (s *State) takeKept(id SubmissionID) {
	s.signals = slices.DeleteFunc(s.signals, func(k *KeptSignal) bool { return k.Submission == id })
}

// forgetSignals drops what is older than it is kept for.
func (s *State) forgetSignals(now Time) {
	s.signals = slices.DeleteFunc(s.signals, func(k *KeptSignal) bool { return k.At <= now-signalsFor })
	s.decided = slices.DeleteFunc(s.decided, func(d DecidedName) bool { return d.At <= now-signalsFor })
	s.decided = s.decided[max(0, len(s.decided)-maxDecided):]
}

// CallChild returns the subagent conversation that an open call belongs to, "" for none.
func (s *State) CallChild(call CallID) ConversationID {
	if p := s.calls[call]; p != nil {
		return p.sub.Child
	}
	return ""
}

// ResponseOf returns the response that an open call belongs to. It is not ok for one of a
// subagent, which no client sees.
func (s *State) ResponseOf(call CallID) (id MessageID, ok bool) {
	p := s.calls[call]
	if p == nil || p.sub.Child != "" {
		return "", false
	}
	return p.sub.Message, true
}
