// Package local is the embedded default bucket: a [storage.Bucket] over one data folder,
// so that an installation without an object store needs nothing beside its own process.
//
// The command opens a Store and hands it to the runtime, and so do programs that use
// Parley as a library. Tests use NewMemory, which is the same bucket over a map.
//
// Guarantees:
//
//  1. A write that succeeded is on stable storage, and the log which holds it was in the
//     folder after that.
//  2. Of any number of concurrent creates of one key exactly one succeeds; to the others
//     the object exists.
//  3. No read returns, and no list is formed from, a write that could still be
//     lost: reads wait for the commits in flight on the keys they cover.
//  4. A list started after a write succeeded contains that write.
//  5. A body whose length or declared digest does not match leaves no trace.
//  6. One process per folder; a second Open fails with *LockedError.
//  7. A folder that holds data, but lacks files by which the engine finds it, or whose
//     manifest or log does not begin with what was synced of it, is refused with
//     *IncompleteError and not changed.
//  8. A commit that cannot be made durable ends the process (Options.Fatal), as
//     nobody can say any more which of the visible writes would survive. So does
//     a log that cannot be begun, one that is not in the folder any more, and a
//     folder of the engine that cannot be synced.
//  9. OpenReadOnly changes no byte of the folder.
//
// Any other failure of a write leaves its outcome unknown to the caller, who resolves it by
// reading back. So does a context that ends while a commit is under way: nobody waits for a
// disk that stalls.
//
// A Store is safe for concurrent use. Its only goroutines are the requests under way, which
// Close waits for, and those of the engine, which Close ends. An
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
// The folder holds db (the engine, a Pebble store, and extents, which state how much of
// its logs and manifests was synced), objects (one file per large object version) and tmp
// (uploads in progress, cleared by Open).
package local
