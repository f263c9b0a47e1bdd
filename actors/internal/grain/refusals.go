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

	mu         sync.Mutex
	began      time.Time // start of the current second
	logged     map[refusal]struct{}
	suppressed int // refusals suppressed since the last line
}

type refusal struct{ host, reason string }

func newRefusals(log *slog.Logger) *refusals {
	return &refusals{log: log, logged: make(map[refusal]struct{})}
}

// report logs a refusal. err may be nil. Its text may contain names sent by the peer, but no other
// data.
func (r *refusals) report(remote, reason string, err error) {
	suppressed, ok := r.count(remote, reason)
	if !ok {
		return
	}
	args := []any{"remote", remote, "reason", reason}
	if err != nil {
		args = append(args, "err", brief(err.Error()))
	}
	if suppressed > 0 {
		args = append(args, "suppressed", suppressed)
	}
	r.log.Warn("peer refused", args...)
}

func (r *refusals) count(remote, reason string) (suppressed int, ok bool) {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); now.Sub(r.began) >= time.Second {
		r.began = now
		clear(r.logged)
	}
	key := refusal{host, reason}
	if _, logged := r.logged[key]; logged || len(r.logged) >= maxRefusals {
		r.suppressed++
		return 0, false
	}
	r.logged[key] = struct{}{}
	suppressed, r.suppressed = r.suppressed, 0
	return suppressed, true
}

// brief truncates a text, which a certificate may have made long.
func brief(s string) string {
	const most = 300
	if len(s) > most {
		return s[:most]
	}
	return s
}
