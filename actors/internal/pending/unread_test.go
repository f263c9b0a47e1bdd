package pending

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// TestUnreadIsBounded: of more corrupt logs than fit, each is quarantined eventually, and logs without
// requests are evicted.
func TestUnreadIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var u unread
		const within = time.Second
		key := func(n int) conversation.Key { return conversation.Key(fmt.Sprint(n)) }
		u.failed("asked once", within)
		time.Sleep(staleAfter * within)
		left := map[int]bool{}
		for n := range 3 * maxUnread {
			left[n] = true
		}
		for round := 0; len(left) > 0; round++ {
			if round > 20 {
				t.Fatalf("%d logs not quarantined, want 0", len(left))
			}
			for n := range 3 * maxUnread {
				if left[n] && u.failed(key(n), within) == 3 {
					delete(left, n)
					u.opened(key(n))
				}
			}
			if len(u.fails) > maxUnread {
				t.Fatalf("%d logs kept, want at most the bound", len(u.fails))
			}
			time.Sleep(within)
		}
		if _, ok := u.fails["asked once"]; ok {
			t.Error("log without requests is still kept")
		}
	})
}
