// Package s3 implements storage.Bucket over any S3-compatible store, by minio-go.
//
// Package cmd makes a [Bucket] and hands it to storage and actors. The transport
// is an option: TCP to an endpoint, or in tests one that serves a bucket in process;
// everything above it is the same code.
//
// Guarantees:
//
//  1. One call is one HTTP request. minio-go's own repetition, which turns a lost
//     answer into a 412 on one's own write, is cut off: its transport admits one
//     request per call and ends the call's context with it. So the process-wide
//     minio.DefaultRetryUnit is left alone and no time is lost to it.
//  2. Every write is one PUT with a signed payload digest, whatever its size.
//     Multipart uploads, which drop the condition, are never used.
//  3. Errors are classified by status and code in one table, see [Bucket.Create].
//     A write whose answer did not arrive, or was a 5xx, is ErrUncertain.
//  4. After a write returns, its body is not read any more.
//  5. Over [NewTransport], the refusal of a server that hangs up before it has read
//     a large body is reported as what it is, not as an unknown outcome.
//
// A Bucket is safe for concurrent use and starts no goroutine.
//
// After a crash nothing of this package is left: it keeps no state.
package s3
