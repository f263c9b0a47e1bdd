package grain_test

import (
	"crypto/x509"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/actors/internal/grain"
)

const day = 24 * time.Hour

// TestExpiryIsLogged: a member logs 30, 7 and 1 days before a certificate expires, and at its expiry,
// once each. A new pair restarts the sequence without a handshake. Short-lived certificates are
// rotated routinely and get fewer warnings.
func TestExpiryIsLogged(t *testing.T) {
	for _, tt := range []struct {
		name                string
		validity, authority time.Duration
		soon                []int // warnings logged after each of the times
		expired             int
	}{
		{"seventy days", 70 * day, 3650 * day, []int{0, 1, 2, 3, 3}, 1},
		{"forty days", 40 * day, 3650 * day, []int{0, 0, 1, 2, 2}, 1},
		{"a week", 7 * day, 3650 * day, []int{0, 0, 0, 1, 1}, 1},
		{"an hour", time.Hour, 3650 * day, []int{0, 0, 0, 0, 0}, 1},
		{"as long as the authority", 70 * day, 70 * day, []int{0, 2, 4, 6, 6}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ca := newAuthorityFor(t, "ours", tt.authority)
				began := time.Now()
				issue := func() (cert, key []byte) {
					return ca.issue(t, func(c *x509.Certificate) { c.NotBefore, c.NotAfter = time.Now(), time.Now().Add(tt.validity) })
				}
				cert, key := issue()
				f := files(t, ca.pem, cert, key)
				log, lines := newLog()
				watch := grain.Watch(t, *f, log)
				defer watch.Close()
				for i, left := range []time.Duration{31 * day, 29 * day, 6 * day, day / 2, 10 * time.Minute} {
					if at := began.Add(tt.validity - left); at.After(time.Now()) {
						time.Sleep(time.Until(at))
					}
					synctest.Wait()
					if got := lines.Count("cluster certificate expires soon"); got != tt.soon[i] {
						t.Errorf("%v before the end: got %d warnings, want %d\n%s", left, got, tt.soon[i], lines)
					}
				}
				time.Sleep(time.Hour + 20*time.Minute)
				synctest.Wait()
				if got := lines.Count("cluster certificate has expired"); got != tt.expired {
					t.Errorf("after the end: got %d errors, want %d\n%s", got, tt.expired, lines)
				}
				if watch.Expiry().Valid(time.Now()) {
					t.Errorf("after the end: got valid certificates %+v", watch.Expiry())
				}
				if tt.authority == tt.validity {
					return
				}
				cert, key = issue()
				write(t, f.Cert, cert)
				write(t, f.Key, key)
				time.Sleep(20 * time.Minute)
				synctest.Wait()
				if got := watch.Expiry(); !got.Valid(time.Now()) || got.Node.Until.Before(time.Now()) {
					t.Errorf("with a new pair: got %+v, want it in force", got)
				}
			})
		})
	}
}

// TestExpiryOfTheAuthorityThatSigned: of several authorities in the file, the signer of the pair
// counts.
func TestExpiryOfTheAuthorityThatSigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, ours := newAuthorityFor(t, "old", day), newAuthorityFor(t, "ours", 90*day)
		cert, key := ours.issue(t, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(10 * day) })
		f := files(t, append(append([]byte{}, old.pem...), ours.pem...), cert, key)
		log, _ := newLog()
		watch := grain.Watch(t, *f, log)
		defer watch.Close()
		got := watch.Expiry()
		if got.CA.Until != ours.cert.NotAfter || time.Until(got.Node.Until).Round(day) != 10*day {
			t.Errorf("got %+v, want the authority until %v and the pair for 10 days", got, ours.cert.NotAfter)
		}
	})
}
