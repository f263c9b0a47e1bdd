package server

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	parleyhttp "github.com/parleyrun/parley/http"
	"github.com/parleyrun/parley/internal/config"
)

// origins are the pages that may use the server from a browser. The zero value allows none.
type origins struct {
	// list holds origins as browsers send them, or the single "*" for all.
	list []string
	// loopback allows the pages that this machine serves.
	loopback bool
	// headers may be sent and exposed may be read, in addition to sentHeaders and readHeaders.
	headers, exposed []string
	// credentials allows credentials of the browser.
	credentials bool
}

func originsOf(c config.CORS, loopback bool) origins {
	return origins{list: c.Origins, loopback: loopback, headers: c.Headers, exposed: c.ExposeHeaders, credentials: c.Credentials}
}

// readHeaders are the response headers that clients of all versions read.
var readHeaders = []string{
	"Stream-Next-Offset", "Stream-Up-To-Date", "Stream-Closed", "Stream-Cursor", "ETag", "Location", "Retry-After", "Parley-Error-Ref",
	"Allow", "WWW-Authenticate",
}

// sentHeaders are the request headers that the server reads, and those that tracing libraries and
// readers of event streams add.
var sentHeaders = []string{
	"Content-Type", "Authorization", parleyhttp.HeaderKey, parleyhttp.HeaderNotify, "If-None-Match", "Last-Event-ID", "Cache-Control",
	"traceparent", "tracestate", "baggage", "sentry-trace",
}

// any reports whether every page is allowed.
func (o origins) any() bool { return slices.Contains(o.list, "*") }

func (o origins) allow(origin string) bool {
	return origin != "" && (o.any() || slices.Contains(o.list, origin) || o.loopback && loopback(origin))
}

// addedHeaders returns the headers of a configuration that are not in sentHeaders.
func addedHeaders(headers []string) []string {
	return slices.DeleteFunc(slices.Clone(headers), func(name string) bool {
		return slices.ContainsFunc(sentHeaders, func(s string) bool { return strings.EqualFold(s, name) })
	})
}

// middleware allows the pages to use next. It answers preflights itself, so it precedes
// authentication: a preflight carries no token. CORS is not part of the protocol.
func (o origins) middleware(next http.Handler) http.Handler {
	if len(o.list) == 0 && !o.loopback {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		if !o.any() {
			// Needed for every page, allowed or not, so that a cache does not return the response for
			// another page.
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
		if o.credentials {
			h.Set("Access-Control-Allow-Credentials", "true")
		}
		h.Set("Access-Control-Expose-Headers", strings.Join(slices.Concat(readHeaders, o.exposed), ", "))
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE") // The last three are for routes of the program.
			h.Set("Access-Control-Allow-Headers", strings.Join(slices.Concat(sentHeaders, o.headers), ", "))
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

// loopbackName reports whether a host is a loopback name or address.
func loopbackName(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
