package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sync/errgroup"

	parleyhttp "github.com/parleyrun/parley/http"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/config"
)

const (
	// reloadPause debounces file events: a file is read this long after the last event in its folder,
	// but no later than reloadLatest after the first.
	reloadPause  = 100 * time.Millisecond
	reloadLatest = time.Second
	// reloadRetry is the Retry-After during a reload.
	reloadRetry = time.Second
	// retireTimeout bounds the wait for open requests when a node is replaced.
	retireTimeout = 2 * time.Second
)

// devFile serves a configuration in dev mode until ctx ends, and reloads it when its file changes.
func devFile(ctx context.Context, cfg devConfig, out, errOut io.Writer) (err error) {
	hidden := &cli.Secrets{}
	defer func() { err = hidden.Hidden(err) }()
	log, err := cli.NewLogger(errOut, "dev", false, hidden)
	if err != nil {
		return err
	}
	r := newReloader(cfg, log)
	conf, err := r.first()
	if err != nil {
		return err
	}
	if conf.Admin.Listen != "" {
		log.Info("admin is ignored by dev", "listen", conf.Admin.Listen)
	}
	watcher, err := watchFolders(cfg.file)
	if err != nil {
		return fmt.Errorf("watch %s: %w", cfg.file, err)
	}
	defer watcher.Close()
	remedy := "set another address at listen in " + cfg.file + ", or give one with --listen"
	listener, err := openListener(conf.Listen, remedy, log)
	if err != nil {
		return err
	}
	defer listener.Close()
	warnOpen(log, listener.Addr(), conf.Auth, "listen on 127.0.0.1, or set auth: {bearerEnv: PARLEY_TOKEN}")
	var webhooks atomic.Pointer[[]string]
	r.start = func(ctx context.Context, conf *config.Server) (*generation, error) {
		how := manner{
			program: cfg.program, dev: true, out: out, outcomes: cfg.outcomes(bannerOutput(conf, out, errOut)), secrets: hidden,
			file: cfg.file, refused: func() error { return hidden.Hidden(r.why()) },
		}
		g, err := startConfigured(ctx, conf, listener.Addr(), how, log)
		if err == nil {
			webhooks.Store(&g.webhooks)
		}
		return g, err
	}
	g, ctx := errgroup.WithContext(ctx)
	changes := make(chan struct{}, 1)
	// The file may have changed between the first read and the watch.
	changes <- struct{}{}
	g.Go(func() error { watch(ctx, watcher, log, changes); return nil })
	up := make(chan struct{})
	g.Go(func() error { return r.run(ctx, conf, changes, up) })
	g.Go(func() error {
		select {
		case <-up:
		case <-ctx.Done():
			return nil
		}
		more := append(slices.Clone(*webhooks.Load()), newPage(conf, listener.Addr(), manner{program: cfg.program, dev: true}).invitation(listener.Addr())...)
		serveBanner(bannerOutput(conf, out, errOut), "parley dev: "+cfg.file+" and its changes", conf, listener.Addr(), cfg.quiet, more...)
		listener.server.Handler = &r.serving
		return listener.server.Serve(ctx, listener)
	})
	return g.Wait()
}

// generation is the running node of one configuration.
type generation struct {
	conf *config.Server
	// handler serves requests; drain ends its live responses soon.
	handler http.Handler
	drain   func()
	// stop ends the node and returns its error; done is closed when it has ended for any reason.
	stop func() error
	done <-chan struct{}
	// webhooks lists the webhooks of the program.
	webhooks []string
}

// startConfigured runs the node of a configuration and returns once it accepts requests.
func startConfigured(ctx context.Context, conf *config.Server, at net.Addr, how manner, log *slog.Logger) (*generation, error) {
	n, err := newConfigured(ctx, conf, at, how, log)
	if err != nil {
		return nil, err
	}
	// The node outlives ctx until stop, so that requests complete first.
	nodeCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	var ended error
	go func() {
		defer close(done)
		ended = errors.Join(n.run(nodeCtx), n.close())
	}()
	g := &generation{
		conf: conf, handler: guarded(newPage(conf, at, how).over(n), n.handler), drain: n.handler.Drain, done: done,
		webhooks: webhooksOf(how.program, n.handler, conf, at),
		stop:     func() error { cancel(); <-done; return ended },
	}
	select {
	case <-n.runtime.Ready():
		return g, nil
	case <-done:
		return nil, g.stop()
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), g.stop())
	}
}

// reloader replaces the node behind a handler when its configuration changes.
type reloader struct {
	file string
	log  *slog.Logger
	// read returns the content of the file, and load its configuration.
	read  func() ([]byte, error)
	load  func() (*config.Server, error)
	start func(context.Context, *config.Server) (*generation, error)
	// serving serves the requests, also while there is no node.
	serving swap
	// seen is the last content read, valid or not. unread is the read error, "" for none.
	seen   []byte
	unread string
	// refused is the error of the newest content, nil if it is served.
	refused atomic.Pointer[error]
}

// why returns the error of the newest content, nil if it is served.
func (r *reloader) why() error {
	if err := r.refused.Load(); err != nil {
		return *err
	}
	return nil
}

// newReloader returns a reloader of the file without its start function.
func newReloader(cfg devConfig, log *slog.Logger) *reloader {
	return &reloader{
		file: cfg.file, log: log,
		read: func() ([]byte, error) { return os.ReadFile(cfg.file) },
		load: func() (*config.Server, error) {
			conf, err := config.Load(cfg.file, cfg.program.ConfigOptions())
			if err != nil {
				return nil, err
			}
			if cfg.listen != "" {
				conf.Listen = cfg.listen
			}
			if cfg.data != "" {
				conf.Bucket, conf.Cluster = config.Bucket{Dir: cfg.data}, nil
			}
			for i, a := range conf.Agents {
				if cfg.model != "" {
					conf.Agents[i].Agent = withModel(a.Agent, cfg.model)
				}
			}
			conf.Events.Stdout = conf.Events.Stdout || cfg.events
			if conf.Cluster != nil {
				return nil, fmt.Errorf("%s: dev does not support cluster; use parley serve --config %s, or try its agents on another folder with --data", cfg.file, cfg.file)
			}
			return conf, CheckAgents(cfg.program, cfg.file, conf)
		},
	}
}

// first loads the initial configuration.
func (r *reloader) first() (*config.Server, error) {
	// load returns the read error.
	r.seen, _ = r.read()
	return r.load()
}

// run serves a configuration and its successors until ctx ends or a node fails. It closes up when the
// first one serves.
func (r *reloader) run(ctx context.Context, conf *config.Server, changes <-chan struct{}, up chan<- struct{}) error {
	current, err := r.start(ctx, conf)
	if err != nil {
		return unlessEnded(ctx, err)
	}
	r.serving.set(current.handler)
	close(up)
	for {
		select {
		case <-ctx.Done():
			return r.retire(current)
		case <-current.done:
			return errors.Join(errors.New("the node ended"), r.retire(current))
		case <-changes:
			if current, err = r.change(ctx, current); err != nil {
				return unlessEnded(ctx, err)
			}
		}
	}
}

// unlessEnded drops the error of an interrupted start.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// change reads the file and returns the generation to serve. It fails only if none can start.
func (r *reloader) change(ctx context.Context, current *generation) (*generation, error) {
	content, err := r.read()
	if !r.fresh(content, err) {
		return current, nil // another file of the folder changed
	}
	var conf *config.Server
	if err == nil {
		r.seen = content
		conf, err = r.load()
	}
	if err == nil {
		err = needsNoRestart(current.conf, conf)
	}
	if err != nil {
		r.refused.Store(&err)
		// The trailing newline starts the error on its own line, for one mistake or more.
		r.log.Error("configuration rejected, keeping the previous one", "file", r.file, "err", err.Error()+"\n")
		return current, nil
	}
	r.refused.Store(nil)
	r.log.Info("configuration changed, reloading", "file", r.file)
	if err := r.retire(current); err != nil {
		r.log.Error("node shutdown failed", "err", err)
	}
	next, err := r.start(ctx, conf)
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		r.refused.Store(&err)
		r.log.Error("configuration start failed, reverting", "file", r.file, "err", err)
		if next, err = r.start(ctx, current.conf); err != nil {
			return nil, fmt.Errorf("revert to the previous configuration: %w", err)
		}
	}
	r.serving.set(next.handler)
	if next.conf == conf {
		r.log.Info("configuration reloaded", "file", r.file, "serves", strings.Join(serves(conf), ", "))
	} else {
		r.log.Info("configuration reverted", "file", r.file, "serves", strings.Join(serves(next.conf), ", "))
	}
	return next, nil
}

// fresh reports whether reading the file gave a result different from the last one, including errors.
// The log may be in the same folder: repeating an error for each of its lines would never end.
func (r *reloader) fresh(content []byte, err error) bool {
	unread := ""
	if err != nil {
		unread = err.Error()
	}
	known := unread == r.unread
	r.unread = unread
	if err != nil {
		return !known
	}
	return !bytes.Equal(content, r.seen)
}

// retire rejects new requests, waits for those in progress, and stops the node.
func (r *reloader) retire(g *generation) error {
	pages := originsOf(g.conf.CORS, true)
	left := r.serving.set(pages.middleware(parleyhttp.Unavailable(reloadRetry)))
	g.drain()
	select {
	case <-left:
	case <-g.done:
	case <-time.After(retireTimeout):
		r.log.Warn("open requests interrupted")
	}
	return g.stop()
}

// needsNoRestart rejects a configuration that this process cannot apply.
func needsNoRestart(old, conf *config.Server) error {
	switch {
	case old.Listen != conf.Listen:
		return fmt.Errorf("listen is now %s, was %s: that needs a restart; until then the new file is ignored", conf.Listen, old.Listen)
	case old.Bucket != conf.Bucket:
		return fmt.Errorf("bucket is now %s, was %s: that needs a restart; until then the new file is ignored",
			conf.Bucket.Place(), old.Bucket.Place())
	}
	return nil
}

// watchFolders watches the folders of a file and of its link target. Editors and deployments replace
// files and links, and a watch on a replaced file reports nothing.
func watchFolders(file string) (*fsnotify.Watcher, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(file)
	if err == nil {
		err = errors.Join(w.Add(filepath.Dir(file)), w.Add(filepath.Dir(real)))
	}
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// watch reports changes in the watched folders, debounced, until ctx ends. Its events are only hints.
func watch(ctx context.Context, w *fsnotify.Watcher, log *slog.Logger, changes chan<- struct{}) {
	timer := time.NewTimer(reloadLatest)
	timer.Stop()
	var first time.Time // time of the first event that is not reported yet
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			first = time.Time{}
			select {
			case changes <- struct{}{}:
			default: // already reported
			}
			continue
		case err := <-w.Errors:
			log.Warn("configuration watch lost events", "err", err)
		case <-w.Events:
		}
		if first.IsZero() {
			first = time.Now()
		}
		timer.Reset(min(reloadPause, time.Until(first.Add(reloadLatest))))
	}
}
