package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"

	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/internal/devlog"
	"github.com/parleyrun/parley/internal/outage"
	"github.com/parleyrun/parley/providers"
)

// Secrets holds the values that the log of the process must never contain. Secrets are added at run
// time, because the configuration is read after the log exists and may be reloaded. The zero value and
// nil hide nothing. It is safe for concurrent use.
type Secrets struct {
	mu    sync.RWMutex
	known []string
}

// Add adds values to hide.
func (s *Secrets) Add(values ...string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range values {
		if v != "" && !slices.Contains(s.known, v) {
			s.known = append(s.known[:len(s.known):len(s.known)], v)
		}
	}
}

func (s *Secrets) all() []string {
	if s == nil {
		return nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.known
}

func (s *Secrets) hide(text string) string { return providers.HideSecrets(text, s.all()) }

// Hidden returns err with the secrets removed from its text.
func (s *Secrets) Hidden(err error) error {
	return providers.HideInError(err, s.all())
}

// SecretsOf returns the secrets of a configuration, except those of its providers, which
// [providers.Registry.Secrets] returns. The id of an access key is not a secret.
func SecretsOf(conf *config.Server) []string {
	found := []string{conf.Bucket.SecretKey, conf.Auth.Bearer}
	if c := conf.Events.ClickHouse; c != nil {
		found = append(found, c.Password)
	}
	if o := conf.Events.OTel; o != nil {
		for _, value := range o.Headers {
			found = append(found, value)
		}
	}
	found = append(found, conf.Webhooks.Secrets...)
	for _, t := range conf.Webhooks.Targets {
		found = append(found, t.Secrets...)
		if t.SecretURL {
			found = append(found, t.URL)
		}
	}
	for _, c := range conf.Channels {
		found = append(found, c.Secret, c.Previous, c.VerifyToken)
		if c.Reply != nil {
			found = append(found, c.Reply.Token)
			if c.Reply.SecretURL {
				found = append(found, c.Reply.URL)
			}
		}
	}
	return found
}

// hiding is a handler that redacts secrets. A value that is neither text nor an error is logged as
// text if its encoding contains a secret.
type hiding struct {
	secrets *Secrets
	next    slog.Handler
}

var _ slog.Handler = (*hiding)(nil)

// Enabled implements slog.Handler.
func (h *hiding) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *hiding) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, r.Level, h.secrets.hide(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(h.attr(a))
		return true
	})
	return h.next.Handle(ctx, out)
}

// WithAttrs implements slog.Handler.
func (h *hiding) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &hiding{h.secrets, h.next.WithAttrs(h.attrs(attrs))}
}

// WithGroup implements slog.Handler.
func (h *hiding) WithGroup(name string) slog.Handler {
	return &hiding{h.secrets, h.next.WithGroup(name)}
}

func (h *hiding) attrs(attrs []slog.Attr) []slog.Attr {
	out := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		out[i] = h.attr(a)
	}
	return out
}

func (h *hiding) attr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		v = slog.StringValue(h.secrets.hide(v.String()))
	case slog.KindGroup:
		v = slog.GroupValue(h.attrs(v.Group())...)
	case slog.KindAny:
		text := fmt.Sprint(v.Any())
		if b, ok := v.Any().([]byte); ok {
			text = string(b)
		}
		if hidden := h.secrets.hide(text); hidden != text {
			v = slog.StringValue(hidden)
		}
	}
	return slog.Attr{Key: h.secrets.hide(a.Key), Value: v}
}

// filtered returns a logger that suppresses the records of a bucket outage once a runtime watches the
// bucket.
func filtered(h slog.Handler) *slog.Logger { return slog.New(outage.NewHandler(h)) }

// NewLogger returns the logger of a server, which redacts the secrets.
func NewLogger(out io.Writer, format string, quiet bool, hidden *Secrets) (*slog.Logger, error) {
	opts := &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: devlog.Seconds}
	if quiet {
		opts.Level = slog.LevelWarn
	}
	switch format {
	case "text":
		return filtered(&hiding{hidden, slog.NewTextHandler(out, opts)}), nil
	case "dev": // for authors of agents
		return filtered(&hiding{hidden, devlog.New(out, opts.Level)}), nil
	case "json":
		return filtered(&hiding{hidden, slog.NewJSONHandler(out, opts)}), nil
	}
	return nil, Usage(fmt.Errorf("--log-format %q is unknown; use text, json or dev", format))
}
