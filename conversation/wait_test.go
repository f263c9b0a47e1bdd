package conversation_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/parleyrun/parley/conversation"
)

func waits(call conversation.CallID, name string) *conversation.WaitStarted {
	return &conversation.WaitStarted{Must: true, Call: call, Name: name, Schema: json.RawMessage(`true`), Until: at + 1000, At: at}
}

// waitOver ends a wait by a signal, or by its timeout if by is empty.
func waitOver(call conversation.CallID, name string, by conversation.SubmissionID) *conversation.WaitEnded {
	r := &conversation.WaitEnded{Must: true, Call: call, Name: name, Reason: conversation.EndedByTimeout, Signal: by, At: at}
	if by != "" {
		r.Reason, r.Value = conversation.EndedBySignal, json.RawMessage(`1`)
	}
	return r
}

func kept(n int, name string) *conversation.SignalKept {
	return &conversation.SignalKept{Must: true, Submission: conversation.SubmissionID(fmt.Sprintf("sub_%d", n)), Name: name, Body: "1", At: at}
}

func TestWaits(t *testing.T) {
	const week = conversation.Time(7 * 24 * time.Hour / time.Millisecond)
	ok := &conversation.ToolSettled{Call: "call_1", Output: json.RawMessage(`1`), At: at}
	dropping := waits("call_1", "a")
	dropping.Dropped = "sub_3"
	other := waits("call_2", "a")
	done := completed("res_1", "turn_1")
	for name, c := range map[string]struct {
		then records
		now  conversation.Time
		want string // waiting call, kept signal, decided
	}{
		"nothing":                 {records{}, at, "- - -"},
		"kept":                    {records{kept(3, "a")}, at, "- sub_3 -"},
		"kept for a week":         {records{kept(3, "a")}, at + week - 1, "- sub_3 -"},
		"kept no longer":          {records{kept(3, "a")}, at + week, "- - -"},
		"waits":                   {records{waits("call_1", "a")}, at, "call_1 - -"},
		"another name":            {records{waits("call_1", "b"), kept(3, "c")}, at, "- - -"},
		"the oldest wait is next": {records{waits("call_1", "a"), other}, at, "call_1 - -"},
		"then the other":          {records{waits("call_1", "a"), other, waitOver("call_1", "a", "sub_4")}, at, "call_2 - sub_4"},
		"decided":                 {records{waits("call_1", "a"), waitOver("call_1", "a", "sub_4")}, at, "- - sub_4"},
		"decided for a week":      {records{waits("call_1", "a"), waitOver("call_1", "a", "sub_4")}, at + week, "- - -"},
		"by its time":             {records{waits("call_1", "a"), waitOver("call_1", "a", "")}, at, "- - none"},
		"by the kept signal":      {records{kept(3, "a"), waits("call_1", "a"), waitOver("call_1", "a", "sub_3")}, at, "- - sub_3"},
		"the kept signal is none": {records{kept(3, "a"), dropping}, at, "call_1 - -"},
		"the call has an outcome": {records{done, waits("call_1", "a"), ok}, at, "- - none"},
		"the submission is over":  {records{done, waits("call_1", "a"), settled("sub_1")}, at, "- - none"},
		"a second round":          {records{waits("call_1", "a"), waitOver("call_1", "a", "sub_4"), other}, at, "call_2 - -"},
	} {
		t.Run(name, func(t *testing.T) {
			s := running(t)
			apply(t, s, called("call_1"), called("call_2"))
			apply(t, s, c.then...)
			for _, s := range []*conversation.State{s, restored(t, s)} {
				if got := knownOf(s, "a", c.now); got != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
			}
		})
	}
}

// knownOf formats the facts that a state has of a name.
func knownOf(s *conversation.State, name string, now conversation.Time) string {
	call, signal, decided := "-", "-", "-"
	if w := s.Awaiting(name); w != nil {
		call = string(w.Call)
	}
	if k := s.Kept(name, now); k != nil {
		signal = string(k.Submission)
	}
	if d, ok := s.Decided(name, now); ok {
		if decided = string(d.Signal); decided == "" {
			decided = "none"
		}
	}
	return call + " " + signal + " " + decided
}

// restored returns the state after encoding and decoding.
func restored(t *testing.T, s *conversation.State) *conversation.State {
	t.Helper()
	b, err := conversation.EncodeState(s)
	if err == nil {
		s, err = conversation.DecodeState(b)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWaitEndResumes(t *testing.T) {
	s := running(t)
	apply(t, s, called("call_1"), completed("res_1", "turn_1"), waits("call_1", "a"))
	sub := s.Submission("sub_1")
	suspend := &conversation.Suspended{Submission: "sub_1", Until: at + 1000, Reason: conversation.ReasonTimer}
	apply(t, s, suspend)
	apply(t, s, kept(3, "b"))
	if sub.Due {
		t.Error("due after an unrelated signal")
	}
	apply(t, s, waitOver("call_1", "a", "sub_4"))
	if !sub.Due || !restored(t, s).Submission("sub_1").Due {
		t.Error("not due after its signal")
	}
	if w := s.EndedWaits("call_1", s.Head()); len(w) != 1 || len(s.EndedWaits("call_1", s.Head()-1)) != 0 || string(w[0].Value) != "1" {
		t.Errorf("got ended waits %+v", w)
	}
	apply(t, s, attempt("sub_1", 1))
	apply(t, s, waits("call_1", "c"), suspend)
	if sub.Due {
		t.Error("due after a wait that had ended before")
	}
}

func TestDecidedNamesAreBounded(t *testing.T) {
	s := running(t)
	apply(t, s, called("call_1"))
	for i := range 300 {
		name := fmt.Sprint(i)
		apply(t, s, waits("call_1", name), waitOver("call_1", name, ""))
	}
	first, last := knownOf(s, "0", at), knownOf(s, "299", at)
	if first != "- - -" || last != "- - none" {
		t.Errorf("got oldest %s, newest %s", first, last)
	}
}
