// Package clickhousetest runs a ClickHouse server for tests.
//
// A test calls [Start] for the server that the tests of its process share, as its start costs
// more than most of them, or [StartOwn] for one that it may stop, and connects to it with the
// driver it means to use. It calls [Server.Database] for every empty database it needs.
//
// Which server that is: the one that the variable PARLEY_TEST_CLICKHOUSE names, as
// clickhouse://user:password@host:port/?http_port=8123, which is shared only; or the program
// clickhouse, if it is in PATH; or the engine, which is ClickHouse as a library in a process
// of its own (see folder engine). The library is no dependency of the module: "make engine"
// installs the pinned version into test/engine, where it is looked for.
//
// Guarantees:
//
//  1. A server that is started here listens on a loopback address of this process alone,
//     keeps its data in a temporary folder of its own, takes nothing from the environment but
//     PATH, and answers when it is returned.
//  2. It lets in the user default and, who may only read, the user readonly, both
//     without a password.
//  3. It ends with the test whose own it is, and at the latest with the process that started
//     it. So does its temporary folder.
//  4. [Own.Stop] ends it as a crash would. After [Own.Restart] it has its addresses and every
//     row that was acknowledged.
//  5. A test without any server fails and names the remedy. None is skipped.
//
// A Server is safe for concurrent use. Stop and Restart of an Own run one at a time. Package
// proc runs its process.
//
// After a crash of the process that started it neither server nor temporary folder is left.
package clickhousetest
