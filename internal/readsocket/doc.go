// Package readsocket gives commands read access to a data folder that another process serves. The
// server offers its bucket on a Unix socket, and [Open] returns that bucket in another process.
//
// The file read.address in the data folder holds the path of the socket. The socket is in a separate
// folder, mode 0700, of the system's temporary files, for two reasons: a socket address is limited to
// some 100 bytes, and a stale socket in the data folder would break tools that copy folders. It has
// the mode 0600 and needs no other authentication: a process that may read the data folder may
// connect.
//
// Command parley uses both ends. The protocol is HTTP with three requests: GET / is the handshake,
// /object an object or a range of it, /list a page of a listing. Both ends must be of one version; the
// handshake refuses others.
//
// Guarantees:
//
//  1. The server only calls Open and List of its bucket: it never writes.
//  2. [Bucket] returns the same data and the same kinds of errors as the bucket of the server.
//     Writes are refused without a request.
//  3. The server has at most 32 connections, each of which holds one object of up to 256 KiB, or a
//     file, and 32 KiB. A client that reads nothing for 5 minutes is disconnected.
//  4. Close removes the socket and the file. The files of a killed process are removed by the
//     next [Serve] of the folder.
//  5. [Open] changes no byte of the folder.
//
// Everything is safe for concurrent use.
package readsocket
