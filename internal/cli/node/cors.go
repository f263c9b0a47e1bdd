package node

import (
	"net"
	"net/http"
	"net/url"
	"slices"

	parleyhttp "github.com/parleyrun/parley/http"
)

// origins are the pages that may use the server from a browser. The zero value
// is none.
type origins struct {
	// list are origins as browsers send them, or the single "*" for all.
	list []string
	// loopback allows the pages that this machine serves.
	loopback bool
}

// any reports whether every page is allowed.
func (o origins) any() bool { return slices.Contains(o.list, "*") }

func (o origins) allow(origin string) bool {
	return origin != "" && (o.any() || slices.Contains(o.list, origin) || o.loopback && loopback(origin))
}

// middleware lets the pages use what is behind it. It answers their preflights
// itself, so it stands before authentication: a preflight carries no token. The
// protocol knows nothing of CORS.
func (o origins) middleware(next http.Handler) http.Handler {
	if len(o.list) == 0 && !o.loopback {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		if !o.any() {
			// Also for pages that are not allowed: a cache must not give them, or
			// the others, the wrong answer.
			h.Add("Vary", "Origin")
		}
		origin := r.Header.Get("Origin")
		if !o.allow(origin) {
			next.ServeHTTP(w, r)
			return
		}
		if o.any() {
			origin = "*"
		}
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Expose-Headers", "Stream-Next-Offset, Stream-Up-To-Date, Stream-Closed, Stream-Cursor, ETag, Location")
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST")
			h.Set("Access-Control-Allow-Headers", "Content-Type, Authorization, Idempotency-Key, If-None-Match, traceparent, tracestate")
			h.Set("Access-Control-Max-Age", "600")
			parleyhttp.LeaveBody(w, r)
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func loopback(origin string) bool {
	u, err := url.Parse(origin)
	if err != nil {
		return false
	}
	return loopbackName(u.Hostname())
}

// loopbackName reports whether a host is this machine to itself.
func loopbackName(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
