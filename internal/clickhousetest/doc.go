// Package clickhousetest runs a ClickHouse server for tests.
//
// A test calls [Start] for the server that the tests of its process share, because its start costs
// more than most of them. It calls [StartOwn] for a server that it may stop. It connects with the
// driver of its choice and calls [Server.Database] for every empty database.
//
// The variable PARLEY_TEST_CLICKHOUSE may name a server, as
// clickhouse://user:password@host:port/?http_port=8123, which is only shared. Otherwise the program
// clickhouse in PATH is used, or else the engine, which is ClickHouse as a library in its own process
// (see folder engine). The library is not a dependency of the module: "make engine" installs the
// pinned version into test/engine.
//
// Guarantees:
//
//  1. A started server listens on a loopback address of this process alone, and answers when it is
//     returned. It keeps its data in its own temporary folder, and inherits only PATH from the
//     environment.
//  2. It accepts the user default and the read-only user readonly, both without a password.
//  3. It ends with the test that owns it, and at the latest with the process that started it. So
//     does its temporary folder.
//  4. [Own.Stop] ends it like a crash. After [Own.Restart] it has its addresses and every
//     acknowledged row.
//  5. A test without any server fails and names the remedy. None is skipped.
//
// A Server is safe for concurrent use. Stop and Restart of an Own must not run concurrently. Package
// proc runs its process.
//
// A crash of the process that started the server leaves neither server nor temporary folder.
package clickhousetest
