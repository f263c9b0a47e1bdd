package conversation_test

import (
	"testing"

	"github.com/parleyrun/parley/conversation"
)

// TestLostAttemptsCountWithTheirCalls covers an attempt that is followed by another without a release.
// It counts for running calls, not for calls that wait for a signal.
func TestLostAttemptsCountWithTheirCalls(t *testing.T) {
	s := running(t)
	apply(t, s, called("call_1"), called("call_2"), completed("res_1", "turn_1"), waits("call_2", "a"))
	for n := 2; n < 5; n++ {
		apply(t, s, attempt("sub_1", n))
		b, err := conversation.EncodeState(s)
		if err == nil {
			s, err = conversation.DecodeState(b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	apply(t, s, &conversation.AttemptReleased{Submission: "sub_1", Attempt: 4}, attempt("sub_1", 4))
	want := map[conversation.CallID]int{"call_1": 3, "call_2": 0}
	for _, c := range s.Submission("sub_1").OpenCalls() {
		if c.Lost != want[c.Call] {
			t.Errorf("call %s: got %d lost attempts, want %d", c.Call, c.Lost, want[c.Call])
		}
	}
}
