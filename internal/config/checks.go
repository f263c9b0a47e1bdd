package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/parleyrun/parley/providers"
)

// hostPattern matches a host name in ASCII.
const hostPattern = `^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?\.?$`

func isHost(s string) bool {
	return len(s) <= 253 && (regexp.MustCompile(hostPattern).MatchString(s) || net.ParseIP(s) != nil)
}

func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && strconv.FormatUint(n, 10) == s
}

func checkListen(s string) fault {
	const remedy = "write host:port, for example " + DefaultListen
	host, port, err := net.SplitHostPort(s)
	switch {
	case strings.Contains(s, "://"):
		return fault{quote(s) + " has a scheme", remedy}
	case err != nil:
		return fault{quote(s) + " is not of the form host:port", remedy}
	case !isPort(port):
		return fault{fmt.Sprintf("%s has the port %s, want 0 to 65535", quote(s), quote(port)), remedy}
	case host != "" && !isHost(host):
		return fault{fmt.Sprintf("%s has the host %s, which is neither a name nor an IP address", quote(s), quote(host)), remedy}
	}
	return fault{}
}

// checkURL accepts URLs for requests to which a path can be appended.
func checkURL(s string) fault {
	const remedy = "write http or https, a host and at most a path, for example https://agents.example.com/v1"
	if f := checkBare(s); f != (fault{}) {
		return f
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme == "" || u.Host == "":
		return fault{quote(s) + " is not a URL", remedy}
	case u.Scheme != "http" && u.Scheme != "https":
		return fault{quote(s) + " is neither http nor https", remedy}
	case !isHost(u.Hostname()) || u.Port() != "" && !isPort(u.Port()) || strings.HasSuffix(u.Host, ":"):
		return fault{quote(s) + " has no reachable host", remedy}
	}
	return fault{}
}

// checkBaseURL is checkURL for the endpoint of a model server, which may have a query.
func checkBaseURL(s string) fault {
	address, query, _ := strings.Cut(s, "?")
	if f := checkURL(address); f != (fault{}) {
		return f
	}
	if strings.Contains(query, "#") {
		return fault{"contains a \"#\", which no request sends", "write %23 for one in a query"}
	}
	return fault{}
}

// CheckURL validates an endpoint of a model server as in a file. Its error includes the remedy.
func CheckURL(s string) error {
	if f := checkBaseURL(s); f != (fault{}) {
		return errors.New(f.problem + "; " + f.remedy)
	}
	return nil
}

// checkBare rejects the parts of an address that may hold a secret. Its text does not show them.
func checkBare(s string) fault {
	if i := strings.IndexAny(s, "@?#"); i >= 0 {
		return fault{fmt.Sprintf("contains %q, which may belong to a password or a query", s[i:i+1]), "write only the address"}
	}
	return fault{}
}

func checkNetwork(s string) fault {
	const example = "write an address and a length, for example 10.0.0.0/8"
	p, err := netip.ParsePrefix(s)
	if err != nil {
		if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
			return fault{quote(s) + " is an address, want a network", fmt.Sprintf("write %s/%d for this address alone", a, a.BitLen())}
		}
		return fault{quote(s) + " is not a network", example}
	}
	if p.Addr().Is4In6() {
		// Peers are compared in their IPv4 form.
		return fault{quote(s) + " is an IPv4 network in IPv6 form", example}
	}
	if p != p.Masked() {
		return fault{fmt.Sprintf("%s has bits after the first %d", quote(s), p.Bits()), "write " + p.Masked().String()}
	}
	return fault{}
}

// checkDir rejects shell syntax, which would create a folder with that literal name.
func checkDir(s string) fault {
	if strings.HasPrefix(s, "~") || strings.HasPrefix(s, "$") {
		return fault{fmt.Sprintf("%s begins with %q, which is not expanded here", quote(s), s[:1]), "write the path itself, for example /var/lib/parley or " + DefaultDir}
	}
	return fault{}
}

func checkEndpoint(s string) fault {
	const remedy = "write host or host:port, for example s3.example.com"
	if f := checkBare(s); f != (fault{}) {
		return fault{f.problem, f.remedy + ", and name the variables of the keys with accessKeyEnv and secretKeyEnv"}
	}
	if scheme, rest, ok := strings.Cut(s, "://"); ok {
		host, _, _ := strings.Cut(rest, "/")
		if !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") {
			return fault{quote(s) + " is not a server", remedy + ", and the bucket's own name at name"}
		}
		return fault{quote(s) + " has a scheme", fmt.Sprintf("leave out %s, write endpoint: %s and secure: %t", quote(scheme+"://"), keyHost(host), strings.EqualFold(scheme, "https"))}
	}
	if i := strings.IndexByte(s, '/'); i >= 0 {
		return fault{quote(s) + " has a path", fmt.Sprintf("leave out %s; the bucket goes to name, a folder in it to prefix", quote(s[i:]))}
	}
	host, port := s, ""
	if strings.Contains(s, ":") {
		var err error
		if host, port, err = net.SplitHostPort(s); err != nil || !isPort(port) || port == "0" {
			return fault{quote(s) + " is not of the form host:port", remedy}
		}
	}
	if !isHost(host) {
		return fault{fmt.Sprintf("%s has the host %s, which is neither a name nor an IP address", quote(s), quote(host)), remedy}
	}
	return fault{}
}

// keyHost returns a host for an example, or a placeholder if s is not one.
func keyHost(s string) string {
	if checkEndpoint(s) != (fault{}) {
		return "<host>"
	}
	return s
}

func checkBucketName(s string) fault {
	const remedy = "write 3 to 63 of a-z, 0-9, \"-\" and \".\", for example conversations"
	if !regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`).MatchString(s) ||
		strings.Contains(s, "..") || strings.Contains(s, ".-") || strings.Contains(s, "-.") || net.ParseIP(s) != nil {
		return fault{quote(s) + " is not the name of a bucket", remedy}
	}
	return fault{}
}

func checkRegion(s string) fault {
	if !regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`).MatchString(s) {
		return fault{quote(s) + " is not the name of a region", "write for example eu-central-1"}
	}
	return fault{}
}

func checkPrefix(s string) fault {
	const remedy = "write for example parley or team/parley"
	if trimmed := strings.Trim(s, "/"); trimmed != s {
		if trimmed != "" && checkPrefix(trimmed) == (fault{}) {
			return fault{quote(s) + " begins or ends with a slash", "write " + trimmed}
		}
		return fault{quote(s) + " begins or ends with a slash", remedy}
	}
	for step := range strings.SplitSeq(s, "/") {
		if step == "" || step == "." || step == ".." || !regexp.MustCompile(`^[A-Za-z0-9._-]+$`).MatchString(step) {
			return fault{fmt.Sprintf("%s has the part %s, which has characters other than letters, digits and ._-", quote(s), quote(step)), remedy}
		}
	}
	if len(s) > 200 {
		return fault{fmt.Sprintf("%s is longer than 200 characters", quote(s)), remedy}
	}
	return fault{}
}

// checkOrigin accepts "*" and an origin exactly as a browser sends it, because it is compared
// literally.
func checkOrigin(s string) fault {
	const remedy = "write scheme and host, for example https://app.example.com"
	if s == "*" {
		return fault{}
	}
	if f := checkBare(s); f != (fault{}) {
		return f
	}
	if strings.Contains(s, "*") {
		return fault{quote(s) + " contains a wildcard", `list each origin, or write "*" alone to allow every page`}
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme == "" || !isHost(u.Hostname()) || u.Port() != "" && !isPort(u.Port()) {
		guess := "https://" + s
		if strings.HasPrefix(s, "localhost") || strings.HasPrefix(s, "127.") {
			guess = "http://" + s
		}
		if !strings.Contains(s, "://") && s != "null" && checkOrigin(guess) == (fault{}) {
			return fault{quote(s) + " is not an origin", "write " + guess}
		}
		return fault{quote(s) + " is not an origin", remedy}
	}
	if sent := asSent(u); s != sent {
		return fault{quote(s) + " is not an origin as browsers send it", "write " + sent}
	}
	return fault{}
}

// asSent returns the origin of a page: lower case, without a default port or a path.
func asSent(u *url.URL) string {
	host := strings.ToLower(u.Hostname())
	if ip := net.ParseIP(host); ip != nil && strings.Contains(host, ":") {
		host = "[" + ip.String() + "]"
	}
	port := u.Port()
	if port != "" && !(u.Scheme == "http" && port == "80") && !(u.Scheme == "https" && port == "443") {
		host += ":" + port
	}
	return strings.ToLower(u.Scheme) + "://" + host
}

// checkMount applies the rules of the HTTP handler: characters that have one spelling in a URL.
func checkMount(s string) fault {
	const remedy = "write for example /agents/echo"
	if s == "/" {
		return fault{}
	}
	rest, ok := strings.CutPrefix(s, "/")
	if !ok {
		return fault{quote(s) + " is not an absolute path", remedy}
	}
	for step := range strings.SplitSeq(rest, "/") {
		switch {
		case step == "":
			return fault{quote(s) + " has an empty segment or a trailing slash", remedy}
		case step == "." || step == "..":
			return fault{quote(s) + " has a relative segment", remedy}
		case !regexp.MustCompile(`^[A-Za-z0-9._~-]+$`).MatchString(step):
			return fault{fmt.Sprintf("%s has a character other than letters, digits and -._~ in %s", quote(s), quote(step)), remedy}
		}
	}
	return fault{}
}

func checkProviderID(s string) fault {
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`).MatchString(s) {
		return fault{quote(s) + " is not the id of a provider", "write letters, digits and ._- without a slash, for example local"}
	}
	return fault{}
}

func checkGatewayID(s string) fault {
	if strings.TrimSpace(s) == "" {
		return fault{"is empty, but a gateway needs an id", "write for example id: default"}
	}
	return fault{}
}

func checkHeaderName(s string) fault {
	if !regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$").MatchString(s) {
		return fault{quote(s) + " is not the name of a header", "write for example X-Team"}
	}
	return fault{}
}

// checkHeaderValue does not show the value, which may be a secret.
func checkHeaderValue(s string) fault {
	if strings.ContainsFunc(s, func(c rune) bool { return unicode.IsControl(c) && c != '\t' }) {
		return fault{"contains a line break or another control character", "write the value on one line"}
	}
	return fault{}
}

func checkInput(s string) fault {
	if s != providers.InputText && s != providers.InputImage {
		return fault{quote(s) + " is not a kind of input", "write text or image"}
	}
	return fault{}
}
