// Package wire holds the protobuf messages between a node's edges and its conversation actors. They
// are plain data: package actors builds and reads them, package grain carries them. A message never
// changes after it is sent, because local delivery passes the pointer. No message exceeds 256 KiB:
// attachments are staged in the bucket first.
//
// After a change of wire.proto run "make generate".
package wire

//go:generate protoc --go_out=. --go_opt=paths=source_relative wire.proto
