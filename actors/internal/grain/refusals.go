package grain

import (
	"log/slog"
	"net"
	"sync"
	"time"
)

// maxRefusals bounds the lines of one second, whatever the number of hosts that knock.
const maxRefusals = 32

// refusals logs who was turned away: once per host and reason and second.
type refusals struct {
	log *slog.Logger

	mu     sync.Mutex
	began  time.Time // of the second that said is about
	said   map[refusal]struct{}
	silent int // refusals without a line since the last line
}

type refusal struct{ host, reason string }

func newRefusals(log *slog.Logger) *refusals {
	return &refusals{log: log, said: make(map[refusal]struct{})}
}

// say takes an err whose text holds nothing that a peer sent but names, or nil.
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

// brief cuts a text that a certificate may have made long.
func brief(s string) string {
	const most = 300
	if len(s) > most {
		return s[:most]
	}
	return s
}
