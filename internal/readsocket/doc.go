// Package readsocket lets commands read a data folder next to the process that serves it: the
// server offers its bucket on a Unix socket, and [Open] is that bucket in another process.
//
// The folder has a file, read.address, with the path of the socket. The socket itself lies in a
// folder of its own, mode 0700, of the system's temporary files: an address of a socket has room
// for some 100 bytes, and a socket that a crash left in the data folder would stop tools that copy
// folders. It has the mode 0600 and needs no other authentication: a process that may read the
// data folder may connect.
//
// Command parley calls both ends. The protocol is HTTP with three requests: GET / is the
// handshake, /object an object or a range of it, /list a page of a listing. Both ends are of one
// version; the handshake refuses others.
//
// Guarantees:
//
//  1. The server calls Open and List of its bucket and nothing else: it never writes.
//  2. What [Bucket] returns is what the bucket of the server returns, by the same kinds of errors.
//     Its writes are refused without a request.
//  3. The server has at most 32 connections, each of which holds one object of up to 256 KiB, or a
//     file, and 32 KiB. A client that takes nothing for 5 minutes is disconnected.
//  4. Close removes the socket and the file. What a killed process has left is removed by the
//     next [Serve] of the folder.
//  5. [Open] changes no byte of the folder.
//
// Everything is safe for concurrent use.
package readsocket
