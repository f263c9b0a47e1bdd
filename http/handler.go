package http

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/mux"
	"github.com/oklog/ulid/v2"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/contain"
	"github.com/parleyrun/parley/memory"
)

// Mount serves an agent's conversations under a path: {Path}/:id. Several mounts may name one agent
// and share its conversations.
type Mount struct {
	// Path is absolute, of one or more segments of letters, digits and "-._~", or "/" itself. It has
	// no trailing slash.
	Path string
	// Agent is the agent part of the conversation addresses.
	Agent string
}

// Options configures a [Handler]. Nil and every zero field mean the default.
type Options struct {
	// Logger receives errors and disconnected readers. If it is nil, errors with a ref are logged to
	// the slog.Default() at the time of New, and others are discarded.
	Logger *slog.Logger
	// PublicURL is the origin, and an optional path prefix, under which clients reach the handler
	// ("https://agents.example.com"). Empty means the scheme and host of each request.
	PublicURL string
	// TrustedProxies may set X-Forwarded-Proto and X-Forwarded-Host. Default none.
	TrustedProxies []netip.Prefix

	// MaxBodyBytes limits a request body. Default 256 MiB.
	MaxBodyBytes int64
	// MaxTextBytes limits the delivery's body in UTF-8, and separately all other parts except
	// attachment data, including initialData. Default 4 MiB.
	MaxTextBytes int64
	// MaxAttachments limits the attachments of one delivery. Default 16.
	MaxAttachments int
	// MemoryBytes is the part of a request body held in memory; the rest is spooled to a file. Default
	// 1 MiB.
	MemoryBytes int
	// InFlightBytes bounds the spooled bodies that are decoded, staged and admitted concurrently, in
	// bytes. Others wait in order of arrival. A body larger than this passes alone. Default 64 MiB.
	InFlightBytes int64
	// TempDir is the directory of temporary files. New returns an error if it is not writable. Default
	// os.TempDir.
	TempDir string
	// SpoolBytes bounds all temporary files of bodies and attachments. A body over it is rejected as
	// unavailable. Default 1 GiB.
	SpoolBytes int64
	// SpoolAllowed, if not nil, is called before n more bytes are written to temporary files. Its
	// error rejects the request as unavailable. It is called often and concurrently.
	SpoolAllowed func(n int64) error

	// Memory is the node's budget, with the accounts "bodies" and "readers"; nil means an unbounded
	// one.
	Memory *memory.Budget
	// BodyBytes bounds the memory of all bodies, and ReaderBytes that of the pages being written to
	// clients; a shared page counts once. Over BodyBytes a body is rejected as unavailable. Over
	// ReaderBytes the slowest readers are disconnected, then reads are rejected. Default 128 MiB each.
	BodyBytes, ReaderBytes int64

	// Channels are webhook channels by name: POST /channels/<name>/webhook, or the routes that a
	// channel declares below /channels/<name>. A name is one segment like those of a mount. No agent
	// may be mounted at or below /channels then.
	Channels map[string]channels.Channel
	// Runs, if not nil, serves workflows and their runs, in addition to the mounts.
	Runs *Runs
	// Beta, if not nil, serves clients of the beta line, in addition to the mounts.
	Beta *Beta

	// Dev adds causes to error envelopes. Do not set it for untrusted clients.
	Dev bool

	// Heartbeat is the time between two comment lines of an event stream. Default 15 s.
	Heartbeat time.Duration
	// ControlEvery bounds the time between two control frames of an idle event stream. Default 30 s.
	ControlEvery time.Duration
	// LongPoll is the maximum wait of a long-poll. Default 30 s.
	LongPoll time.Duration
	// SlowReader is the time limit of a client for reading 64 KiB of a response. Default 10 s.
	SlowReader time.Duration
	// SlowSender is the time limit of a client for sending 16 KiB of a body. Default 10 s.
	SlowSender time.Duration

	// NewKey generates the key of an admission without one. Default a ULID.
	NewKey func() string
	// NewRef generates the reference of a logged error. Default "err_" and a ULID.
	NewRef func() string
}

func (o *Options) withDefaults() Options {
	var v Options
	if o != nil {
		v = *o
	}
	v.Logger = contain.Logger(fallback(v.Logger, slog.New(onlyRefs{slog.Default().Handler()})))
	v.MaxBodyBytes = fallback(v.MaxBodyBytes, 256<<20)
	v.MaxTextBytes = fallback(v.MaxTextBytes, 4<<20)
	v.MaxAttachments = fallback(v.MaxAttachments, 16)
	v.MemoryBytes = fallback(v.MemoryBytes, 1<<20)
	v.InFlightBytes = fallback(v.InFlightBytes, 64<<20)
	v.TempDir = fallback(v.TempDir, os.TempDir())
	v.SpoolBytes = fallback(v.SpoolBytes, 1<<30)
	v.BodyBytes = fallback(v.BodyBytes, 128<<20)
	v.ReaderBytes = fallback(v.ReaderBytes, 128<<20)
	if v.Memory == nil {
		v.Memory = memory.New(0)
	}
	v.Heartbeat = fallback(v.Heartbeat, 15*time.Second)
	v.ControlEvery = fallback(v.ControlEvery, 30*time.Second)
	v.LongPoll = fallback(v.LongPoll, 30*time.Second)
	v.SlowReader = fallback(v.SlowReader, 10*time.Second)
	v.SlowSender = fallback(v.SlowSender, 10*time.Second)
	v.NewKey = minting("NewKey", v.NewKey, func() string { return ulid.Make().String() })
	v.NewRef = minting("NewRef", v.NewRef, func() string { return "err_" + ulid.Make().String() })
	if allowed := v.SpoolAllowed; allowed != nil {
		v.SpoolAllowed = func(n int64) error { return contain.Run("option SpoolAllowed", func() error { return allowed(n) }) }
	}
	return v
}

// minting returns own, or other if own is nil or fails.
func minting(name string, own, other func() string) func() string {
	if own == nil {
		return other
	}
	return func() string {
		id, err := contain.Do("option "+name, func() (string, error) { return own(), nil })
		if err != nil {
			return other()
		}
		return id
	}
}

func fallback[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

func (o *Options) validate() error {
	switch {
	case o.MaxBodyBytes < 0, o.MaxTextBytes < 0, o.MaxAttachments < 0, o.MemoryBytes < 0, o.InFlightBytes < 0,
		o.SpoolBytes < 0, o.BodyBytes < 0, o.ReaderBytes < 0:
		return errors.New("check options: a limit is negative")
	case o.Heartbeat < 0, o.ControlEvery < 0, o.LongPoll < 0, o.SlowReader < 0, o.SlowSender < 0:
		return errors.New("check options: a duration is negative")
	}
	return nil
}

// Handler serves the conversation protocol. See the package comment.
type Handler struct {
	dispatcher conversation.Dispatcher
	reader     conversation.Reader
	opts       Options
	public     *url.URL // nil without Options.PublicURL
	router     *mux.Router
	gate       *gate
	live       live
	spools     spools
	files      *memory.Budget // account of the spools
	pages      pages
	deliveries deliveries
	webhooks   map[string]bool // paths
	listed     []Webhook
}

// endpoint serves one route. A returned error is rendered as an envelope, so it must not have written
// anything.
type endpoint func(w *response, r *http.Request, at conversation.Address) error

// registry is an optional interface of a Dispatcher that lists its agents.
type registry interface {
	// Serves reports whether an agent is registered.
	Serves(agent string) bool
}

// New returns a handler for the mounts. It returns an error for ambiguous mounts and invalid options.
// If d has a method Serves(agent string) bool, it rejects mounts of unknown agents. If r has a method
// Room(conversation.Address) error, it is called before an event stream begins. [Options.Beta]
// requires that r is a conversation.EventReader, and workflows that it is a conversation.RunReader.
func New(d conversation.Dispatcher, r conversation.Reader, mounts []Mount, opts *Options) (*Handler, error) {
	h := &Handler{dispatcher: d, reader: r, opts: opts.withDefaults()}
	if err := h.opts.validate(); err != nil {
		return nil, err
	}
	h.gate = newGate(h.opts.InFlightBytes)
	h.files = memory.New(0)
	h.spools = spools{
		dir: h.opts.TempDir, memory: h.opts.Memory.Account("bodies", h.opts.BodyBytes),
		disk: h.files.Account("temporary files", h.opts.SpoolBytes), allowed: h.opts.SpoolAllowed,
	}
	if err := h.spools.check(); err != nil {
		return nil, err
	}
	h.pages.account, h.pages.patience = h.opts.Memory.Account("readers", h.opts.ReaderBytes), h.opts.SlowReader/4
	if h.opts.PublicURL != "" {
		u, err := parsePublicURL(h.opts.PublicURL)
		if err != nil {
			return nil, err
		}
		h.public = u
	}
	if err := checkMounts(mounts); err != nil {
		return nil, err
	}
	if err := checkAgents(d, mounts); err != nil {
		return nil, err
	}
	// Match the encoded path as received: an id may contain %2F or "..".
	h.router = mux.NewRouter().UseEncodedPath().SkipClean(true)
	h.router.NotFoundHandler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.fail(w, r, conversation.Errorf(conversation.CodeRouteNotFound, "%s", h.noRoute(mounts)))
	})
	if err := h.mountChannels(mounts); err != nil {
		return nil, err
	}
	// Longer mounts first, so that nested mounts are reachable.
	sorted := slices.SortedFunc(slices.Values(mounts), func(a, b Mount) int { return len(b.Path) - len(a.Path) })
	for _, m := range sorted {
		paths := mountPaths(m)
		h.router.Handle(paths[0], h.route(m.Agent, methods{
			http.MethodGet: h.get, http.MethodHead: h.head, http.MethodPost: h.post,
		}))
		h.router.Handle(paths[1], h.route(m.Agent, methods{http.MethodPost: h.abort}))
		h.router.Handle(paths[2], h.route(m.Agent, methods{http.MethodGet: h.attachment}))
	}
	if o := h.opts.Runs; o != nil {
		if err := h.mountRuns(o, mounts); err != nil {
			return nil, err
		}
	}
	if o := h.opts.Beta; o != nil {
		if err := h.mountBeta(o, mounts); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// maxNamed bounds the mounts in the error for developers.
const maxNamed = 20

// noRoute returns the error text of an unknown path; in Dev it lists the mounts.
func (h *Handler) noRoute(mounts []Mount) string {
	const text = "No route of this server matches the path."
	if !h.opts.Dev || len(mounts) == 0 {
		return text
	}
	var paths []string
	for _, m := range mounts[:min(len(mounts), maxNamed)] {
		paths = append(paths, m.Path+"/<id>")
	}
	return text + " Agents are at " + strings.Join(paths, ", ") + "."
}

// Spooled returns the usage of temporary files, and how often a body was rejected for lack of room.
func (h *Handler) Spooled() memory.Usage { return h.files.Usage()[0] }

func checkMounts(mounts []Mount) error {
	seen := map[string]bool{}
	for _, m := range mounts {
		if err := checkMountPath(m.Path); err != nil {
			return fmt.Errorf("mount %q: %w", m.Path, err)
		}
		if m.Agent == "" {
			return fmt.Errorf("mount %q: no agent", m.Path)
		}
		if seen[m.Path] {
			return fmt.Errorf("mount %q: duplicate path", m.Path)
		}
		seen[m.Path] = true
	}
	return nil
}

func checkAgents(d conversation.Dispatcher, mounts []Mount) error {
	known, ok := d.(registry)
	if !ok {
		return nil // the logger reports it with the first message
	}
	for _, m := range mounts {
		if !known.Serves(m.Agent) {
			return fmt.Errorf("mount %q: agent %q is not registered: register it with the runtime or remove the mount", m.Path, m.Agent)
		}
	}
	return nil
}

// checkMountPath accepts only characters with a single spelling in URLs, so that a mount can be
// compared with the encoded path.
func checkMountPath(p string) error {
	if p == "/" {
		return nil
	}
	rest, ok := strings.CutPrefix(p, "/")
	if !ok {
		return errors.New("is not an absolute path")
	}
	for seg := range strings.SplitSeq(rest, "/") {
		switch {
		case seg == "":
			return errors.New("has an empty segment or a trailing slash")
		case seg == "." || seg == "..":
			return errors.New("has a relative segment")
		case strings.ContainsFunc(seg, func(c rune) bool { return !isUnreserved(c) }):
			return fmt.Errorf("segment %q has a character other than letters, digits and -._~", seg)
		}
	}
	return nil
}

func isUnreserved(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("-._~", c)
}

// Drain ends all live responses and rejects new ones with runtime_unavailable, so that a server's
// Shutdown does not wait for readers. Other requests are served. It returns immediately and may be
// repeated.
func (h *Handler) Drain() { h.live.drain() }

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	res, r := h.opts.answer(w, r)
	defer func() {
		res.end()
		v := recover()
		if v == nil {
			return
		}
		if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(http.ErrAbortHandler)
		}
		err := &panicError{value: v, stack: debug.Stack()}
		if res.status != 0 {
			// The response is partial: only a broken connection signals the error.
			h.opts.Logger.ErrorContext(r.Context(), "response aborted", logRequest(r, err)...)
			panic(http.ErrAbortHandler)
		}
		h.fail(res, r, err)
	}()
	h.router.ServeHTTP(res, withEscapedPath(r))
}

// methods maps the methods of a route to endpoints.
type methods map[string]endpoint

// route serves one route of an agent's conversations.
func (h *Handler) route(agent string, serve methods) http.Handler {
	return h.allow(serve, func(w *response, r *http.Request, endpoint endpoint) error {
		id, err := conversationID(mux.Vars(r)["id"])
		if err != nil {
			return err
		}
		return endpoint(w, r, conversation.Address{Agent: agent, ID: id})
	})
}

// allow rejects other methods and renders errors.
func (h *Handler) allow(serve methods, answer func(*response, *http.Request, endpoint) error) http.Handler {
	allow := strings.Join(slices.Sorted(maps.Keys(serve)), ", ")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		endpoint, ok := serve[r.Method]
		if !ok {
			w.Header().Set("Allow", allow)
			h.fail(w, r, conversation.Errorf(conversation.CodeMethodNotAllowed, "This route accepts %s.", allow))
			return
		}
		if err := answer(w.(*response), r, endpoint); err != nil {
			h.fail(w, r, err)
		}
	})
}
