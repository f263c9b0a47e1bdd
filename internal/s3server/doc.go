// Package s3server runs S3 servers that others wrote, for the tests that must hold
// on more than the bucket of storage/local.
//
// Tests of storage and of the whole stack call [Each], or [Versitygw] or [MinIO]
// for one of them, and [Server.Bucket] for every empty bucket they need. The
// programs are not dependencies of the module: "make servers" builds the pinned
// versions into ./bin, where they are looked for; the variables
// PARLEY_TEST_VERSITYGW and PARLEY_TEST_MINIO name others.
//
// MinIO is under the AGPL. It is built from its own module, in no build list of
// this one, and runs as a process of its own: nothing here imports or links it.
//
// Guarantees:
//
//  1. A server listens on a loopback address of this process alone, has its own keys and
//     its own data in the test's temporary folder, and answers when it is returned.
//  2. It takes nothing from the environment but PATH, and reaches for no network.
//     versitygw runs on any file system. On one with extended attributes, as nearly
//     all have, it is the server as it is meant to be run.
//  3. It ends before the test that started it is over. It ends as well when the
//     process of the test ends in another way, for example by a time-out.
//  4. A test without its program fails and names the remedy. None is skipped.
//
// A Server is safe for concurrent use. Package proc runs its process, and the test's
// cleanup waits for that.
//
// After a crash of the test process its temporary folder is left, and no process.
package s3server
