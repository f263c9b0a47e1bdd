// Command engine is a ClickHouse server for tests: the engine of the library
// libchdb behind the native protocol and the HTTP protocol, as the Go driver speaks
// them.
//
// Package clickhousetest builds it, runs it and kills it. It is a process of its
// own, so that a test can end it as a crash would and so that the library is in no
// test's memory.
//
//	engine -lib libchdb.so -path folder [-native host:port] [-http host:port]
//
// It prints one line of JSON with its addresses once it answers. It ends at a SIGTERM.
//
// Guarantees:
//
//  1. Every connection, and every request over HTTP, has its own current database
//     and settings. Statements of several run at once, as in a server.
//  2. Rows of an INSERT that was answered are there after the process was killed.
//     They are not synced: the end of the machine may lose them.
//  3. Any user and any password are let in. The user named readonly may not write:
//     the engine refuses it with code 164.
//
// Not served: external tables, queries that go on in a session over HTTP, totals,
// logs and events of the profile, and quotas.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

func main() {
	lib := flag.String("lib", "", "file of libchdb")
	path := flag.String("path", "", "folder of the data")
	native := flag.String("native", "127.0.0.1:0", "where to serve the native protocol; port 0 is a free one")
	web := flag.String("http", "127.0.0.1:0", "where to serve HTTP; port 0 is a free one")
	flag.Parse()
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, logger, *lib, *path, *native, *web); err != nil {
		logger.Error("engine ends", "err", err)
		os.Exit(1)
	}
}

// listenTimeout bounds the wait for an address that is taken.
const listenTimeout = 20 * time.Second

// listen waits while somebody else uses the address: a server that starts again wants its
// old one, which may have been given away meanwhile, for a connection as a rule.
func listen(address string) (net.Listener, error) {
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		l, err := net.Listen("tcp", address)
		if !errors.Is(err, syscall.EADDRINUSE) || time.Since(began) > listenTimeout {
			return l, err
		}
	}
}

func run(ctx context.Context, logger *slog.Logger, lib, path, native, web string) error {
	nativeListener, err := listen(native)
	if err != nil {
		return err
	}
	defer nativeListener.Close()
	webListener, err := listen(web)
	if err != nil {
		return err
	}
	defer webListener.Close()
	e, err := openEngine(lib, path)
	if err != nil {
		return err
	}
	defer e.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := &http.Server{Handler: e, BaseContext: func(net.Listener) context.Context { return ctx }}
	var served sync.WaitGroup
	served.Go(func() {
		if err := server.Serve(webListener); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("http ends", "err", err)
			cancel()
		}
	})
	served.Go(func() { acceptNative(ctx, logger, e, nativeListener) })
	addresses, err := json.Marshal(map[string]string{"native": nativeListener.Addr().String(), "http": webListener.Addr().String()})
	if err == nil {
		_, err = fmt.Printf("%s\n", addresses)
	}
	if err != nil {
		cancel()
	}
	<-ctx.Done()
	nativeListener.Close()
	_ = server.Shutdown(context.Background()) // Statements of requests are killed: it waits for their handlers.
	served.Wait()
	return err
}

// acceptNative serves connections until the listener is closed, and returns when
// the last one has ended.
func acceptNative(ctx context.Context, logger *slog.Logger, e *engine, l net.Listener) {
	var served sync.WaitGroup
	defer served.Wait()
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		served.Go(func() {
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			defer stop()
			if err := e.serveNative(conn); err != nil {
				logger.Info("connection ends", "err", err)
			}
		})
	}
}
