package s3server

import (
	"crypto/rand"
	"testing"
)

// TestAnotherServerIsNotThisOne asks a server that has other keys, which is what
// stands there when somebody was faster to take the port.
func TestAnotherServerIsNotThisOne(t *testing.T) {
	Each(t, func(t *testing.T, other *Server) {
		s := *other
		if !s.answers(t, nil) {
			t.Error("a server does not know itself")
		}
		s.SecretKey = rand.Text()
		if s.answers(t, nil) {
			t.Error("another server is taken for this one")
		}
	})
}
