package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// unauthorized is the error envelope of the protocol. The protocol itself
// performs no authentication, so the type is this middleware's own.
const unauthorized = `{"error":{"type":"unauthorized","message":"The request is not authorized.",` +
	`"details":"Send the header Authorization: Bearer <token> with the token of this server."}}`

// unless serves what is so by another handler: platforms have no token, and prove what they
// send.
func unless(so func(*http.Request) bool, next, other http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if so(r) {
			other.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// bearer refuses requests that do not carry the token. Without a token it refuses
// nothing.
func bearer(token string, next http.Handler) http.Handler {
	if token == "" {
		return next
	}
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		got := sha256.Sum256([]byte(strings.TrimSpace(given)))
		// The digests have one length, so the time tells nothing of the token.
		same := subtle.ConstantTimeCompare(got[:], want[:]) == 1
		if same && strings.EqualFold(scheme, "Bearer") {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, r, http.StatusUnauthorized, unauthorized)
	})
}
