// Package segment is the bytes of a log: the batch, what it is chained by, and the
// segment, one immutable object that holds consecutive batches. It is pure: no I/O, no
// clock. Package storage reads and writes the objects.
//
// A segment is zstd frames of about 64 KiB of JSON lines, and an index of them in a
// trailing skippable frame. A decoder passes over that one, so that any zstd tool
// and whatever reads JSON lines can read a segment as it is.
//
//	offset     bytes  what
//	0          ...    frames: zstd, with content size and checksum
//	...        4      5E 2A 4D 18, the magic number of a skippable frame
//	...        4      n+8, little endian: the size of what follows
//	...        n      the index: one zstd frame of one line of JSON, see [Index]
//	size-8     4      n, little endian
//	size-4     4      "PSEG"
//
// The content of a frame is, for each batch, a header line and its record lines. A
// batch is never split, so that a frame is longer than 64 KiB if its only batch is.
//
//	{"v":8,"seq":64,"prev":"…","nonce":"…","first":false,"epoch":0,"records":1,"at":"…"}   the first batch of a frame
//	{"records":1,"at":"…"}                                                                 one that follows by the same writer
//	{"nonce":"…","first":true,"epoch":1,"records":0,"at":"…"}                              one by another writer, or of another epoch
//
// What is left out follows from the batch before: seq is one more, prev its hash.
// The hashes themselves are computed anew from the lines, so that a frame proves
// itself: its first prev must be the hash that the frame before it ends with, and the
// last the hash in the index.
//
// Guarantees:
//
//  1. A [Builder] takes only batches that follow each other by number and hash.
//  2. [Codec.Index] and [Codec.Frame] return what a Builder was given, or an error: a
//     frame is held against the index, its writers and their claims included. What a
//     frame claims to hold is compared with a limit before memory is taken for it.
//
// A Codec is safe for concurrent use.
package segment
