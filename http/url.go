package http

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxConversationID limits an id, in bytes after decoding.
const maxConversationID = 512

// conversationID decodes the path segment of an id, once.
func conversationID(segment string) (string, error) {
	id, err := url.PathUnescape(segment)
	switch {
	case err != nil:
		return "", invalid("The conversation id has an invalid percent escape.")
	case strings.TrimFunc(id, isBlank) == "":
		return "", invalid("The conversation id must not be empty or blank.")
	case !utf8.ValidString(id):
		return "", invalid("The conversation id is not valid UTF-8.")
	case len(id) > maxConversationID:
		return "", invalid("The conversation id has %d bytes; at most %d are allowed.", len(id), maxConversationID)
	}
	return id, nil
}

// checkAdmissible rejects ids at admission that URL libraries remove from a path, however escaped.
// Existing conversations with such an id remain readable.
func checkAdmissible(id string) error {
	if id == "." || id == ".." {
		return invalid("The conversation id must not be %q: URL libraries remove such a segment from an address. Choose another id.", id)
	}
	return nil
}

// escapedPath returns the path as received, with unescaped bytes escaped. URL.EscapedPath would
// re-encode such a path and turn an escaped slash into a separator.
func escapedPath(u *url.URL) string {
	if path, err := url.PathUnescape(u.RawPath); u.RawPath == "" || err != nil || path != u.Path {
		return u.EscapedPath()
	}
	var b strings.Builder
	for _, c := range []byte(u.RawPath) {
		if isUnreserved(rune(c)) || strings.IndexByte("%/!$&'()*+,;=:@[]", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// withEscapedPath returns r with a path that the router matches as received.
func withEscapedPath(r *http.Request) *http.Request {
	path := escapedPath(r.URL)
	if path == r.URL.EscapedPath() {
		return r
	}
	u := *r.URL
	u.RawPath = path
	r = r.WithContext(r.Context()) // a copy
	r.URL = &u
	return r
}

// isBlank reports Unicode white space and the byte order mark, which JavaScript clients trim too.
func isBlank(c rune) bool { return unicode.IsSpace(c) || c == '\ufeff' }

// parseQuery parses a query like browsers: malformed escapes are taken literally, so that no parameter
// is hidden by a bad escape.
func parseQuery(raw string) url.Values {
	q := url.Values{}
	for pair := range strings.SplitSeq(raw, "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		q.Add(unescapeQuery(name), unescapeQuery(value))
	}
	return q
}

func unescapeQuery(s string) string {
	if v, err := url.QueryUnescape(s); err == nil {
		return v
	}
	return s
}

func parsePublicURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, fmt.Errorf("parse public url %q: %w", s, err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("parse public url %q: want http or https, a host and at most a path", s)
	}
	return u, nil
}

// streamURL returns the absolute URL of the request, without its query and with its original escaping.
func (h *Handler) streamURL(r *http.Request) string {
	// The request line is unaffected by path-stripping middleware.
	target := r.URL
	if u, err := url.ParseRequestURI(r.RequestURI); err == nil {
		target = u
	}
	path := escapedPath(target)
	if h.public != nil {
		return h.public.Scheme + "://" + h.public.Host + strings.TrimSuffix(h.public.EscapedPath(), "/") + path
	}
	scheme, host := "http", r.Host
	if r.TLS != nil {
		scheme = "https"
	}
	if h.fromTrustedProxy(r) {
		if p := strings.ToLower(firstForwarded(r, "X-Forwarded-Proto")); p == "http" || p == "https" {
			scheme = p
		}
		if f := firstForwarded(r, "X-Forwarded-Host"); isHost(f) {
			host = f
		}
	}
	if !isHost(host) {
		host = localHost(r)
	}
	return scheme + "://" + host + path
}

func (h *Handler) fromTrustedProxy(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	addr := peer.Addr().Unmap().WithZone("")
	for _, p := range h.opts.TrustedProxies {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// firstForwarded returns the value of the proxy nearest to the client.
func firstForwarded(r *http.Request, name string) string {
	v, _, _ := strings.Cut(r.Header.Get(name), ",")
	return strings.TrimSpace(v)
}

// isHost reports whether s is a host with an optional port and nothing else.
func isHost(s string) bool {
	u, err := url.Parse("//" + s)
	return err == nil && s != "" && u.Host == s && u.Hostname() != ""
}

// localHost replaces the host of an HTTP/1.0 request without one.
func localHost(r *http.Request) string {
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && isHost(a.String()) {
		return a.String()
	}
	return "localhost"
}
