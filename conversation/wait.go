package conversation

import (
	"encoding/json"
	"slices"
	"time"
)

// SignalWait is the type of signals for waits. The attribute "name" has their name.
const SignalWait = "parley.wait"

// Bounds of kept signals.
const (
	// MaxKeptSignals bounds the signals kept for names without a wait.
	MaxKeptSignals = 64
	// MaxSignalBytes bounds the body of a signal for a wait.
	MaxSignalBytes = 64 << 10
	// MaxSignalName bounds the name of a wait, in bytes, as that of a step.
	MaxSignalName = 128
	// MaxWait bounds the duration of a wait.
	MaxWait = 30 * 24 * time.Hour

	// maxDecided bounds the kept names of ended waits.
	maxDecided = 256
	// signalsFor is the retention of kept signals and of names of ended waits.
	signalsFor = Time(7 * 24 * time.Hour / time.Millisecond)
)

// Awaited returns the wait name of a signal. It is not ok for any other delivery.
func (d *Delivery) Awaited() (name string, ok bool) {
	if d.Kind != KindSignal || d.Type != SignalWait {
		return "", false
	}
	return d.Attributes["name"], true
}

// SignalFor returns the signal that delivers a value to the wait of a name. A string is sent as text,
// any other value as JSON.
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

// Wait is a wait of a call without an outcome; it may have ended. Values returned by [State] methods
// are read-only.
type Wait struct {
	Call   CallID          `json:"call"`
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
	Until  Time            `json:"until"`
	Since  Time            `json:"since,omitempty"` // start of the wait
	// Ended is empty while the call waits. Signal and Value are those of EndedBySignal.
	Ended  WaitEnd         `json:"ended,omitempty"`
	At     Offset          `json:"at,omitempty"` // offset of the batch that ended it
	Signal SubmissionID    `json:"signal,omitempty"`
	Value  json.RawMessage `json:"value,omitempty"`
}

func (w *Wait) callBytes() int { return PartBytes + len(w.Schema) + len(w.Value) }

// KeptSignal is a signal for a name without a wait.
type KeptSignal struct {
	Submission SubmissionID `json:"submission"`
	Name       string       `json:"name"`
	Body       string       `json:"body"`
	At         Time         `json:"at"`
}

// DecidedName is the name of an ended wait.
type DecidedName struct {
	Name   string       `json:"name"`
	Signal SubmissionID `json:"signal,omitempty"` // empty if no signal ended it
	At     Time         `json:"at"`
}

// Awaiting returns the oldest open wait for a name, nil if there is none.
func (s *State) Awaiting(name string) *Wait {
	i := slices.IndexFunc(s.waits, func(w *Wait) bool { return w.Name == name && w.Ended == "" })
	if i < 0 {
		return nil
	}
	return s.waits[i]
}

// Waits reports whether a call has an open wait.
func (s *State) Waits(call CallID) bool {
	return slices.ContainsFunc(s.waits, func(w *Wait) bool { return w.Call == call && w.Ended == "" })
}

// OpenWaits returns the open waits of a call, oldest first.
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

// WaitOf returns a call's wait for a name, nil if there is none.
func (s *State) WaitOf(call CallID, name string) *Wait {
	i := slices.IndexFunc(s.waits, func(w *Wait) bool { return w.Call == call && w.Name == name })
	if i < 0 {
		return nil
	}
	return s.waits[i]
}

// Kept returns the signal kept for a name at a time, nil if there is none.
func (s *State) Kept(name string, now Time) *KeptSignal {
	i := slices.IndexFunc(s.signals, func(k *KeptSignal) bool { return k.Name == name && k.At > now-signalsFor })
	if i < 0 {
		return nil
	}
	return s.signals[i]
}

// KeptSignals returns the number of signals kept at a time.
func (s *State) KeptSignals(now Time) int {
	n := 0
	for _, k := range s.signals {
		if k.At > now-signalsFor {
			n++
		}
	}
	return n
}

// Decided returns the ended wait of a name, if it is retained at a time.
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
	p.sub.callBytes += w.callBytes()
	if r.Dropped != "" {
		s.takeKept(r.Dropped)
	}
	s.undecide(r.Name)
	s.expireSignals(r.At)
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
	sub.callBytes += len(w.Value)
	s.takeKept(r.Signal)
	s.decide(DecidedName{Name: r.Name, Signal: r.Signal, At: r.At})
	if root := s.root(sub); root.Suspended != nil {
		root.Due = true
	}
	return nil
}

func (s *State) foldKept(r *SignalKept) error {
	s.expireSignals(r.At)
	if s.Kept(r.Name, r.At) != nil {
		return s.bad(r, "a signal is kept for %q already", r.Name)
	}
	s.signals = append(s.signals, &KeptSignal{Submission: r.Submission, Name: r.Name, Body: r.Body, At: r.At})
	return nil
}

// endWaits removes the waits of a call that has its outcome. A signal for a name still open is late.
func (s *State) endWaits(call CallID, at Time) {
	s.waits = slices.DeleteFunc(s.waits, func(w *Wait) bool {
		if w.Call != call {
			return false
		}
		if w.Ended == "" {
			s.decide(DecidedName{Name: w.Name, At: at})
		}
		s.calls[call].sub.callBytes -= w.callBytes()
		return true
	})
}

func (s *State) decide(d DecidedName) {
	s.undecide(d.Name)
	s.decided = append(s.decided, d)
	s.expireSignals(d.At)
}

func (s *State) undecide(name string) {
	s.decided = slices.DeleteFunc(s.decided, func(d DecidedName) bool { return d.Name == name })
}

func (s *State) takeKept(id SubmissionID) {
	s.signals = slices.DeleteFunc(s.signals, func(k *KeptSignal) bool { return k.Submission == id })
}

// expireSignals drops kept signals past their retention.
func (s *State) expireSignals(now Time) {
	s.signals = slices.DeleteFunc(s.signals, func(k *KeptSignal) bool { return k.At <= now-signalsFor })
	s.decided = slices.DeleteFunc(s.decided, func(d DecidedName) bool { return d.At <= now-signalsFor })
	s.decided = s.decided[max(0, len(s.decided)-maxDecided):]
}

// CallChild returns the subagent conversation of an open call, "" for none.
func (s *State) CallChild(call CallID) ConversationID {
	if p := s.calls[call]; p != nil {
		return p.sub.Child
	}
	return ""
}

// ResponseOf returns the response of an open call. It is not ok for a subagent's call, which is hidden
// from clients.
func (s *State) ResponseOf(call CallID) (id MessageID, ok bool) {
	p := s.calls[call]
	if p == nil || p.sub.Child != "" {
		return "", false
	}
	return p.sub.Message, true
}
