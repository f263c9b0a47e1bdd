// Package s3server runs third-party S3 servers for tests that need more than the bucket of
// storage/local.
//
// Tests of storage and of the whole stack call [Each], or [Versitygw] or [MinIO] for one server, and
// [Server.Bucket] for every empty bucket. The programs are not dependencies of the module: "make
// servers" builds the pinned versions into ./bin. The variables PARLEY_TEST_VERSITYGW and
// PARLEY_TEST_MINIO select others.
//
// MinIO is under the AGPL. It is built from its own module, in no build list of this one, and runs as
// its own process: nothing here imports or links it.
//
// Guarantees:
//
//  1. A server listens on a loopback address of this process alone, and answers when it is
//     returned. It has its own keys, and its own data in the test's temporary folder.
//  2. It inherits only PATH from the environment and uses no network. versitygw runs on any file
//     system; on one with extended attributes it runs in its regular mode.
//  3. It ends before the test that started it. It also ends when the process of the test ends in
//     another way, for example by a timeout.
//  4. A test without its program fails and names the remedy. None is skipped.
//
// A Server is safe for concurrent use. Package proc runs its process, and the test's cleanup waits for
// it. A crash of the test process leaves its temporary folder, but no process.
package s3server
