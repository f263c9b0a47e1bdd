package actors

import (
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/storage"
)

// TestIsolation: a node with invalid certificates is unready once no other node answers, and the
// reason names the certificates. A node with valid certificates serves its own conversations; with
// live connections it serves all.
func TestIsolation(t *testing.T) {
	end := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	certs := []Certificate{{"node", end}, {"ca", end.AddDate(9, 0, 0)}}
	self := storage.Member{Weight: 1, Wants: 1}
	for _, tt := range []struct {
		name              string
		st                standing
		reachable, others int
		refused           bool
		want              []string // nil for ready
	}{
		{"two nodes, links up", standing{self: self, owners: 1, answering: 1}, 1, 1, false, nil},
		{"two nodes, expired, links up", standing{self: self, owners: 1, answering: 1}, 1, 1, true, nil},
		{"two nodes, the other away", standing{self: self, owners: 1}, 0, 1, false, nil},
		{"two nodes, expired, none reached", standing{self: self, owners: 1}, 0, 1, true, []string{"none of 1 other nodes", "certificate node expires 2026-11-28T12:00:00Z", "without a restart"}},
		{"two nodes, expired, the other without a share", standing{self: self}, 0, 1, true, []string{"none of 1 other nodes", "certificate node"}},
		{"alone, expired", standing{self: self}, 0, 0, true, nil},
		{"three nodes, expired, one reached", standing{self: self, owners: 2, answering: 1}, 1, 2, true, nil},
		{"three nodes, none reached", standing{self: self, owners: 2}, 0, 2, false, []string{"cut off: 0 of 2"}},
		{"three nodes, expired, none reached", standing{self: self, owners: 2}, 0, 2, true, []string{"cut off: 0 of 2", "certificate node"}},
		{"a starting node not reached, expired", standing{self: storage.Member{Wants: 1}, owners: 2}, 0, 2, true, []string{"not reached: 0 of 2", "certificate node"}},
	} {
		got := isolation(tt.st, Status{Reachable: tt.reachable, Others: tt.others, Certificates: certs}, tt.refused)
		if got == "" != (tt.want == nil) {
			t.Errorf("%s: got reason %q, want %q in it", tt.name, got, tt.want)
		}
		for _, want := range tt.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: got reason %q, want %q in it", tt.name, got, want)
			}
		}
		if !tt.refused && strings.Contains(got, "certificate") {
			t.Errorf("%s: got reason %q of valid certificates", tt.name, got)
		}
	}
}
