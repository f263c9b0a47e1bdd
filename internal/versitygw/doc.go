// Package versitygw runs versitygw, an S3 server that others wrote, for the tests
// that must hold on more than the bucket of storage/local.
//
// Tests of storage and of the whole stack call [Start], and [Server.Bucket] for
// every empty bucket they need. The program is not a dependency of the module:
// "make servers" builds the pinned version into ./bin, where Start looks for it;
// the variable PARLEY_TEST_VERSITYGW names another one.
//
// Guarantees:
//
//  1. A server listens on 127.0.0.1 alone, has its own keys and its own data in
//     the test's temporary folder, and answers when Start returns.
//  2. It takes nothing from the environment, and runs on any file system. On one
//     with extended attributes, as nearly all have, it is the server as it is meant
//     to be run.
//  3. It ends before the test that started it is over. It ends as well when the
//     process of the test ends in another way, for example by a time-out.
//  4. A test without the program fails and names the remedy. None is skipped.
//
// A Server is safe for concurrent use. One goroutine waits for its process; the
// test's cleanup waits for that goroutine.
//
// After a crash of the test process its temporary folder is left, and no process.
package versitygw
