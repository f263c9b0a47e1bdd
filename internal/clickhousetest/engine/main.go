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
// It runs until it is killed.
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
	"flag"
	"log/slog"
	"net"
	"net/http"
	"os"
)

func main() {
	lib := flag.String("lib", "", "file of libchdb")
	path := flag.String("path", "", "folder of the data")
	native := flag.String("native", "127.0.0.1:9000", "where to serve the native protocol")
	web := flag.String("http", "127.0.0.1:8123", "where to serve HTTP")
	flag.Parse()
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	logger.Error("engine ends", "err", run(logger, *lib, *path, *native, *web))
	os.Exit(1)
}

func run(logger *slog.Logger, lib, path, native, web string) error {
	e, err := openEngine(lib, path)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", native)
	if err != nil {
		return err
	}
	ended := make(chan error, 2)
	go func() { ended <- http.ListenAndServe(web, e) }()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				ended <- err
				return
			}
			go func() {
				if err := e.serveNative(conn); err != nil {
					logger.Info("connection ends", "err", err)
				}
			}()
		}
	}()
	return <-ended
}
