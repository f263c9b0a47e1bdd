package grain

import (
	"log/slog"
	"net"
	"sync"
	"time"
)

// maxRefusals bounds the log lines per second over all hosts.
const maxRefusals = 32

// refusals logs refused peers, once per host and reason and second.
type refusals struct {
	log *slog.Logger

	mu     sync.Mutex
	began  time.Time // start of the current second
	said   map[refusal]struct{}
	silent int // refusals suppressed since the last line
}

type refusal struct{ host, reason string }

func newRefusals(log *slog.Logger) *refusals {
	return &refusals{log: log, said: make(map[refusal]struct{})}
}

// report logs a refusal. err may be nil. Its text may contain names sent by the peer, but no other
// data.
func (r *refusals) say(remote, reason string, err error) {
	silent, ok := r.count(remote, reason)
	if !ok {
		return
	}
	args := []any{"remote", remote, "reason", reason}
	if err != nil {
		args = append(args, "err", brief(err.Error()))
	}
	if silent > 0 {
		args = append(args, "untold", silent)
	}
	r.log.Warn("peer refused", args...)
}

func (r *refusals) count(remote, reason string) (silent int, ok bool) {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); now.Sub(r.began) >= time.Second {
		r.began = now
		clear(r.said)
	}
	key := refusal{host, reason}
	if _, said := r.said[key]; said || len(r.said) >= maxRefusals {
		r.silent++
		return 0, false
	}
	r.said[key] = struct{}{}
	silent, r.silent = r.silent, 0
	return silent, true
}

// brief truncates a text, which a certificate may have made long.
func brief(s string) string {
	const most = 300
	if len(s) > most {
		return s[:most]
	}
	return s
}
