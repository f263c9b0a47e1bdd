package machine_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/conversation"
)

func TestUnreadableLogHidesCause(t *testing.T) {
	const secret = "object 17 of customer acme is corrupt"
	for name, tc := range map[string]struct {
		permanent bool
		want      conversation.Code
	}{
		"transient": {false, conversation.CodeUnavailable},
		"permanent": {true, conversation.CodeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig()
			r.boot("w1")
			cause := errors.New(secret)
			r.step(machine.Admit{To: 1, Admission: admission("a", "x")})
			r.step(machine.Admit{To: 2, Admission: admission("b", "y"), Precheck: true})
			effects := r.step(machine.OpenFailed{Err: cause, Permanent: tc.permanent})
			if len(effects) != 3 {
				t.Fatalf("got effects %v, want 3", effects)
			}
			for i, e := range effects[:2] {
				reply, ok := e.(machine.Reply)
				refused, isRefused := reply.Value.(machine.Refused)
				if !ok || !isRefused || reply.To != machine.ReplyID(i+1) {
					t.Fatalf("effect %d: got %+v, want a refusal", i, e)
				}
				err := refused.Err
				if err.Code != tc.want || err.Details == "" || strings.Contains(err.Details, "acme") || err.Meta != nil {
					t.Errorf("got %q, %q, %v, want code %q with details and no cause", err.Code, err.Details, err.Meta, tc.want)
				}
				if (err.RetryAfter > 0) == tc.permanent {
					t.Errorf("got retry after %v, permanent %t", err.RetryAfter, tc.permanent)
				}
				if !errors.Is(err, cause) {
					t.Errorf("%v does not wrap its cause", err)
				}
			}
			if stop, ok := effects[2].(machine.Stop); !ok || stop.Reason != machine.StopUnread || stop.Err != cause {
				t.Errorf("got last effect %+v, want a stop with the cause", effects[2])
			}
		})
	}
}
