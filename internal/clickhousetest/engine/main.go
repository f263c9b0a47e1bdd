// Command engine is a ClickHouse server for tests: the engine of the library
// libchdb behind the native protocol and the HTTP protocol, as the Go driver speaks
// them.
//
// Package clickhousetest builds it, runs it and kills it. It is a process of its
// own, so that a test can end it as a crash would and so that the library is in no
// test's memory.
//
//	engine -lib libchdb.so -path folder -native host:port -http host:port
//
// It ends at a SIGTERM.
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
	"errors"
	"flag"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

func main() {
	lib := flag.String("lib", "", "file of libchdb")
	path := flag.String("path", "", "folder of the data")
	native := flag.String("native", "127.0.0.1:9000", "where to serve the native protocol")
	web := flag.String("http", "127.0.0.1:8123", "where to serve HTTP")
	flag.Parse()
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, logger, *lib, *path, *native, *web); err != nil {
		logger.Error("engine ends", "err", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, logger *slog.Logger, lib, path, native, web string) error {
	e, err := openEngine(lib, path)
	if err != nil {
		return err
	}
	defer e.close()
	nativeListener, err := net.Listen("tcp", native)
	if err != nil {
		return err
	}
	defer nativeListener.Close()
	webListener, err := net.Listen("tcp", web)
	if err != nil {
		return err
	}
	var served sync.WaitGroup
	served.Go(func() { acceptNative(ctx, logger, e, nativeListener) })
	server := &http.Server{Handler: e, BaseContext: func(net.Listener) context.Context { return ctx }}
	served.Go(func() {
		<-ctx.Done()
		_ = nativeListener.Close()
		_ = server.Shutdown(context.Background()) // Statements of requests are killed: it waits for their handlers.
	})
	if err = server.Serve(webListener); errors.Is(err, http.ErrServerClosed) {
		served.Wait()
		return nil
	}
	return err // Which ends the process.
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
