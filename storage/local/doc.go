// Package local is the embedded default bucket: a small subset of S3 served by
// an http.Handler over one data folder, so that an installation without an
// object store needs nothing beside its own process.
//
// The command opens a Store and hands it as the Transport to the same S3 client
// that speaks to a network endpoint; nothing else calls it. There is one
// implementation of the bucket and this package only varies what stands behind
// its transport. Tests use NewMemory, which is the same handler over a map.
//
// The handler knows PUT (plain and with If-None-Match: *), GET with one range,
// HEAD, DELETE, CopyObject and ListObjectsV2, path style, in the bucket named
// Bucket. Everything else, including every header that asks for something it
// would have to ignore, is answered with 501 or 405. Signatures are not checked:
// whoever can call the Store is already inside the process.
//
// Guarantees:
//
//  1. A 200 or 204 for a write means that the write is on stable storage, and that
//     the log which holds it was in the folder after that.
//  2. Of any number of concurrent PUTs with If-None-Match: * for one key exactly
//     one succeeds; the others answer 412.
//  3. No read returns, and no list is formed from, a write that could still be
//     lost: reads wait for the commits in flight on the keys they cover.
//  4. A list started after a write was answered contains that write.
//  5. A body whose length or declared digest does not match leaves no trace.
//  6. One process per folder; a second Open fails with *LockedError.
//  7. A folder that holds data, but lacks files by which the engine finds it, is
//     refused with *IncompleteError and not changed.
//  8. A commit that cannot be made durable ends the process (Options.Fatal), as
//     nobody can say any more which of the visible writes would survive. So does
//     a log that cannot be begun, one that is not in the folder any more, and a
//     folder of the engine that cannot be synced.
//
// Every other error answer to a write, in particular a 5xx, leaves the outcome
// unknown to the client, which resolves it by reading back.
//
// A Store is safe for concurrent use. Its only goroutines are the requests in
// RoundTrip, which Close waits for, and those of the engine, which Close ends. An
// Open that cannot put the log into tables returns why; the engine, which goes on
// to try, keeps the folder locked until it succeeds or the process ends.
//
// After a crash the next Open recovers every acknowledged write from the
// engine's log, if the folder is still there. An object above
// Options.LargeObjectBytes is a file which is complete and synced before the key
// that names it exists and which is removed after that key is gone; Open removes
// the files that a crash left without a key.
//
// While the engine cannot make tables it tries again at growing intervals, and says
// so at growing intervals; writes go into the log. When they would have to wait for
// a table, the process ends as for a failed commit.
//
// The folder holds db (the engine, a Pebble store), objects (one file per large
// object version) and tmp (uploads in progress, cleared by Open).
package local
