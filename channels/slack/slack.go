package slack

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/parleyrun/parley/channels"
)

// name identifies the channel in errors and instance ids.
const name = "slack"

// Tolerance is the maximum difference between a request's timestamp and now.
const Tolerance = 300 * time.Second

const (
	jsonType = "application/json"
	formType = "application/x-www-form-urlencoded"
)

// Options configure a channel. SigningSecret and at least one callback are required. Each callback
// adds a route.
type Options struct {
	// SigningSecret is the signing secret of the app.
	SigningSecret channels.Secret
	// BodyLimit is the largest body in bytes. If 0, it is 1 MiB.
	BodyLimit int64
	// Deadline is the platform's response timeout, for [channels.Deliver]. Default 3 s.
	Deadline time.Duration
	// Events handles POST /events, except for the URL verification.
	Events func(ctx context.Context, in Event) (any, error)
	// Interactions handles POST /interactions: buttons, modals, shortcuts.
	Interactions func(ctx context.Context, in Interaction) (any, error)
	// Commands handles POST /commands.
	Commands func(ctx context.Context, in Command) (any, error)
}

// Event is a request of the Events API.
type Event struct {
	C *http.Request
	// Type is the type of the request, "event_callback" for events. EventType is the type of the
	// event. EventID is the same when the platform sends again.
	Type, EventType, EventID, TeamID string
	// Native is the request as received, Event the event in it. Both are JSON objects.
	Native, Event json.RawMessage
}

// Interaction is a user action on a message or a modal. Native, a JSON object, may contain a response
// URL. That is a capability: keep it out of model input and logs.
type Interaction struct {
	C      *http.Request
	Type   string // such as "block_actions"
	Native json.RawMessage
}

// Command is a slash command. ResponseURL and TriggerID are capabilities: keep them out of model input
// and logs.
type Command struct {
	C                                                  *http.Request
	Command, Text, TeamID, ChannelID, UserID, UserName string
	ResponseURL, TriggerID                             string
	// Native contains all fields of the form.
	Native url.Values
}

// Channel receives webhooks. It is safe for concurrent use.
type Channel struct {
	opts   Options
	routes []channels.Route
}

// New returns a channel. Its error is a [*channels.InputError].
func New(opts *Options) (*Channel, error) {
	if opts == nil {
		return nil, invalid("options", "are missing")
	}
	c := &Channel{opts: *opts}
	switch {
	case c.opts.SigningSecret == "":
		return nil, invalid("signingSecret", "is missing or empty")
	case c.opts.Events == nil && c.opts.Interactions == nil && c.opts.Commands == nil:
		return nil, invalid("events", "and interactions and commands are all missing; set at least one")
	}
	if err := channels.CheckBodyLimit(name, c.opts.BodyLimit); err != nil {
		return nil, err
	}
	c.opts.Deadline = cmp.Or(c.opts.Deadline, 3*time.Second)
	if c.opts.Events != nil {
		c.add("/events", jsonType, c.event)
	}
	if c.opts.Interactions != nil {
		c.add("/interactions", formType, c.interaction)
	}
	if c.opts.Commands != nil {
		c.add("/commands", formType, c.command)
	}
	return c, nil
}

func invalid(field, problem string) error {
	return &channels.InputError{Channel: name, Field: field, Problem: problem}
}

// Routes implements [channels.Channel].
func (c *Channel) Routes() []channels.Route { return append([]channels.Route(nil), c.routes...) }

// add declares a route that verifies and then parses requests.
func (c *Channel) add(path, mediaType string, parse func(*http.Request, []byte) (channels.Call, bool)) {
	c.routes = append(c.routes, channels.Endpoint{
		Method: http.MethodPost, Path: path, MediaTypes: []string{mediaType},
		BodyLimit: c.opts.BodyLimit, Deadline: c.opts.Deadline, Early: checkForm,
		Accept: func(r *http.Request, body []byte) (channels.Call, error) {
			stamp := channels.Header(r.Header, "X-Slack-Request-Timestamp")
			sent, ok := code(r.Header)
			if !ok || !channels.Fresh(stamp, Tolerance) || !c.opts.SigningSecret.Signs(sent, sha256.New, []byte("v0:"+stamp+":"), body) {
				return nil, channels.Refuse(http.StatusUnauthorized, "signature")
			}
			call, ok := parse(r, body)
			if !ok {
				return nil, channels.Refuse(http.StatusBadRequest, "not of this route")
			}
			return call, nil
		},
	}.Route())
}

func code(h http.Header) ([]byte, bool) {
	return channels.HexCode(channels.Header(h, "X-Slack-Signature"), "v0=", sha256.Size)
}

func checkForm(h http.Header) error {
	if _, ok := code(h); !ok || channels.Header(h, "X-Slack-Request-Timestamp") == "" {
		return channels.Refuse(http.StatusUnauthorized, "signature")
	}
	return nil
}

func (c *Channel) event(r *http.Request, body []byte) (channels.Call, bool) {
	members, err := channels.Object(body)
	if err != nil {
		return nil, false
	}
	in := Event{C: r, Event: members["event"]}
	in.Native, _ = channels.Text(body)
	in.TeamID, _ = channels.String(members, "team_id")
	var ok bool
	if in.Type, ok = channels.String(members, "type"); !ok {
		return nil, false
	}
	switch in.Type {
	case "url_verification":
		challenge, ok := channels.String(members, "challenge")
		return func(context.Context) (any, error) { return map[string]string{"challenge": challenge}, nil }, ok
	case "event_callback":
		inner, err := channels.Object(in.Event)
		if err != nil {
			return nil, false
		}
		var named bool
		in.EventID, ok = channels.String(members, "event_id")
		if in.EventType, named = channels.String(inner, "type"); !ok || !named {
			return nil, false
		}
	}
	return func(ctx context.Context) (any, error) { return c.opts.Events(ctx, in) }, true
}

func (c *Channel) interaction(r *http.Request, body []byte) (channels.Call, bool) {
	form, err := url.ParseQuery(string(body))
	if err != nil || len(form["payload"]) != 1 {
		return nil, false
	}
	in := Interaction{C: r}
	members, err := channels.Object([]byte(form.Get("payload")))
	if err != nil {
		return nil, false
	}
	in.Native, _ = channels.Text([]byte(form.Get("payload")))
	kind, ok := channels.String(members, "type")
	in.Type = kind
	return func(ctx context.Context) (any, error) { return c.opts.Interactions(ctx, in) }, ok
}

func (c *Channel) command(r *http.Request, body []byte) (channels.Call, bool) {
	form, err := url.ParseQuery(string(body))
	if err != nil || form.Get("command") == "" {
		return nil, false
	}
	in := Command{
		C: r, Command: form.Get("command"), Text: form.Get("text"), TeamID: form.Get("team_id"), ChannelID: form.Get("channel_id"),
		UserID: form.Get("user_id"), UserName: form.Get("user_name"), ResponseURL: form.Get("response_url"),
		TriggerID: form.Get("trigger_id"), Native: form,
	}
	return func(ctx context.Context) (any, error) { return c.opts.Commands(ctx, in) }, true
}

// Ref identifies a thread, or a direct message channel if ThreadTS is empty.
type Ref struct {
	Team, Channel, ThreadTS string
}

// InstanceID returns the conversation id of a thread. It is deterministic. An error is a
// [*channels.InputError].
func InstanceID(ref Ref) (string, error) {
	for _, part := range []struct{ field, value string }{
		{"conversation.team", ref.Team}, {"conversation.channel", ref.Channel}, {"conversation.threadTs", ref.ThreadTS},
	} {
		direct := part.field == "conversation.threadTs" && isDirect(ref.Channel)
		if part.value == "" && !direct {
			return "", invalid(part.field, "is empty")
		}
	}
	id, ok := channels.JoinID(name, "v1", ref.Team, ref.Channel, ref.ThreadTS)
	if !ok {
		return "", invalid("conversation", "must be UTF-8")
	}
	return id, nil
}

// ParseInstanceID is the inverse of InstanceID. For any other text it returns a
// [*channels.InstanceIDError].
func ParseInstanceID(id string) (Ref, error) {
	if p := channels.SplitID(id, name, "v1"); len(p) == 3 {
		ref := Ref{p[0], p[1], p[2]}
		if again, err := InstanceID(ref); err == nil && again == id {
			return ref, nil
		}
	}
	return Ref{}, &channels.InstanceIDError{Channel: name}
}
