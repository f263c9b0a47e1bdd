package http

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/conversation"
)

// channelsPath is where listed channels are, beside the agents' mounts.
const channelsPath = "/channels"

// mountChannels serves every route of a listed channel at /channels/<name><path>.
func (h *Handler) mountChannels(mounts []Mount) error {
	listed := h.opts.Channels
	for _, m := range mounts {
		if len(listed) > 0 && (m.Path == channelsPath || strings.HasPrefix(m.Path, channelsPath+"/")) {
			return fmt.Errorf("mount %q: channels are served there", m.Path)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		prefix := channelsPath + "/" + name
		err := checkMountPath(prefix)
		if err == nil && strings.Contains(name, "/") {
			err = errors.New("its name is more than one segment")
		}
		if err == nil {
			err = channels.Check(listed[name])
		}
		if err != nil {
			return fmt.Errorf("channel %q: %w", name, err)
		}
		h.mountChannel(name, prefix, listed[name].Routes())
	}
	return nil
}

func (h *Handler) mountChannel(name, prefix string, routes []channels.Route) {
	var paths []string
	declared := map[string][]string{} // methods of a path, as declared
	serve := map[string]channels.Handler{}
	for _, rt := range routes {
		if declared[rt.Path] == nil {
			paths = append(paths, rt.Path)
		}
		declared[rt.Path] = append(declared[rt.Path], rt.Method)
		serve[rt.Pattern("")] = rt.Handler
	}
	for _, path := range paths {
		allow := strings.Join(declared[path], ", ")
		h.router.HandleFunc(prefix+path, func(w http.ResponseWriter, r *http.Request) {
			handler, ok := serve[r.Method+" "+path]
			if !ok {
				w.Header().Set("Allow", allow)
				h.fail(w, r, conversation.Errorf(conversation.CodeMethodNotAllowed, "This route accepts %s.", allow))
				return
			}
			if err := handler(w, r); err != nil {
				h.failDelivery(w, r, name, err)
			}
		})
	}
}

// failDelivery answers what a channel did not. What it refuses has a status and no more; an
// error of an application's callback is answered like any other.
func (h *Handler) failDelivery(w http.ResponseWriter, r *http.Request, channel string, err error) {
	var refusal *channels.Refusal
	if !errors.As(err, &refusal) {
		h.fail(w, r, err)
		return
	}
	args := []any{"channel", channel, "status", refusal.Status, "reason", refusal.Reason}
	if refusal.Err == nil {
		h.opts.Logger.InfoContext(r.Context(), "webhook refused", args...)
	} else {
		h.opts.Logger.ErrorContext(r.Context(), "webhook failed", append(args, "err", refusal.Err)...)
	}
	channels.WriteStatus(w, err)
}
