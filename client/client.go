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

// Live names a way to follow a conversation.
type Live string

// The two ways. An event stream says things at once and over one connection; a
// long-poll passes everything that passes HTTP.
const (
	LiveSSE      Live = "sse"
	LiveLongPoll Live = "long-poll"
)

// Options configure a [Conversation]. Nil and every zero field mean the default.
type Options struct {
	// HTTPClient sends the requests; nil is http.DefaultClient. A Timeout of it
	// cuts live reads, which then go on over a new connection.
	HTTPClient *http.Client
	// Token goes with every request as a bearer token; empty sends none.
	Token string
	// Header returns what goes with a request. It is called for each of them, so
	// credentials may change while a conversation is followed; an error of it ends
	// the call. Authorization of it replaces Token. It is called concurrently.
	Header func(context.Context) (http.Header, error)
	// Live is how conversations are followed. Default LiveSSE, which falls back to
	// LiveLongPoll where it has to; LiveLongPoll is never left.
	Live Live
	// Retrying is told why something has to be tried again, before the pause. A live
	// read that had got something does not tell. It is called on the goroutine of
	// the call that tries.
	Retrying func(error)
	// Logger gets what a developer may want to know of connections. Nil discards it.
	Logger *slog.Logger

	// Tries bounds how often a message or a read is sent, and how often in a row a
	// live read takes an answer that no working server gives. Default 8.
	Tries int
	// FirstPause is the pause after a first failure; it doubles with each up to
	// LastPause. Each is shortened at random by up to a half, and prolonged to what
	// a server asks for, up to a minute. Default 200 ms and 5 s.
	FirstPause, LastPause time.Duration
	// Quiet is how long a live connection may say nothing. An event stream has to
	// begin within half of it. Default 40 s; servers say something every 15 s, and
	// hold a long-poll for 30 s.
	Quiet time.Duration
	// AnswerWithin is how long any other request may stand still: take nothing of
	// a message, or give nothing of an answer. Default 2 min.
	AnswerWithin time.Duration
	// SSEAgain is how long long-polls replace event streams before one is tried
	// again. It doubles with each time in one call, up to an hour. Default 5 min.
	SSEAgain time.Duration
	// MaxAnswerBytes bounds one answer, and one event of a stream. A read covers up to
	// 100 batches and an event a whole conversation, so it is generous. Default
	// 256 MiB.
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

// New returns the conversation at a URL: where an agent is mounted and, as one
// more segment, the conversation's id, escaped as [JoinID] does. Nothing is
// requested yet.
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

// parse keeps the escaping of the path: %2F within an id is not a slash.
func parse(raw, what string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		var flaw *url.Error
		if errors.As(err, &flaw) {
			err = flaw.Err // the whole may have a password in it
		}
		return nil, fmt.Errorf("parse %s url: %w", what, err)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%s url %q is not http or https", what, u.Redacted())
	case u.Host == "":
		return nil, fmt.Errorf("%s url %q has no host", what, u.Redacted())
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, fmt.Errorf("%s url %q has a query or a fragment", what, u.Redacted())
	}
	return withPath(u, strings.TrimRight(u.EscapedPath(), "/")), nil
}

// withPath returns u with an escaped path.
func withPath(u *url.URL, escaped string) *url.URL {
	v := *u
	v.RawPath = escaped
	// It comes from a path that was parsed, or is escaped here, so it unescapes.
	v.Path, _ = url.PathUnescape(escaped)
	return &v
}

// JoinID returns the URL of a conversation under the URL an agent is mounted at.
// The id is escaped to one segment, whatever it contains.
func JoinID(mountURL, id string) string {
	segment := url.PathEscape(id)
	if id == "." || id == ".." {
		// What is on the way takes these for places in the path.
		segment = strings.ReplaceAll(id, ".", "%2E")
	}
	return strings.TrimRight(mountURL, "/") + "/" + segment
}

// URL returns the conversation's URL, escaped as it was given.
func (c *Conversation) URL() string { return c.at.String() }

// AttachmentURL returns where the bytes of an attachment are. It asks nobody
// whether there is one.
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

// name is how errors call the conversation.
func (c *Conversation) name() string { return c.at.Redacted() }

// retrying tells why something is tried again.
func (c *Conversation) retrying(err error) {
	c.opts.Logger.Debug("request is tried again", "conversation", c.name(), "err", err)
	if c.opts.Retrying != nil {
		c.opts.Retrying(err)
	}
}
