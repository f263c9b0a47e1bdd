package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// Live is a way to follow a conversation.
type Live string

// Ways to follow a conversation. An event stream delivers at once over one connection; long-polls work
// through every HTTP proxy.
const (
	LiveSSE      Live = "sse"
	LiveLongPoll Live = "long-poll"
)

// Options configure a [Conversation]. Nil and every zero field mean the default.
type Options struct {
	// HTTPClient sends the requests; nil is http.DefaultClient. A Timeout of it
	// cuts live reads, which then go on over a new connection.
	HTTPClient *http.Client
	// Token is sent as a bearer token with every request, unless it is empty.
	Token string
	// Header returns further headers of a request. It is called for each request, so credentials may
	// change while a conversation is followed; its error ends the call. Its Authorization replaces
	// Token. It is called concurrently.
	Header func(context.Context) (http.Header, error)
	// Live selects how conversations are followed. Default LiveSSE, which falls back to LiveLongPoll;
	// LiveLongPoll never changes.
	Live Live
	// Retrying is called with the reason of a retry, before the pause, on the goroutine of the call. A
	// live read that received something is not reported.
	Retrying func(error)
	// Logger logs connections for developers. Nil discards the lines.
	Logger *slog.Logger

	// Tries bounds the attempts of a message or a read, and the consecutive invalid responses of a
	// live read. Default 8.
	Tries int
	// FirstPause is the backoff after a first failure; it doubles up to LastPause. Each pause is
	// shortened at random by up to a half, and extended to the server's Retry-After, up to a minute.
	// Default 200 ms and 5 s.
	FirstPause, LastPause time.Duration
	// Quiet is the idle timeout of a live connection. An event stream must begin within half of it.
	// Default 40 s; servers send a heartbeat every 15 s, and hold a long-poll for 30 s.
	Quiet time.Duration
	// AnswerWithin is the idle timeout of any other request, in either direction. Default 2 min.
	AnswerWithin time.Duration
	// SSEAgain is the time after which event streams are tried again after a fallback to long-polls.
	// It doubles with each fallback of a call, up to an hour. Default 5 min.
	SSEAgain time.Duration
	// MaxAnswerBytes bounds one response, and one event of a stream. A read covers up to 100 batches,
	// and an event may hold a whole conversation. Default 256 MiB.
	MaxAnswerBytes int
}

func (o *Options) withDefaults() (Options, error) {
	var v Options
	if o != nil {
		v = *o
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		def   time.Duration
	}{
		{"FirstPause", &v.FirstPause, 200 * time.Millisecond},
		{"LastPause", &v.LastPause, max(5*time.Second, v.FirstPause)},
		{"Quiet", &v.Quiet, 40 * time.Second},
		{"AnswerWithin", &v.AnswerWithin, 2 * time.Minute},
		{"SSEAgain", &v.SSEAgain, 5 * time.Minute},
	} {
		if *d.value < 0 {
			return v, fmt.Errorf("option %s is %v, want a positive duration", d.name, *d.value)
		}
		if *d.value == 0 {
			*d.value = d.def
		}
	}
	for _, n := range []struct {
		name  string
		value *int
		def   int
	}{{"Tries", &v.Tries, 8}, {"MaxAnswerBytes", &v.MaxAnswerBytes, 256 << 20}} {
		if *n.value < 0 {
			return v, fmt.Errorf("option %s is %d, want a positive number", n.name, *n.value)
		}
		if *n.value == 0 {
			*n.value = n.def
		}
	}
	switch v.Live {
	case "":
		v.Live = LiveSSE
	case LiveSSE, LiveLongPoll:
	default:
		return v, fmt.Errorf("option Live is %q, want %q or %q", v.Live, LiveSSE, LiveLongPoll)
	}
	if v.HTTPClient == nil {
		v.HTTPClient = http.DefaultClient
	}
	if v.Logger == nil {
		v.Logger = slog.New(slog.DiscardHandler)
	}
	return v, nil
}

// Conversation is a conversation at its URL. It is safe for concurrent use.
type Conversation struct {
	at   *url.URL
	opts Options
}

// New returns the conversation at a URL: the mount of an agent and one more segment, the
// conversation's id, escaped as by [JoinID]. It sends no request.
func New(rawURL string, o *Options) (*Conversation, error) {
	at, err := parse(rawURL, "conversation")
	if err == nil && at.Path == "" {
		err = fmt.Errorf("conversation url %q has no id", at.Redacted())
	}
	if err != nil {
		return nil, fmt.Errorf("%w; a conversation URL looks like http://127.0.0.1:5173/agents/assistant/<id>", err)
	}
	opts, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Conversation{at: at, opts: opts}, nil
}

// parse keeps the escaping of the path, because %2F within an id is not a slash.
func parse(raw, desc string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		var flaw *url.Error
		if errors.As(err, &flaw) {
			err = flaw.Err // the URL may contain a password
		}
		return nil, fmt.Errorf("parse %s url: %w", desc, err)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%s url %q is not http or https", desc, u.Redacted())
	case u.Host == "":
		return nil, fmt.Errorf("%s url %q has no host", desc, u.Redacted())
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, fmt.Errorf("%s url %q has a query or a fragment", desc, u.Redacted())
	}
	return withPath(u, strings.TrimRight(u.EscapedPath(), "/")), nil
}

// withPath returns u with an escaped path.
func withPath(u *url.URL, escaped string) *url.URL {
	v := *u
	v.RawPath = escaped
	// The path was parsed or escaped here, so it unescapes.
	v.Path, _ = url.PathUnescape(escaped)
	return &v
}

// JoinID returns the URL of a conversation below an agent's mount URL. The id is escaped to one
// segment.
func JoinID(mountURL, id string) string {
	segment := url.PathEscape(id)
	if id == "." || id == ".." {
		// Proxies would resolve "." and "..".
		segment = strings.ReplaceAll(id, ".", "%2E")
	}
	return strings.TrimRight(mountURL, "/") + "/" + segment
}

// URL returns the conversation's URL with its original escaping.
func (c *Conversation) URL() string { return c.at.String() }

// AttachmentURL returns the URL of an attachment's bytes. It sends no request.
func (c *Conversation) AttachmentURL(id conversation.AttachmentID) string {
	return c.below("/attachments/" + url.PathEscape(string(id)))
}

// below returns the URL of an escaped path below the conversation's.
func (c *Conversation) below(escaped string) string {
	return withPath(c.at, c.at.EscapedPath()+escaped).String()
}

// view returns the conversation's URL with a query.
func (c *Conversation) view(q url.Values) string {
	u := *c.at
	u.RawQuery = q.Encode()
	return u.String()
}

// name returns the conversation's name for errors.
func (c *Conversation) name() string { return c.at.Redacted() }

// retrying reports the reason of a retry.
func (c *Conversation) retrying(err error) {
	c.opts.Logger.Debug("request is tried again", "conversation", c.name(), "err", err)
	if c.opts.Retrying != nil {
		c.opts.Retrying(err)
	}
}
