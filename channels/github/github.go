// Package github receives webhooks of GitHub.
//
// In addition to the guarantees of package channels, a delivery carries X-Hub-Signature-256. Without
// an event name and an id in its headers the status is 400. The signature covers no header: use the
// event name for routing only. The channel responds to pings with an empty 200 without calling the
// callback.
package github

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/parleyrun/parley/channels"
)

// name identifies the channel in errors and instance ids.
const name = "github"

// Options configure a channel. Secret and Webhook are required.
type Options struct {
	// Secret is the secret of the webhook.
	Secret channels.Secret
	// BodyLimit is the largest body in bytes. If 0, it is 1 MiB; the platform sends up to 25 MiB.
	BodyLimit int64
	// Deadline is the platform's response timeout, for [channels.Deliver]. Default 10 s.
	Deadline time.Duration
	// Webhook handles verified deliveries other than pings.
	Webhook func(ctx context.Context, in Incoming) (any, error)
}

// Incoming is one verified delivery. The request body in C is consumed.
type Incoming struct {
	C *http.Request
	// Event is the event name, such as "issue_comment". Action is the action of the payload, or "".
	Event, Action string
	// DeliveryID is the same when the platform sends again.
	DeliveryID string
	// HookID, TargetType and TargetID identify the sending webhook. Each may be empty.
	HookID, TargetType, TargetID string
	// Native is the payload as received, a JSON object.
	Native json.RawMessage
}

// Issue is the part of a payload that identifies an issue or a pull request.
type Issue struct {
	Repository struct {
		Name  string `json:"name"`
		Owner struct {
			Login string `json:"login"`
		} `json:"owner"`
	} `json:"repository"`
	Issue       *Numbered `json:"issue"`
	PullRequest *Numbered `json:"pull_request"`
}

// Numbered is an issue or a pull request.
type Numbered struct {
	Number int64  `json:"number"`
	Title  string `json:"title"`
	Body   string `json:"body"`
}

// OfBot reports whether a bot wrote the comment or review of a delivery. Skip those: an application
// that answers its own comments loops forever.
func (in *Incoming) OfBot() bool {
	var payload struct {
		Sender struct {
			Type string `json:"type"`
		} `json:"sender"`
	}
	comments := strings.HasSuffix(in.Event, "_comment") || strings.HasPrefix(in.Event, "pull_request_review")
	return comments && json.Unmarshal(in.Native, &payload) == nil && payload.Sender.Type == "Bot"
}

// Channel receives webhooks at POST /webhook. It is safe for concurrent use.
type Channel struct {
	channels.Only
	opts Options
}

// New returns a channel. Its error is a [*channels.InputError].
func New(opts *Options) (*Channel, error) {
	if opts == nil {
		return nil, invalid("options", "are missing")
	}
	c := &Channel{opts: *opts}
	switch {
	case c.opts.Secret == "":
		return nil, invalid("secret", "is missing or empty")
	case c.opts.Webhook == nil:
		return nil, invalid("webhook", "is missing")
	}
	if err := channels.CheckBodyLimit(name, c.opts.BodyLimit); err != nil {
		return nil, err
	}
	if c.opts.Deadline == 0 {
		c.opts.Deadline = 10 * time.Second
	}
	c.Only = channels.Endpoint{
		Method: http.MethodPost, Path: "/webhook", MediaTypes: []string{"application/json"},
		BodyLimit: c.opts.BodyLimit, Deadline: c.opts.Deadline, Early: channels.CheckHubForm, Accept: c.accept,
	}.Only()
	return c, nil
}

func invalid(field, problem string) error {
	return &channels.InputError{Channel: name, Field: field, Problem: problem}
}

func (c *Channel) accept(r *http.Request, body []byte) (channels.Call, error) {
	if !c.opts.Secret.SignsHub(r.Header, body) {
		return nil, channels.Refuse(http.StatusUnauthorized, "signature")
	}
	h := r.Header
	in := Incoming{
		C: r, Event: h.Get("X-GitHub-Event"), DeliveryID: h.Get("X-GitHub-Delivery"), HookID: h.Get("X-GitHub-Hook-ID"),
		TargetType: h.Get("X-GitHub-Hook-Installation-Target-Type"), TargetID: h.Get("X-GitHub-Hook-Installation-Target-ID"),
	}
	if in.Event == "" || in.DeliveryID == "" {
		return nil, channels.Refuse(http.StatusBadRequest, "no event or delivery")
	}
	members, err := channels.Object(body)
	if err != nil {
		return nil, channels.Refuse(http.StatusBadRequest, "not an object")
	}
	if in.Event == "ping" {
		return func(context.Context) (any, error) { return nil, nil }, nil
	}
	in.Action, _ = channels.String(members, "action")
	in.Native, _ = channels.Text(body)
	return func(ctx context.Context) (any, error) { return c.opts.Webhook(ctx, in) }, nil
}

// Ref identifies an issue or a pull request.
type Ref struct {
	Owner, Repo string
	Issue       int64
}

// Ref returns the issue or pull request of a delivery. ok is false if there is none.
func (in *Incoming) Ref() (ref Ref, ok bool) {
	var i Issue
	if json.Unmarshal(in.Native, &i) != nil {
		return Ref{}, false
	}
	about := i.Issue
	if about == nil {
		about = i.PullRequest
	}
	if about == nil {
		return Ref{}, false
	}
	return Ref{i.Repository.Owner.Login, i.Repository.Name, about.Number}, true
}

// InstanceID returns the conversation id of an issue. It is deterministic. An error is a
// [*channels.InputError].
func InstanceID(ref Ref) (string, error) {
	switch {
	case ref.Owner == "":
		return "", invalid("conversation.owner", "is empty")
	case ref.Repo == "":
		return "", invalid("conversation.repo", "is empty")
	case ref.Issue <= 0:
		return "", invalid("conversation.issue", "must be positive")
	}
	id, ok := channels.JoinID(name, "v1", "owner", ref.Owner, "repo", ref.Repo, "issue", strconv.FormatInt(ref.Issue, 10))
	if !ok {
		return "", invalid("conversation", "must be UTF-8")
	}
	return id, nil
}

// ParseInstanceID is the inverse of InstanceID. For any other text it returns a
// [*channels.InstanceIDError].
func ParseInstanceID(id string) (Ref, error) {
	if p := channels.SplitID(id, name, "v1", "owner"); len(p) == 5 {
		n, _ := strconv.ParseInt(p[4], 10, 64)
		ref := Ref{Owner: p[0], Repo: p[2], Issue: n}
		if again, err := InstanceID(ref); err == nil && again == id {
			return ref, nil
		}
	}
	return Ref{}, &channels.InstanceIDError{Channel: name}
}
