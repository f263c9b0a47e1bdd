package main

import (
	"net/http"
	"strings"

	parleyhttp "github.com/parleyrun/parley/http"
)

// customerOf returns the customer to whom a conversation belongs: its id is that of the customer, with a suffix after a
// dot for further conversations, "c-1" or "c-1.kettle".
func customerOf(conversation string) string {
	id, _, _ := strings.Cut(conversation, ".")
	return id
}

// login lets customers reach their own conversations and nothing else. It has the customer of each session token, which in
// practice a service for logins knows.
type login map[string]string

// demoLogin has the sessions of two customers.
func demoLogin() login { return login{"session-of-ada": "c-1", "session-of-grace": "c-2"} }

// wrap is a middleware of a program. What it does not know, it refuses.
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
		case r.Method == http.MethodOptions: // asked by browsers before a request, without a token
			next.ServeHTTP(w, r)
		case !known:
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(http.StatusUnauthorized, "log in: the bearer token is of no session")
		case !ok || customerOf(id) != customer:
			refuse(http.StatusForbidden, "the conversation belongs to another customer")
		default:
			next.ServeHTTP(w, r)
		}
	})
}
