// Package wire holds the protobuf messages between the two halves of a node: its edges, which accept
// requests of clients, and its conversation actors. Messages between nodes are the same. They are
// plain data: package actors builds and reads them, package grain carries them.
//
// A message never changes after it is sent, because local delivery passes the pointer. No message
// exceeds 256 KiB: attachments are uploaded to the bucket first and sent as references.
//
// After a change of wire.proto run "make generate".
package wire

//go:generate protoc --go_out=. --go_opt=paths=source_relative wire.proto
