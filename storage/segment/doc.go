// Package segment defines the bytes of a log: the batch with its hash chain, and the segment, one
// immutable object that holds consecutive batches. It is pure: no I/O, no clock. Package storage reads
// and writes the objects.
//
// A segment is zstd frames of about 64 KiB of JSON lines, and an index of them in a trailing skippable
// frame. Decoders skip that one, so any zstd tool and any reader of JSON lines can read a segment.
//
//	offset     bytes  content
//	0          ...    frames: zstd, with content size and checksum
//	...        4      5E 2A 4D 18, the magic number of a skippable frame
//	...        4      n+8, little endian: the size of the rest
//	...        n      the index: one zstd frame of one line of JSON, see [Index]
//	size-8     4      n, little endian
//	size-4     4      "PSEG"
//
// The content of a frame is, for each batch, a header line and its record lines. A batch is never
// split, so a frame exceeds 64 KiB if its only batch does.
//
//	{"v":8,"seq":64,"prev":"…","nonce":"…","first":false,"epoch":0,"records":1,"at":"…"}   the first batch of a frame
//	{"records":1,"at":"…"}                                                                 a later one by the same writer
//	{"nonce":"…","first":true,"epoch":1,"records":0,"at":"…"}                              one by another writer, or of another epoch
//
// Omitted fields follow from the batch before: seq is one more, prev is its hash. Hashes are not
// stored but recomputed from the lines, so a frame verifies itself. Its first prev must be the last
// hash of the frame before, and the last hash of the segment must be the one in the index.
//
// Guarantees:
//
//  1. A [Builder] accepts only batches that are consecutive by number and hash.
//  2. [Codec.Index] and [Codec.Frame] return the input of a Builder, or an error: a frame
//     is checked against the index, including its writers and their claims. The claimed
//     size of a frame is compared with a limit before memory is allocated.
//
// A Codec is safe for concurrent use.
package segment
