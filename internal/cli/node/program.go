package node

import (
	"net/http"
	"slices"

	"github.com/parleyrun/parley/internal/cli"
)

// extended puts the handlers and the middleware of the program before a node's handler.
func extended(p *cli.Program, next http.Handler) http.Handler {
	if len(p.Mounts) > 0 {
		next = beside(p.Mounts, next)
	}
	for _, wrap := range slices.Backward(p.Middleware) {
		next = wrap(next)
	}
	return next
}

// beside serves patterns of [http.ServeMux], and everything else as next does: paths as
// they came, which a ServeMux would clean.
func beside(mounts map[string]http.Handler, next http.Handler) http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range mounts {
		mux.Handle(pattern, h)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}
