package http

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/contain"
	"github.com/parleyrun/parley/memory"
)

// channelsPath is the path of listed channels, next to the mounts.
const channelsPath = "/channels"

// mountChannels serves every route of a listed channel at /channels/<name><path>.
func (h *Handler) mountChannels(mounts []Mount) error {
	listed := h.opts.Channels
	h.webhooks = map[string]bool{}
	for _, m := range mounts {
		if len(listed) > 0 && (m.Path == channelsPath || strings.HasPrefix(m.Path, channelsPath+"/")) {
			return fmt.Errorf("mount %q: channels are served there", m.Path)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		prefix := channelsPath + "/" + name
		err := checkMountPath(prefix)
		if err == nil && strings.Contains(name, "/") {
			err = errors.New("name has more than one segment")
		}
		var routes []channels.Route
		if err == nil {
			routes, err = channels.RoutesOf(listed[name])
		}
		if err != nil {
			return fmt.Errorf("channel %q: %w", name, err)
		}
		h.mountChannel(name, prefix, routes)
	}
	return nil
}

func (h *Handler) mountChannel(name, prefix string, routes []channels.Route) {
	var paths []string
	declared := map[string][]string{} // declared methods by path
	serve := map[string]channels.Handler{}
	for _, rt := range routes {
		if declared[rt.Path] == nil {
			paths = append(paths, rt.Path)
		}
		declared[rt.Path] = append(declared[rt.Path], rt.Method)
		serve[rt.Pattern("")] = rt.Handler
	}
	for _, rt := range routes {
		h.listed = append(h.listed, Webhook{Channel: name, Method: rt.Method, Path: prefix + rt.Path})
	}
	for _, path := range paths {
		allow := strings.Join(declared[path], ", ")
		h.webhooks[prefix+path] = true
		h.router.HandleFunc(prefix+path, func(w http.ResponseWriter, r *http.Request) {
			handler, ok := serve[r.Method+" "+path]
			if !ok {
				w.Header().Set("Allow", allow)
				h.fail(w, r, conversation.Errorf(conversation.CodeMethodNotAllowed, "This route accepts %s.", allow))
				return
			}
			h.deliver(w, r, name, handler)
		})
	}
}

// Webhook is a route of a listed channel.
type Webhook struct{ Channel, Method, Path string }

// Webhooks returns the routes of listed channels, sorted by channel.
func (h *Handler) Webhooks() []Webhook { return slices.Clone(h.listed) }

// ChannelPath returns the path of a route of a listed channel.
func ChannelPath(channel string, rt channels.Route) string {
	return channelsPath + "/" + channel + rt.Path
}

// IsWebhook reports whether a request is for a route of a listed channel. Authenticating middleware
// should let such requests pass, because the channel verifies the delivery.
func (h *Handler) IsWebhook(r *http.Request) bool { return h.webhooks[r.URL.EscapedPath()] }

// deliver passes a request to a channel. It logs none of the content.
func (h *Handler) deliver(w http.ResponseWriter, r *http.Request, channel string, handler channels.Handler) {
	ctx, outcome := channels.Observe(r.Context())
	body := &meteredBody{ReadCloser: r.Body, account: h.spools.memory}
	defer body.release()
	if r = r.WithContext(ctx); r.Body != nil && r.Body != http.NoBody {
		r.Body = body
	}
	sent, err := contain.Handle("channel "+channel, w, func(w http.ResponseWriter) error { return handler(w, r) })
	err = contain.Logged(err)
	outcome.Done(err)
	h.deliveries.count(channel, outcome.Result)
	level := slog.LevelDebug
	if outcome.Result == channels.ResultConflict {
		level = slog.LevelInfo // repeated with different content
	}
	if outcome.Result == channels.ResultOmitted && h.deliveries.isNew(channel, outcome.Kind) {
		h.opts.Logger.InfoContext(ctx, "webhook kind ignored", "channel", channel, "kind", outcome.Kind)
	}
	h.opts.Logger.Log(ctx, level, "webhook handled", "channel", channel, "result", string(outcome.Result), "submission", outcome.Submission)
	switch {
	case err != nil && sent:
		if !errors.Is(err, http.ErrAbortHandler) {
			h.opts.Logger.ErrorContext(ctx, "response aborted", logRequest(r, err)...)
		}
		panic(http.ErrAbortHandler)
	case err != nil:
		h.failDelivery(w, r, channel, err)
	}
}

// meteredBody accounts for a body in memory until its request ends.
type meteredBody struct {
	io.ReadCloser
	account *memory.Account
	held    int64
}

// Read implements io.Reader.
func (b *meteredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if full := b.account.Take(int64(n)); full != nil {
		return 0, exhausted(full)
	}
	b.held += int64(n)
	return n, err
}

func (b *meteredBody) release() { b.account.Add(-b.held) }

// deliveries counts the results of webhooks.
type deliveries struct {
	mu      sync.Mutex
	counts  map[Deliveries]int64
	omitted map[[2]string]bool // channels and kinds already logged
}

// maxOmitted bounds the kinds of omitted deliveries that are logged.
const maxOmitted = 256

// isNew reports whether the kind was not omitted before.
func (d *deliveries) isNew(channel, kind string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	of := [2]string{channel, kind}
	if d.omitted[of] || len(d.omitted) >= maxOmitted {
		return false
	}
	if d.omitted == nil {
		d.omitted = map[[2]string]bool{}
	}
	d.omitted[of] = true
	return true
}

// Deliveries is the number of deliveries of a channel with one result.
type Deliveries struct {
	Channel string
	Result  channels.Result
	Count   int64
}

func (d *deliveries) count(channel string, r channels.Result) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.counts == nil {
		d.counts = map[Deliveries]int64{}
	}
	d.counts[Deliveries{Channel: channel, Result: r}]++
}

// Deliveries returns the delivery counts of listed channels, by channel and result.
func (h *Handler) Deliveries() []Deliveries {
	h.deliveries.mu.Lock()
	defer h.deliveries.mu.Unlock()
	all := make([]Deliveries, 0, len(h.deliveries.counts))
	for of, n := range h.deliveries.counts {
		of.Count = n
		all = append(all, of)
	}
	slices.SortFunc(all, func(a, b Deliveries) int {
		return cmp.Or(cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Result, b.Result))
	})
	return all
}

// failDelivery answers a delivery that a channel did not answer. A rejected delivery gets a status
// only. An error of an application's callback is rendered like any other.
func (h *Handler) failDelivery(w http.ResponseWriter, r *http.Request, channel string, err error) {
	var refusal *channels.Refusal
	if !errors.As(err, &refusal) {
		h.fail(w, r, err)
		return
	}
	args := []any{"channel", channel, "status", refusal.Status, "reason", refusal.Reason}
	if refusal.Err == nil {
		h.opts.Logger.InfoContext(r.Context(), "webhook rejected", args...)
	} else {
		h.opts.Logger.ErrorContext(r.Context(), "webhook failed", append(args, "err", refusal.Err)...)
	}
	channels.WriteStatus(w, err)
}
