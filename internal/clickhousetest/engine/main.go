// Command engine is a ClickHouse server for tests: the library libchdb behind the native protocol and
// the HTTP protocol, as the Go driver uses them.
//
// Package clickhousetest builds, runs and kills it. It is a separate process so that a test can kill
// it like a crash, and so that the library is not in the memory of tests.
//
//	engine -lib libchdb.so -path folder -native host:port -http host:port
//
// It runs until it is killed.
//
// Guarantees:
//
//  1. Every connection, and every request over HTTP, has its own current database and
//     settings. Statements of different connections run concurrently.
//  2. Rows of an acknowledged INSERT survive a kill of the process. They are not synced: a
//     crash of the machine may lose them.
//  3. Any user and password are accepted. The user readonly may not write: the engine
//     rejects it with code 164.
//
// Not supported: external tables, HTTP sessions, totals, profile logs and events, and quotas.
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
