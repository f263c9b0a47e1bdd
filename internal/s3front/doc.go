// Package s3front serves any [storage.Bucket] through the part of S3 that storage/s3 uses: over a
// network as an [http.Handler], within the process as an [http.RoundTripper].
//
// Tests of the S3 client and its users call it, and the cluster benchmarks; it is not part of the
// product. The bucket decides on validity, on the winner of two creates and on the content of a LIST.
// A bucket decorated by storagetest.Faulty simulates a failing store or network.
//
// It supports PUT, plain and with If-None-Match: *, GET, whole and of one range with two bounds,
// DELETE, and one page of ListObjectsV2, path style, in the bucket [Bucket]. Any other request gets
// 501. Signatures are not checked.
//
// Guarantees:
//
//  1. An error of the bucket becomes a response with its Status and Code, or with those that
//     storage/s3 maps to the same kind. An error without an answer, whose outcome is unknown,
//     is an error of RoundTrip, and a 500 over a network.
//  2. A RoundTrip ends with the context of its request. Its only goroutine ends with the call
//     of the bucket; the owner of the bucket waits for that before closing it.
//  3. A body is read as a whole and held in memory. An object is streamed.
//
// A Front is safe for concurrent use and works in a synctest bubble.
package s3front
