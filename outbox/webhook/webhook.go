// Package webhook delivers posts by HTTP: a POST with the headers webhook-id, webhook-timestamp and
// webhook-signature of Standard Webhooks 1.0 (https://www.standardwebhooks.com), so that receivers
// verify it with the libraries that exist.
//
// An answer of 2xx is a delivery. 410 ends the attempts; after any other, or none within
// [outbox.Timeout], another is made, not before the time of a Retry-After. Redirects are
// not followed. The name of a host is resolved once for each connection, and only addresses of the
// public internet are connected to, unless Private is set: not those of this machine, of private
// networks, or of cloud metadata. Proxies of the environment are not used: they would connect in
// our place.
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
	HeaderTimestamp = "webhook-timestamp" // seconds since the Unix epoch, of the attempt
	HeaderSignature = "webhook-signature" // "v1," and base64, one for each secret, with spaces between
)

// Bounds of what is read of an answer, and of the connections that are kept.
const (
	maxAnswer        = 64 << 10
	idlePerHost      = 2
	idleAll          = 64
	idleTimeout      = time.Minute
	dialTimeout      = 5 * time.Second
	handshakeTimeout = 10 * time.Second
	minSecret        = 24 // bytes, of Standard Webhooks, as is the next
	maxSecret        = 64
	secretPrefix     = "whsec_"
)

// azureWire is where machines of Azure reach their host, among addresses of the public internet.
var azureWire = netip.PrefixFrom(netip.AddrFrom4([4]byte{168, 63, 129, 16}), 32)

// Options are how a node calls webhooks. The zero value works.
type Options struct {
	// Private lets addresses be called that are not of the public internet.
	Private bool
	// RootCAs, TLS settings and the like are those of Transport, of which a copy is used with
	// another dialer, no proxy and bounded idle connections; nil is http.DefaultTransport's, or those
	// of a new one if that is no *http.Transport.
	Transport *http.Transport
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Caller calls URLs. It is safe for concurrent use; [Caller.Close] ends its idle connections.
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
	if base == nil { // The program has put something else there, such as what traces its calls.
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

// Close ends connections that are idle.
func (c *Caller) Close() { c.client.CloseIdleConnections() }

// Secret is what signs deliveries: 24 to 64 bytes.
type Secret []byte

// ParseSecret reads "whsec_" and base64.
func ParseSecret(s string) (Secret, error) {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(s, secretPrefix))
	switch {
	case err != nil:
		return nil, errors.New("a webhook secret is \"whsec_\" and base64")
	case len(raw) < minSecret || len(raw) > maxSecret:
		return nil, fmt.Errorf("a webhook secret has %d to %d bytes behind its base64, this one %d", minSecret, maxSecret, len(raw))
	}
	return raw, nil
}

// String keeps a secret out of texts and logs.
func (Secret) String() string { return "(secret)" }

// sign returns a signature.
func (s Secret) sign(id string, at int64, body []byte) string {
	mac := hmac.New(sha256.New, s)
	fmt.Fprintf(mac, "%s.%d.", id, at)
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// Target returns the target that is a URL. Each of the secrets signs, so that a receiver can change
// over from one to the next; without any nothing is signed. The URL is checked as [CheckURL] does.
func (c *Caller) Target(rawURL string, secrets ...Secret) (outbox.Target, error) {
	if err := CheckURL(rawURL); err != nil {
		return nil, err
	}
	return outbox.Func(func(ctx context.Context, p outbox.Post) error { return c.call(ctx, rawURL, secrets, p) }), nil
}

// CheckURL says why nothing can be posted to a URL: it has another scheme than https or http, no
// host, or a user's name or password, which would be stored where everybody reads it.
func CheckURL(rawURL string) error {
	u, err := url.Parse(rawURL)
	switch {
	case err != nil:
		return errors.New("it is no URL")
	case u.Scheme != "https" && u.Scheme != "http":
		return errors.New("its scheme is neither https nor http")
	case u.Hostname() == "":
		return errors.New("it has no host")
	case u.User != nil:
		return errors.New("it has a user name")
	}
	return nil
}

// URLs returns the target of the URLs that callers may name: with https, at one of these hosts, of
// which "*.example.com" allows all below example.com.
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
		return errors.New("its scheme is not https")
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if strings.Contains(host, "%") {
		return errors.New("its address has a zone")
	}
	for _, a := range t.allow {
		a = strings.ToLower(a)
		if below, ok := strings.CutPrefix(a, "*"); ok && strings.HasPrefix(below, ".") && strings.HasSuffix(host, below) && len(host) > len(below) || a == host {
			return nil
		}
	}
	return fmt.Errorf("the host %.200s is not allowed; webhooks.allow names those that are", host)
}

// Deliver implements [outbox.Target].
func (t *urls) Deliver(ctx context.Context, p outbox.Post) error {
	return t.caller.call(ctx, p.Target, t.secrets, p)
}

// call makes one attempt.
func (c *Caller) call(ctx context.Context, rawURL string, secrets []Secret, p outbox.Post) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, rawURL, bytes.NewReader(p.Body))
	if err != nil {
		return &outbox.GoneError{Err: errors.New("it is no URL")}
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
		return because(err)
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, maxAnswer) // so that the connection can be used again
	return outbox.Answered(res.StatusCode, res.Header, c.now())
}

// because says in few words why there was no answer. The URL, which may be a secret, is left out.
func because(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	switch {
	case errors.Is(err, ssrf.ErrProhibitedIP), errors.Is(err, ssrf.ErrProhibitedNetwork), errors.Is(err, ssrf.ErrProhibitedPort):
		return errors.New("its address is not of the public internet, and only such are called unless \"private\" allows others")
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("it did not answer within %v", outbox.Timeout)
	}
	return fmt.Errorf("it was not reached: %w", err)
}
