package server

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	parleyhttp "github.com/parleyrun/parley/http"
	"github.com/parleyrun/parley/internal/config"
)

// forbidden is the error envelope of the protocol with a type of this middleware.
const forbidden = `{"error":{"type":"forbidden","message":"The request is not allowed.","details":%q}}`

// home guards a server without a token. A page of another site may send requests to it without reading
// the responses. With DNS rebinding, where a name of that site resolves to this machine, it may read
// them too.
type home struct {
	// origins are the pages that may write, in addition to requests without an origin.
	origins origins
	// hosts are further names of the server.
	hosts []string
	// anyHost accepts every name, because other machines use names that the server does not know.
	anyHost bool
}

func newHome(conf *config.Server, anyHost bool) home {
	h := home{origins: originsOf(conf.CORS, true), anyHost: anyHost}
	if u, err := url.Parse(conf.PublicURL); err == nil && u.Host != "" {
		// Browsers send lower-case names.
		h.hosts = append(h.hosts, strings.ToLower(u.Hostname()))
		h.origins.list = append(slices.Clone(h.origins.list), u.Scheme+"://"+strings.ToLower(u.Host))
	}
	return h
}

// middleware rejects requests for another host name, and writes from pages of other sites.
func (h home) middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !h.named(r):
			refuse(w, r, http.StatusForbidden, fmt.Sprintf(forbidden, "A server without a token accepts only requests to localhost, a loopback address or publicUrl. Use one of them in the URL, or set publicUrl or auth in the configuration file."))
		case !h.wanted(r):
			refuse(w, r, http.StatusForbidden, fmt.Sprintf(forbidden, "A server without a token accepts writes only from its own pages and those of this machine. List the origin at cors.origins of the configuration file, or set auth."))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// named reports whether the request names this server: a loopback name or address, the local address
// of the connection, or a configured name. The port is ignored, because it may have been mapped.
func (h home) named(r *http.Request) bool {
	u := url.URL{Host: r.Host}
	name := strings.ToLower(u.Hostname())
	if h.anyHost || loopbackName(name) || slices.Contains(h.hosts, name) {
		return true
	}
	at, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return at != nil && at.IP.Equal(net.ParseIP(name))
}

// wanted reports whether a request only reads, comes from a page that may write, or comes from no
// page. Browsers send the origin of a write.
func (h home) wanted(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return true
	}
	if origins := r.Header.Values("Origin"); len(origins) > 0 {
		return len(origins) == 1 && (h.origins.allow(origins[0]) || h.anyHost && sameHost(origins[0], r.Host))
	}
	return r.Header.Get("Sec-Fetch-Site") != "cross-site"
}

// sameHost reports whether the origin has the host that a request names.
func sameHost(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, host)
}

// refuse responds with an error in the form of the protocol. It does not wait for an unauthenticated
// body.
func refuse(w http.ResponseWriter, r *http.Request, status int, envelope string) {
	parleyhttp.LeaveBody(w, r)
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(envelope)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(envelope))
}

// warnOpen logs that an address is open to everyone without authentication.
func warnOpen(log *slog.Logger, addr net.Addr, auth config.Auth, remedy string) {
	if auth.Bearer == "" && !isLoopback(addr) {
		log.Warn("address is open without authentication", "listen", addr.String(), "remedy", remedy)
	}
}
