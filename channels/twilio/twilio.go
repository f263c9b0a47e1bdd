// Package twilio takes webhooks of Twilio, at POST /webhook and, if asked for, POST /status.
//
// Beside the guarantees of package channels: a request is proven by X-Twilio-Signature over the
// public URL and the fields of its form; one of another account is 403. Nothing is an empty
// TwiML document to /webhook and an empty 200 to /status, and of other results only responses
// are answers.
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

// name is what the channel is called in errors and instance ids.
const name = "twilio"

// empty is a TwiML document that does nothing.
const empty = `<?xml version="1.0" encoding="UTF-8"?><Response></Response>`

// Options are what a channel is made of. AuthToken, AccountSID, PublicURL and Webhook are needed.
type Options struct {
	// AuthToken is the account's, the key of signatures.
	AuthToken channels.Secret
	// AccountSID is the account that requests are of.
	AccountSID string
	// PublicURL is where the platform reaches the channel: its webhook is PublicURL and /webhook,
	// to which the query of a request is added.
	PublicURL string
	// BodyLimit is the largest body in bytes. 0 is 1 MiB.
	BodyLimit int64
	// Deadline is how long the platform waits for an answer, for [channels.Deliver]. Default 15 s.
	Deadline time.Duration
	// Webhook receives every verified message or call.
	Webhook func(ctx context.Context, in Incoming) (any, error)
	// Status receives what becomes of messages that were sent. Nil: there is no such route.
	Status func(ctx context.Context, in Incoming) (any, error)
}

// Incoming is one verified request. The body of C has been read.
type Incoming struct {
	C *http.Request
	// MessageSID is the same whenever the request is sent again; "" of a call, which has CallSid
	// in Native.
	MessageSID, From, To, Body string
	// MessagingServiceSID is empty of what was not sent to a messaging service.
	MessagingServiceSID string
	// Native are all fields of the form.
	Native url.Values
}

// Channel takes webhooks. It is safe for concurrent use.
type Channel struct {
	opts Options
}

// New returns a channel. An error is a [*channels.InputError].
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
		return nil, invalid("publicUrl", "must be absolute, without a query and a slash at its end, such as https://example.com/channels/twilio")
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

var errResult = errors.New("a result must be a response, or nothing")

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

// onlyResponses passes on what may be an answer, also later.
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

// signedForms returns what a signature may be made of, as the platform's libraries verify it: the URL with and without
// its port, and every field, in order of names, with its distinct values in order; or with all of them as they came.
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

// withPort returns a URL with a port, that of its scheme if it has none.
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

// hostOf returns the host of a URL with its port, and where it ends.
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

// IsStatus reports whether the request reports the state of a message that was sent, such as "delivered", in place of a
// message: a bot does not answer it.
func (in *Incoming) IsStatus() bool {
	return in.Native.Has("MessageStatus") || in.Native.Has("SmsStatus") && in.Native.Get("SmsStatus") != "received"
}

// Ref names what a participant and an address of the account, or a messaging service, say to
// each other.
type Ref struct {
	Account string
	// Address is a number of the account, empty if MessagingService is not.
	Address, MessagingService string
	Participant               string
}

// Ref is the conversation of a message.
func (in *Incoming) Ref() Ref {
	ref := Ref{Account: in.Native.Get("AccountSid"), Participant: in.From, MessagingService: in.MessagingServiceSID}
	if ref.MessagingService == "" {
		ref.Address = in.To
	}
	return ref
}

// InstanceID returns the id of a conversation, always the same for the same. An error is a
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

// ParseInstanceID is the inverse of InstanceID, and takes only what that returns. An error is a
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
