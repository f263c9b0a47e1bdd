package grain

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/internal/waiting"
)

// TestUnreachableMemberIsLoggedOnce: a member without an answer for 90 s is logged at the begin, after
// a minute and at the end, separately from other members.
func TestUnreachableMemberIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out waiting.Log
		ls := newLinks(slog.New(slog.NewTextHandler(&out, nil)), nil, time.Second)
		ls.found("a:1")
		for range 45 {
			ls.missed("a:1", errors.New("connection refused"))
			time.Sleep(2 * time.Second)
		}
		ls.missed("b:1", errors.New("timeout"))
		ls.found("a:1")
		ls.found("a:1")
		for line, want := range map[string]int{
			`level=WARN msg="cannot reach member" address=a:1 err="connection refused"`:                                   1,
			`level=WARN msg="still cannot reach member" address=a:1 duration=1m0s suppressed=30 err="connection refused"`: 1,
			`level=INFO msg="member reachable again" address=a:1 duration=1m30s suppressed=44`:                            1,
			`level=WARN msg="cannot reach member" address=b:1 err=timeout`:                                                1,
			"level=": 4,
		} {
			if got := out.Count(line); got != want {
				t.Errorf("got %d lines with %s, want %d:\n%s", got, line, want, &out)
			}
		}
	})
}
