// Package s3 implements storage.Bucket over any S3-compatible store with minio-go.
//
// Package cmd creates a [Bucket] and passes it to storage and actors. The transport is an option: TCP
// to an endpoint, or in tests one that serves a bucket in process. All other code is the same for
// both.
//
// Guarantees:
//
//  1. One call is one HTTP request. Retries by minio-go would turn a lost answer into a
//     412 on the caller's own write. So the transport permits one request per call and then
//     ends the call's context, which leaves the global minio.DefaultRetryUnit unchanged and
//     avoids its delay.
//  2. Every write is one PUT with a signed payload digest, whatever its size.
//     Multipart uploads, which drop the condition, are never used.
//  3. Errors are classified by status and code in one table, see [Bucket.Create].
//     A write without a response, or with a 5xx, is ErrUncertain.
//  4. After a write returns, its body is not read any more.
//  5. With [NewTransport], an early rejection by a server that closes the connection before it
//     has read a large body is reported as such, not as an unknown outcome.
//
// A Bucket is safe for concurrent use and starts no goroutine. The package keeps no state that a crash
// could lose.
package s3
