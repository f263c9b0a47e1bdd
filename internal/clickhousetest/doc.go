// Package clickhousetest runs a ClickHouse server for tests.
//
// Tests and the benchmarks of whole systems call [Start], or [Run] where there is no
// test, and connect to the server with the driver they mean to use. A test calls
// [Server.Database] for every empty database it needs. The tests of a process share a
// server, as its start costs more than most of them; one that stops it asks for its own.
//
// Which server that is: the one that the variable PARLEY_TEST_CLICKHOUSE names, as
// clickhouse://user:password@host:port/?http_port=8123; or the program clickhouse, if
// it is in PATH; or the engine, which is ClickHouse as a library in a process of its
// own (see folder engine). The library is no dependency of the module: "make engine"
// installs the pinned version into test/engine, where it is looked for.
//
// Guarantees:
//
//  1. A server that is started here listens on the loopback interface alone, keeps
//     its data in a folder of its own, takes nothing from the environment but PATH,
//     and answers when it is returned.
//  2. It lets in the user default and, who may only read, the user readonly, both
//     without a password.
//  3. It ends before Close returns, and at the latest with the process that started
//     it. So does its temporary folder.
//  4. [Server.Stop] ends it as a crash would. After [Server.Restart] it has its
//     addresses and every row that was acknowledged. A shared one refuses both.
//  5. A test without any server fails and names the remedy. None is skipped.
//
// A Server is safe for concurrent use, but for Stop, Restart and Close, of which one
// runs at a time. Package proc runs its process, and Close waits for that.
//
// After a crash of the process that started it neither server nor temporary folder is left.
// Nothing is left of one in a folder that the caller named but its data.
package clickhousetest
