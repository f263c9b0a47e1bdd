package outbox

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/parleyrun/parley/conversation"
)

// Replies reports whether a target only sends replies of a channel.
func (r *Routes) Replies(target string) bool {
	_, ok := r.Targets[target].(ReplyTarget)
	return ok || strings.HasPrefix(target, conversation.ReplyTargetPrefix)
}

// Open reports whether callers may name a target, given a list such as Notifiable of an agent. The
// target must be configured, and be on the list or be a URL at an origin on the list.
func (r *Routes) Open(list []string, target string) bool {
	if r.Replies(target) || !slices.ContainsFunc(list, func(entry string) bool { return entry == target || atOrigin(entry, target) }) {
		return false
	}
	_, err := r.Find(target)
	return err == nil
}

// CheckNotices validates the targets of an agent: those that get all its notices, and those that are
// open to callers. The error lists the configured targets, so it is for the operator and must not
// reach a caller.
func (r *Routes) CheckNotices(notify, open []string) error {
	for _, target := range slices.Concat(notify, open) {
		if _, err := r.Find(target); err != nil {
			if names := slices.Sorted(maps.Keys(r.Targets)); len(names) > 0 && !IsURL(target) {
				err = fmt.Errorf("%w; configured targets: %s", err, strings.Join(names, ", "))
			}
			return err
		}
	}
	if i := slices.IndexFunc(open, r.Replies); i >= 0 {
		return fmt.Errorf("reply target %.80q of a channel cannot be named by callers; remove it from Notifiable", open[i])
	}
	return nil
}

// originOf returns the host, with the port if any, of an entry that is an origin, "" for any other.
func originOf(entry string) string {
	host, ok := strings.CutPrefix(entry, "https://")
	if !ok || host == "" || strings.ContainsAny(host, "/?#@\\ ") {
		return ""
	}
	return strings.ToLower(host)
}

// atOrigin reports whether a URL is at the origin of an entry. "https://*.example.com" matches every
// host below example.com.
func atOrigin(entry, target string) bool {
	origin := originOf(entry)
	u, err := url.Parse(target)
	if origin == "" || err != nil || u.Scheme != "https" || u.User != nil {
		return false
	}
	host := strings.ToLower(u.Host)
	if below, ok := strings.CutPrefix(origin, "*."); ok {
		return strings.HasSuffix(host, "."+below)
	}
	return host == origin
}
