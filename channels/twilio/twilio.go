// Package twilio receives webhooks of Twilio at POST /webhook and, optionally, POST /status.
//
// In addition to the guarantees of package channels, a request carries X-Twilio-Signature over the
// public URL and the form fields. A request of another account is 403. A nil result is an empty TwiML
// document for /webhook and an empty 200 for /status; any other result must be a response.
package twilio

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/parleyrun/parley/channels"
)

// name identifies the channel in errors and instance ids.
const name = "twilio"

// empty is a TwiML document without instructions.
const empty = `<?xml version="1.0" encoding="UTF-8"?><Response></Response>`

// Options configure a channel. AuthToken, AccountSID, PublicURL and Webhook are required.
type Options struct {
	// AuthToken is the auth token of the account, which is the signing key.
	AuthToken channels.Secret
	// AccountSID is the account that sends requests.
	AccountSID string
	// PublicURL is the URL of the channel as the platform sees it, without /webhook. The query of a
	// request is appended.
	PublicURL string
	// BodyLimit is the largest body in bytes. If 0, it is 1 MiB.
	BodyLimit int64
	// Deadline is the platform's response timeout, for [channels.Deliver]. Default 15 s.
	Deadline time.Duration
	// Webhook handles verified messages and calls.
	Webhook func(ctx context.Context, in Incoming) (any, error)
	// Status handles the status callbacks of sent messages. If nil, the route does not exist.
	Status func(ctx context.Context, in Incoming) (any, error)
}

// Incoming is one verified request. The request body in C is consumed.
type Incoming struct {
	C *http.Request
	// MessageSID is the same when the platform sends again. It is "" for calls, which have CallSid in
	// Native.
	MessageSID, From, To, Body string
	// MessagingServiceSID is empty unless the message was sent to a messaging service.
	MessagingServiceSID string
	// Native contains all fields of the form.
	Native url.Values
}

// Channel receives webhooks. It is safe for concurrent use.
type Channel struct {
	opts Options
}

// New returns a channel. Its error is a [*channels.InputError].
func New(opts *Options) (*Channel, error) {
	if opts == nil {
		return nil, invalid("options", "are missing")
	}
	c := &Channel{opts: *opts}
	u, err := url.Parse(c.opts.PublicURL)
	switch {
	case c.opts.AuthToken == "":
		return nil, invalid("authToken", "is missing or empty")
	case c.opts.AccountSID == "":
		return nil, invalid("accountSid", "is missing or empty")
	case err != nil || u.Host == "" || u.RawQuery != "" || strings.HasSuffix(c.opts.PublicURL, "/"):
		return nil, invalid("publicUrl", "must be absolute, without a query or a trailing slash, such as https://example.com/channels/twilio")
	case c.opts.Webhook == nil:
		return nil, invalid("webhook", "is missing")
	}
	if c.opts.Deadline == 0 {
		c.opts.Deadline = 15 * time.Second
	}
	return c, channels.CheckBodyLimit(name, c.opts.BodyLimit)
}

func invalid(field, problem string) error {
	return &channels.InputError{Channel: name, Field: field, Problem: problem}
}

// Routes implements [channels.Channel].
func (c *Channel) Routes() []channels.Route {
	routes := []channels.Route{c.route("/webhook", c.opts.Webhook, channels.Respond(http.StatusOK, "text/xml", empty))}
	if c.opts.Status != nil {
		routes = append(routes, c.route("/status", c.opts.Status, nil))
	}
	return routes
}

var errResult = errors.New("result of callback must be a response or nil")

func (c *Channel) route(path string, callback func(context.Context, Incoming) (any, error), nothing *http.Response) channels.Route {
	return channels.Endpoint{
		Method: http.MethodPost, Path: path, MediaTypes: []string{"application/x-www-form-urlencoded"},
		BodyLimit: c.opts.BodyLimit, Deadline: c.opts.Deadline, Early: checkForm,
		Accept: func(r *http.Request, body []byte) (channels.Call, error) {
			in, err := c.incoming(r, path, body)
			return func(ctx context.Context) (any, error) { return onlyResponses(nothing)(callback(ctx, in)) }, err
		},
	}.Route()
}

// onlyResponses returns responses, also of a [channels.Later], and rejects other results.
func onlyResponses(nothing *http.Response) func(any, error) (any, error) {
	return func(result any, err error) (any, error) {
		switch v := result.(type) {
		case nil:
			if err != nil || nothing == nil {
				return nil, err
			}
			return channels.Respond(nothing.StatusCode, nothing.Header.Get("Content-Type"), empty), nil
		case *http.Response:
			return v, err
		case channels.Later:
			return channels.Later(func(ctx context.Context) (any, error) { return onlyResponses(nothing)(v(ctx)) }), err
		}
		return nil, errors.Join(err, errResult)
	}
}

func code(h http.Header) ([]byte, bool) {
	b, err := base64.StdEncoding.Strict().DecodeString(channels.Header(h, "X-Twilio-Signature"))
	return b, err == nil && len(b) == sha1.Size
}

func checkForm(h http.Header) error {
	if _, ok := code(h); !ok {
		return channels.Refuse(http.StatusUnauthorized, "signature")
	}
	return nil
}

// signedForms returns the texts that the platform's libraries verify. They have the URL with or
// without its port, and all fields in order of names, with their distinct values sorted, or all values
// as received.
func signedForms(at string, form url.Values) (all [][]byte) {
	names := slices.Sorted(maps.Keys(form))
	var distinct, asSent []byte
	for _, name := range names {
		for _, value := range slices.Compact(slices.Sorted(slices.Values(form[name]))) {
			distinct = append(append(distinct, name...), value...)
		}
		for _, value := range form[name] {
			asSent = append(append(asSent, name...), value...)
		}
	}
	for _, u := range []string{at, withPort(at), withoutPort(at)} {
		all = append(all, append([]byte(u), distinct...), append([]byte(u), asSent...))
	}
	return all
}

// withoutPort returns a URL without the port of its host.
func withoutPort(at string) string {
	host, end := hostOf(at)
	colon := strings.LastIndexByte(host, ':')
	if colon < 0 || strings.HasSuffix(host, "]") {
		return at
	}
	return at[:end-len(host)+colon] + at[end:]
}

// withPort returns a URL with its port, or with the default port of its scheme.
func withPort(at string) string {
	if withoutPort(at) != at {
		return at
	}
	_, end := hostOf(at)
	if strings.HasPrefix(at, "http:") {
		return at[:end] + ":80" + at[end:]
	}
	return at[:end] + ":443" + at[end:]
}

// hostOf returns the host and port of a URL, and the index after it.
func hostOf(at string) (host string, end int) {
	begin := strings.Index(at, "//") + len("//")
	if end = strings.IndexAny(at[begin:], "/?"); end < 0 {
		return at[begin:], len(at)
	}
	return at[begin : begin+end], begin + end
}

func (c *Channel) incoming(r *http.Request, path string, body []byte) (Incoming, error) {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return Incoming{}, channels.Refuse(http.StatusBadRequest, "not a form")
	}
	at := c.opts.PublicURL + path
	if r.URL.RawQuery != "" {
		at += "?" + r.URL.RawQuery
	}
	sent, ok := code(r.Header)
	switch {
	case !ok || !slices.ContainsFunc(signedForms(at, form), func(b []byte) bool { return c.opts.AuthToken.Signs(sent, sha1.New, b) }):
		return Incoming{}, channels.Refuse(http.StatusUnauthorized, "signature")
	case form.Get("AccountSid") != c.opts.AccountSID:
		return Incoming{}, channels.Refuse(http.StatusForbidden, "account")
	}
	return Incoming{
		C: r, MessageSID: form.Get("MessageSid"), From: form.Get("From"), To: form.Get("To"), Body: form.Get("Body"),
		MessagingServiceSID: form.Get("MessagingServiceSid"), Native: form,
	}, nil
}

// IsStatus reports whether the request is a status callback of a sent message, such as "delivered". A
// bot does not answer it.
func (in *Incoming) IsStatus() bool {
	return in.Native.Has("MessageStatus") || in.Native.Has("SmsStatus") && in.Native.Get("SmsStatus") != "received"
}

// Ref identifies a conversation of a participant with an address of the account, or with a messaging
// service.
type Ref struct {
	Account string
	// Address is a number of the account. Exactly one of Address and MessagingService is set.
	Address, MessagingService string
	Participant               string
}

// Ref returns the conversation of a message.
func (in *Incoming) Ref() Ref {
	ref := Ref{Account: in.Native.Get("AccountSid"), Participant: in.From, MessagingService: in.MessagingServiceSID}
	if ref.MessagingService == "" {
		ref.Address = in.To
	}
	return ref
}

// InstanceID returns the conversation id of a reference. It is deterministic. An error is a
// [*channels.InputError].
func InstanceID(ref Ref) (string, error) {
	parts := []string{name, "v1", "account", ref.Account, "address", ref.Address, "participant", ref.Participant}
	switch {
	case ref.Account == "":
		return "", invalid("conversation.account", "is empty")
	case ref.Participant == "":
		return "", invalid("conversation.participant", "is empty")
	case (ref.Address == "") == (ref.MessagingService == ""):
		return "", invalid("conversation.address", "or messagingService must be given, not both")
	case ref.Address == "":
		parts[4], parts[5] = "messaging-service", ref.MessagingService
	}
	id, ok := channels.JoinID(parts...)
	if !ok {
		return "", invalid("conversation", "must be UTF-8")
	}
	return id, nil
}

// ParseInstanceID is the inverse of InstanceID. For any other text it returns a
// [*channels.InstanceIDError].
func ParseInstanceID(id string) (Ref, error) {
	if p := channels.SplitID(id, name, "v1", "account"); len(p) == 5 {
		ref := Ref{Account: p[0], Address: p[2], Participant: p[4]}
		if p[1] == "messaging-service" {
			ref.Address, ref.MessagingService = "", p[2]
		}
		if again, err := InstanceID(ref); err == nil && again == id {
			return ref, nil
		}
	}
	return Ref{}, &channels.InstanceIDError{Channel: name}
}
