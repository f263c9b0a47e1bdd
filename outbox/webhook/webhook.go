// Package webhook delivers posts by HTTP: a POST with the headers webhook-id, webhook-timestamp and
// webhook-signature of Standard Webhooks 1.0 (https://www.standardwebhooks.com), so that receivers can
// verify it with existing libraries.
//
// A 2xx response is a delivery. 410 ends the attempts. Any other response, or none within
// [outbox.Timeout], is retried, not before the time of a Retry-After. Redirects are not followed. The
// host name is resolved once per connection. Unless Private is set, only addresses of the public
// internet are connected to: not those of this machine, of private networks, or of cloud metadata.
// Proxies of the environment are not used, because they would bypass that check.
package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"code.dny.dev/ssrf"

	"github.com/parleyrun/parley/outbox"
)

// Headers of a delivery.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp" // Unix time of the attempt, in seconds
	HeaderSignature = "webhook-signature" // "v1," and base64, one per secret, separated by spaces
)

// Limits of a response and of idle connections.
const (
	maxAnswer        = 64 << 10
	idlePerHost      = 2
	idleAll          = 64
	idleTimeout      = time.Minute
	dialTimeout      = 5 * time.Second
	handshakeTimeout = 10 * time.Second
	minSecret        = 24 // bytes, as required by Standard Webhooks, like the next
	maxSecret        = 64
	secretPrefix     = "whsec_"
)

// azureWire is the address of the host of Azure machines, which lies among public addresses.
var azureWire = netip.PrefixFrom(netip.AddrFrom4([4]byte{168, 63, 129, 16}), 32)

// Options configure webhooks. The zero value works.
type Options struct {
	// Private allows addresses outside the public internet.
	Private bool
	// Transport has the RootCAs, TLS and other settings. A copy is used, with another dialer, no proxy
	// and bounded idle connections. Nil is http.DefaultTransport, or a new transport if that is not an
	// *http.Transport.
	Transport *http.Transport
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Caller posts to URLs. It is safe for concurrent use; [Caller.Close] closes its idle connections.
type Caller struct {
	client *http.Client
	now    func() time.Time
}

// New returns a caller.
func New(o *Options) *Caller {
	if o == nil {
		o = &Options{}
	}
	base := o.Transport
	if base == nil {
		base, _ = http.DefaultTransport.(*http.Transport)
	}
	if base == nil { // The program has replaced the default transport, for example to trace requests.
		base = &http.Transport{ForceAttemptHTTP2: true, TLSHandshakeTimeout: handshakeTimeout}
	}
	t := base.Clone()
	dialer := &net.Dialer{Timeout: dialTimeout}
	if !o.Private {
		dialer.Control = ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(azureWire)).Safe
	}
	t.Proxy, t.DialContext, t.DialTLSContext = nil, dialer.DialContext, nil
	t.MaxIdleConns, t.MaxIdleConnsPerHost, t.IdleConnTimeout = idleAll, idlePerHost, idleTimeout
	c := &Caller{now: o.Now, client: &http.Client{
		Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if c.now == nil {
		c.now = time.Now
	}
	return c
}

// Close closes idle connections.
func (c *Caller) Close() { c.client.CloseIdleConnections() }

// Secret signs deliveries: 24 to 64 bytes.
type Secret []byte

// ParseSecret parses "whsec_" followed by base64.
func ParseSecret(s string) (Secret, error) {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(s, secretPrefix))
	switch {
	case err != nil:
		return nil, errors.New("invalid webhook secret: want \"whsec_\" followed by base64")
	case len(raw) < minSecret || len(raw) > maxSecret:
		return nil, fmt.Errorf("invalid webhook secret: want %d to %d bytes in base64, got %d", minSecret, maxSecret, len(raw))
	}
	return raw, nil
}

// String hides the secret in texts and logs.
func (Secret) String() string { return "(secret)" }

// sign returns a signature.
func (s Secret) sign(id string, at int64, body []byte) string {
	mac := hmac.New(sha256.New, s)
	fmt.Fprintf(mac, "%s.%d.", id, at)
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// Target returns the target of a URL. Each secret adds a signature, so that receivers can rotate
// secrets; without secrets nothing is signed. The URL is checked as by [CheckURL].
func (c *Caller) Target(rawURL string, secrets ...Secret) (outbox.Target, error) {
	if err := CheckURL(rawURL); err != nil {
		return nil, err
	}
	return outbox.Func(func(ctx context.Context, p outbox.Post) error { return c.call(ctx, rawURL, secrets, p) }), nil
}

// CheckURL returns why a URL cannot be a target: a scheme other than https or http, no host, or a user
// name or password, which would be stored in readable form.
func CheckURL(rawURL string) error {
	u, err := url.Parse(rawURL)
	switch {
	case err != nil:
		return errors.New("not a URL")
	case u.Scheme != "https" && u.Scheme != "http":
		return errors.New("scheme is not https or http")
	case u.Hostname() == "":
		return errors.New("missing host")
	case u.User != nil:
		return errors.New("contains a user name")
	}
	return nil
}

// URLs returns the target for URLs named by callers. They need https and one of these hosts;
// "*.example.com" allows all below example.com.
func (c *Caller) URLs(allow []string, secrets ...Secret) outbox.URLs {
	return &urls{caller: c, allow: slices.Clone(allow), secrets: secrets}
}

type urls struct {
	caller  *Caller
	allow   []string
	secrets []Secret
}

// Check implements [outbox.URLs].
func (t *urls) Check(rawURL string) error {
	if err := CheckURL(rawURL); err != nil {
		return err
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		return err
	}
	if u.Scheme != "https" {
		return errors.New("scheme is not https")
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if strings.Contains(host, "%") {
		return errors.New("address has a zone")
	}
	for _, a := range t.allow {
		a = strings.ToLower(a)
		if below, ok := strings.CutPrefix(a, "*"); ok && strings.HasPrefix(below, ".") && strings.HasSuffix(host, below) && len(host) > len(below) || a == host {
			return nil
		}
	}
	return fmt.Errorf("host %.200s is not allowed; add it to webhooks.allow", host)
}

// Deliver implements [outbox.Target].
func (t *urls) Deliver(ctx context.Context, p outbox.Post) error {
	return t.caller.call(ctx, p.Target, t.secrets, p)
}

func (c *Caller) call(ctx context.Context, rawURL string, secrets []Secret, p outbox.Post) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, rawURL, bytes.NewReader(p.Body))
	if err != nil {
		return &outbox.GoneError{Err: errors.New("not a URL")}
	}
	at := c.now().Unix()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "parley")
	req.Header.Set(HeaderID, string(p.ID))
	req.Header.Set(HeaderTimestamp, strconv.FormatInt(at, 10))
	var signatures []string
	for _, s := range secrets {
		signatures = append(signatures, s.sign(string(p.ID), at, p.Body))
	}
	if len(signatures) > 0 {
		req.Header.Set(HeaderSignature, strings.Join(signatures, " "))
	}
	res, err := c.client.Do(req)
	if err != nil {
		return transportError(err)
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, maxAnswer) // Allow reuse of the connection.
	return outbox.Answered(res.StatusCode, res.Header, c.now())
}

// transportError shortens a transport error. It omits the URL, which may be secret.
func transportError(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	switch {
	case errors.Is(err, ssrf.ErrProhibitedIP), errors.Is(err, ssrf.ErrProhibitedNetwork), errors.Is(err, ssrf.ErrProhibitedPort):
		return errors.New("address is not on the public internet; set \"private\" to allow others")
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no response within %v", outbox.Timeout)
	}
	return fmt.Errorf("request failed: %w", err)
}
