package machine_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/conversation"
)

func TestUnreadableLogIsToldInOurWords(t *testing.T) {
	const secret = "object 17 of customer acme is damaged"
	for name, tc := range map[string]struct {
		permanent bool
		want      conversation.Code
	}{
		"for now":  {false, conversation.CodeUnavailable},
		"for good": {true, conversation.CodeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig()
			r.boot("w1")
			cause := errors.New(secret)
			r.step(machine.Admit{To: 1, Admission: admission("a", "x")})
			r.step(machine.Admit{To: 2, Admission: admission("b", "y"), Precheck: true})
			effects := r.step(machine.OpenFailed{Err: cause, Permanent: tc.permanent})
			if len(effects) != 3 {
				t.Fatalf("effects are %v", effects)
			}
			for i, e := range effects[:2] {
				reply, ok := e.(machine.Reply)
				refused, isRefused := reply.Value.(machine.Refused)
				if !ok || !isRefused || reply.To != machine.ReplyID(i+1) {
					t.Fatalf("effect %d is %+v", i, e)
				}
				err := refused.Err
				if err.Code != tc.want || err.Details == "" || strings.Contains(err.Details, "acme") || err.Meta != nil {
					t.Errorf("told %q, %q, %v", err.Code, err.Details, err.Meta)
				}
				if (err.RetryAfter > 0) == tc.permanent {
					t.Errorf("asked to come back after %v", err.RetryAfter)
				}
				if !errors.Is(err, cause) {
					t.Errorf("%v hides its cause from operators", err)
				}
			}
			if stop, ok := effects[2].(machine.Stop); !ok || stop.Reason != machine.StopUnread || stop.Err != cause {
				t.Errorf("the machine ends with %+v", effects[2])
			}
		})
	}
}
