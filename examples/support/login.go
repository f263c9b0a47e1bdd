package main

import (
	"net/http"
	"strings"

	parleyhttp "github.com/parleyrun/parley/http"
)

// customerOf returns the customer of a conversation. The conversation id is the customer id, with an
// optional suffix for further conversations: "c-1" or "c-1.kettle".
func customerOf(conversation string) string {
	id, _, _ := strings.Cut(conversation, ".")
	return id
}

// login maps session tokens to customers. Its middleware lets customers reach their own conversations
// only. A real program asks a login service.
type login map[string]string

// demoLogin returns the sessions of two customers.
func demoLogin() login { return login{"session-of-ada": "c-1", "session-of-grace": "c-2"} }

// wrap is the middleware. It rejects unknown paths.
func (l login) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refuse := func(status int, text string) {
			parleyhttp.LeaveBody(w, r)
			http.Error(w, text, status)
		}
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		customer, known := l[token]
		path, ok := strings.CutPrefix(r.URL.Path, "/agents/support/")
		id, _, _ := strings.Cut(path, "/")
		switch {
		case r.Method == http.MethodOptions: // preflight requests of browsers have no token
			next.ServeHTTP(w, r)
		case !known:
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(http.StatusUnauthorized, "unknown session; log in again")
		case !ok || customerOf(id) != customer:
			refuse(http.StatusForbidden, "conversation belongs to another customer")
		default:
			next.ServeHTTP(w, r)
		}
	})
}
