// Package local is the embedded default bucket: a [storage.Bucket] over one data folder, so that an
// installation without an object store needs only its own process.
//
// The command opens a Store and passes it to the runtime, as do programs that use Parley as a library.
// Tests use NewMemory, the same bucket over a map.
//
// Guarantees:
//
//  1. A successful write is on stable storage, and its log was in the folder after that.
//  2. Of concurrent creates of one key exactly one succeeds; the others fail because the object
//     exists.
//  3. No read or list returns a write that could still be lost: reads wait for the commits in
//     flight on their keys.
//  4. A list that starts after a successful write includes it.
//  5. A body whose length or declared digest does not match leaves no trace.
//  6. One process per folder; a second Open returns *LockedError.
//  7. A folder with data is rejected with *IncompleteError, and not changed, if it lacks files of
//     the engine. The same holds if a manifest or log does not begin with its synced bytes.
//  8. A commit that cannot be made durable ends the process (Options.Fatal), because it is unknown
//     which visible writes would survive. So does a log that cannot be created or has disappeared
//     from the folder, and a folder of the engine that cannot be synced.
//  9. OpenReadOnly changes no byte of the folder.
//
// Any other failure of a write leaves its outcome unknown to the caller, who resolves it by reading
// back. So does a context that ends during a commit: callers do not wait for a stalled disk.
//
// A Store is safe for concurrent use. Its goroutines are the requests in progress, which Close waits
// for, and those of the engine, which Close ends. An Open that cannot flush the log into tables
// returns the cause. The engine keeps retrying and keeps the folder locked until it succeeds or the
// process ends.
//
// After a crash the next Open recovers every acknowledged write from the engine's log, if the folder
// still exists. An object above Options.LargeObjectBytes is a file. The file is complete and synced
// before its key exists, and is removed after the key is gone. Open removes files without a key, which
// a crash left behind.
//
// While the engine cannot write tables it retries with a growing backoff and logs less and less often;
// writes go into the log. When writes would have to wait for a table, the process ends as for a failed
// commit.
//
// The folder contains db (the engine, a Pebble store, and extents, which record how much of its logs
// and manifests was synced), objects (one file per large object version) and tmp (uploads in progress,
// cleared by Open).
package local
