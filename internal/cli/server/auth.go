package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// unauthorized is the error body of this middleware in the envelope of the protocol, which itself
// performs no authentication.
const unauthorized = `{"error":{"type":"unauthorized","message":"The request is not authorized.",` +
	`"details":"Send the header Authorization: Bearer <token> with the token of this server."}}`

// unless serves requests for which so is true with other. Platforms send no token and are verified by
// their signature.
func unless(so func(*http.Request) bool, next, other http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if so(r) {
			other.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// bearer rejects requests without the token. If token is "", it rejects none.
func bearer(token string, next http.Handler) http.Handler {
	if token == "" {
		return next
	}
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		got := sha256.Sum256([]byte(strings.TrimSpace(given)))
		// Digests have the same length, so the timing does not reveal the length of the token.
		same := subtle.ConstantTimeCompare(got[:], want[:]) == 1
		if same && strings.EqualFold(scheme, "Bearer") {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, r, http.StatusUnauthorized, unauthorized)
	})
}
