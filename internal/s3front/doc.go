// Package s3front serves any [storage.Bucket] as the part of S3 that storage/s3 speaks: over a
// network as an [http.Handler], within the process as an [http.RoundTripper].
//
// Tests of the S3 client and of what uses it call it, and the bench of clusters; it is no part
// of the product. What is checked, which of two creates wins and what a LIST shows is the
// bucket's affair. One that storagetest.Faulty decorates makes a store, or a network, that
// fails so.
//
// It knows PUT, plain and with If-None-Match: *, GET, whole and of one range with two bounds,
// DELETE, and one page of ListObjectsV2, path style, in the bucket [Bucket]. Everything else is
// answered with 501. Signatures are not checked.
//
// Guarantees:
//
//  1. An error of the bucket is answered with its Status and Code, or with those that
//     storage/s3 makes the same kind of. One without an answer, whose outcome is not known, is
//     none to a RoundTrip either; over a network it is a 500.
//  2. A RoundTrip ends with the context of its request. Its goroutine, the only one, ends with
//     the call of the bucket; whoever closes the bucket waits for that.
//  3. A body is taken as a whole, and held in memory. An object is streamed.
//
// A Front is safe for concurrent use and works in a synctest bubble.
package s3front
